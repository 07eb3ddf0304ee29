/* Names of statuses. The error text of each thread lies in its per-thread memory (room.h). Without that, all threads
 * share a text. Structs are copied up to the smaller of the two sizes (error.h). */
#include "shim/base/error.h"

#include <dlfcn.h>
#include <string.h>

#include "shim/base/real_dl.h"
#include "shim/base/room.h"
#include "shim/gpumem.h"

enum { TEXT = 312, WHOLE = 2048, STRUCT_MOST = 4096 };

struct error {
    char text[TEXT];
    bool by_author;
};

GM_ROOM_FITS(struct error, error);

static struct error *latest(void) {
    static struct error shared;
    struct error *own = gm_room_part(GM_ROOM_ERROR);
    return own ? own : &shared;
}

GM_PUBLIC const char *gpumem_last_error(void) { return latest()->text; }

bool *gm_error_by_author(void) { return &latest()->by_author; }

/* NULL: the process has not loaded the driver, or the driver has no name. */
static const char *driver_name_of(int status) {
    static int (*found)(int, const char **);
    int (*name_of)(int, const char **) = __atomic_load_n(&found, __ATOMIC_RELAXED);
    const char *name = NULL;
    if (!name_of) {
        void *driver = gm_real_dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
        name_of = driver ? (int (*)(int, const char **))gm_real_dlsym(driver, "cuGetErrorName") : NULL;
        __atomic_store_n(&found, name_of, __ATOMIC_RELAXED);
    }
    return name_of && !name_of(status, &name) ? name : NULL;
}

GM_PUBLIC const char *gpumem_status_name(enum gpumem_status status) {
#define NAME(value) \
    case value: return #value
    switch (status) {
        NAME(GPUMEM_OK);
        NAME(GPUMEM_INVALID_VALUE);
        NAME(GPUMEM_OUT_OF_MEMORY);
        NAME(GPUMEM_NOT_INITIALIZED);
        NAME(GPUMEM_INVALID_CONTEXT);
        NAME(GPUMEM_NOT_FOUND);
        NAME(GPUMEM_TOO_SMALL);
        NAME(GPUMEM_NOT_SUPPORTED);
        NAME(GPUMEM_STREAM_CAPTURE);
        NAME(GPUMEM_UNKNOWN);
    }
#undef NAME
    const char *name = driver_name_of(status);
    return name ? name : "unknown status";
}

/* A text that is too long loses its middle: it begins with what failed and ends with why. */
static void store(char text[TEXT], const char *whole, size_t length) {
    static const char gap[] = " ... ";
    const size_t head = (TEXT - sizeof gap) / 2, tail = TEXT - sizeof gap - head;
    if (length < TEXT) {
        memcpy(text, whole, length + 1);
        return;
    }
    memcpy(text, whole, head);
    memcpy(text + head, gap, sizeof gap - 1);
    memcpy(text + head + sizeof gap - 1, whole + length - tail, tail);
    text[TEXT - 1] = '\0';
}

gm_status gm_fail(gm_status status, const char *format, ...) {
    char whole[WHOLE];
    va_list args;
    va_start(args, format);
    gm_vformat(whole, sizeof whole, format, args);
    va_end(args);
    store(latest()->text, whole, strlen(whole));
    return status;
}

gm_status gm_refuse(char *error, size_t size, const char *format, ...) {
    va_list args;
    va_start(args, format);
    gm_vformat(error, size, format, args);
    va_end(args);
    return GM_INVALID_VALUE;
}

/* A size out of these bounds was most likely not set, so it is refused. */
static gm_status size_of(const char *name, const void *theirs, size_t *size) {
    *size = 0;
    if (!theirs)
        return gm_fail(GM_INVALID_VALUE, "struct %s is NULL", name);
    memcpy(size, theirs, sizeof *size);
    if (*size >= sizeof *size && *size <= STRUCT_MOST)
        return GM_OK;
    return gm_fail(GM_INVALID_VALUE, "struct %s has struct_size %zu: set it to sizeof(struct %s)", name, *size, name);
}

gm_status gm_struct_read(const char *name, void *ours, size_t size, const void *theirs) {
    size_t their_size;
    gm_status status = size_of(name, theirs, &their_size);
    if (status)
        return status;
    for (size_t at = size; at < their_size; at++)
        if (((const char *)theirs)[at])
            return gm_fail(GM_NOT_SUPPORTED,
                           "struct %s has a field at byte %zu that gpumem %s does not know (it knows %zu bytes)", name,
                           at, GM_VERSION, size);
    memset(ours, 0, size);
    memcpy(ours, theirs, their_size < size ? their_size : size);
    return GM_OK;
}

gm_status gm_struct_write(const char *name, void *theirs, const void *ours, size_t size) {
    size_t their_size, head = sizeof their_size;
    gm_status status = size_of(name, theirs, &their_size);
    if (status)
        return status;
    memset((char *)theirs + head, 0, their_size - head);
    memcpy((char *)theirs + head, (const char *)ours + head, (their_size < size ? their_size : size) - head);
    return GM_OK;
}
