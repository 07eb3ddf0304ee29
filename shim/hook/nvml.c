/* Hooks of nvmlDeviceGetMemoryInfo and nvmlDeviceGetMemoryInfo_v2. Programs and their job managers read the memory of a
 * device there, as cuMemGetInfo has it for a context. Under GPUMEM_LIMIT they see a device of the limit's size, on
 * which the process, or its group, holds what it holds. Such a process may never call CUDA.
 *
 * NVML's header does not come with every toolkit, so the declarations are repeated here. */
#include "shim/hook/nvml.h"
#include "shim/base/base.h"
#include "shim/accounts/limit.h"
#include "shim/base/options.h"
#include "shim/base/real_dl.h"
#include "shim/base/events.h"

#include <dlfcn.h>
#include <string.h>

extern char **environ;

enum { NVML_SUCCESS = 0, NVML_ERROR_FUNCTION_NOT_FOUND = 13, UUID_TEXT = 96 };

struct nvml_memory {
    unsigned long long total, free, used;
};
struct nvml_memory_v2 {
    unsigned version;
    unsigned long long total, reserved, free, used;
};

typedef int (*memory_query)(void *device, void *memory);
typedef int (*uuid_query)(void *device, char *text, unsigned length);

int nvmlDeviceGetMemoryInfo(void *device, struct nvml_memory *memory);
int nvmlDeviceGetMemoryInfo_v2(void *device, struct nvml_memory_v2 *memory);

enum { V1, V2, ROWS };
static struct {
    const char *name;
    void *entry;
    void *true_function;
} rows[ROWS] = {
    [V1] = {"nvmlDeviceGetMemoryInfo", (void *)nvmlDeviceGetMemoryInfo, NULL},
    [V2] = {"nvmlDeviceGetMemoryInfo_v2", (void *)nvmlDeviceGetMemoryInfo_v2, NULL},
};

static int find_query(const char *name) {
    for (int row = 0; row < ROWS; row++)
        if (!strcmp(name, rows[row].name))
            return row;
    return -1;
}

bool gm_nvml_is_hooked(const char *name) { return name && !strncmp(name, "nvmlD", 5) && find_query(name) >= 0; }

static void *loaded_symbol(const char *name) {
    void *library = gm_real_dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_NOLOAD);
    return library ? gm_real_dlsym(library, name) : NULL;
}

/* NVML's own function: as a look-up found it, or for a program that is linked to NVML. */
static void *true_function(int row) {
    void *known = __atomic_load_n(&rows[row].true_function, __ATOMIC_ACQUIRE);
    if (!known) {
        known = loaded_symbol(rows[row].name);
        known = known ? known : gm_real_dlsym(RTLD_NEXT, rows[row].name);
        known = known == rows[row].entry ? NULL : known;
        __atomic_store_n(&rows[row].true_function, known, __ATOMIC_RELEASE);
    }
    return known;
}

void *gm_nvml_route(const char *name, void *found) {
    int row = find_query(name);
    if (row < 0)
        return found;
    if (found != rows[row].entry)
        __atomic_store_n(&rows[row].true_function, found, __ATOMIC_RELEASE);
    return true_function(row) ? rows[row].entry : NULL;
}

static int digit_of(char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* "GPU-" or "MIG-", then 32 hexadecimal digits with hyphens between them. */
static bool read_uuid(void *device, unsigned char uuid[16]) {
    uuid_query query = (uuid_query)loaded_symbol("nvmlDeviceGetUUID");
    char text[UUID_TEXT] = "";
    unsigned digits = 0;
    if (!query || query(device, text, sizeof text) != NVML_SUCCESS || strnlen(text, sizeof text) < 4)
        return false;
    memset(uuid, 0, 16);
    for (const char *p = text + 4; *p && digits < 32; p++) {
        int digit = digit_of(*p);
        if (digit >= 0) {
            uuid[digits / 2] |= (unsigned char)(digits % 2 ? digit : digit << 4);
            digits++;
        }
    }
    return digits == 32;
}

/* Changes the answer. False: no limit lowers it. */
static bool view(void *device, unsigned long long *free_bytes, unsigned long long *total_bytes) {
    unsigned char uuid[16] = {0};
    gm_process_prepare();
    gm_options_load(environ);
    gm_limit_start(gm_option_text(GM_OPT_GROUP), gm_option_number(GM_OPT_LIMIT));
    if (!gm_limit_on())
        return false;
    uint64_t room = *free_bytes, total = *total_bytes;
    read_uuid(device, uuid);
    gm_limit_view_uuid(uuid, &room, &total);
    if (room == *free_bytes && total == *total_bytes)
        return false;
    *free_bytes = room;
    *total_bytes = total;
    return true;
}

__attribute__((visibility("default"))) int nvmlDeviceGetMemoryInfo(void *device, struct nvml_memory *memory) {
    memory_query query = (memory_query)true_function(V1);
    int result = query ? query(device, memory) : NVML_ERROR_FUNCTION_NOT_FOUND;
    if (result == NVML_SUCCESS && memory && view(device, &memory->free, &memory->total))
        memory->used = memory->total - memory->free;
    return result;
}

__attribute__((visibility("default"))) int nvmlDeviceGetMemoryInfo_v2(void *device, struct nvml_memory_v2 *memory) {
    memory_query query = (memory_query)true_function(V2);
    int result = query ? query(device, memory) : NVML_ERROR_FUNCTION_NOT_FOUND;
    if (result == NVML_SUCCESS && memory && view(device, &memory->free, &memory->total)) {
        memory->reserved = 0; /* the driver's own memory is beyond the limit */
        memory->used = memory->total - memory->free;
    }
    return result;
}
