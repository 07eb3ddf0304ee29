/* What the card says: its free bytes, what this process has of the others, its graphs, the program's pools. */
#include "shim/start/card.h"

#include <dlfcn.h>
#include <unistd.h>

#include "shim/base/real_dl.h"
#include "shim/accounts/stats.h"
#include "shim/driver/internal_stream.h"
#include "shim/driver/program_pools.h"

/* ---- the card's management library, which knows what each process has in use. Where it is missing, or does not know
 * this process, the card's free memory is queried instead: other processes count, too. */

enum { PROCESSES = 256 };
struct nvml_process { /* of the functions with suffixes _v2 and _v3 */
    unsigned pid;
    unsigned long long bytes;
    unsigned instances[2];
};

static struct {
    int state; /* 0: not looked for, 1: found, -1: not found */
    int (*by_bus_id)(const char *, void **);
    int (*processes)(void *, unsigned *, struct nvml_process *);
    void *cards[GM_STATS_DEVICES];
    pid_t pid; /* the process that found it */
} nvml;
GM_ZERO_IN_CHILD(nvml);
static struct nvml_process processes[PROCESSES];

static bool find_nvml(void) {
    if (nvml.state)
        return nvml.state > 0;
    void *library = gm_real_dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL);
    int (*init)(void) = library ? (int (*)(void))gm_real_dlsym(library, "nvmlInit_v2") : NULL;
    nvml.state = -1;
    if (!init || init())
        return false;
    nvml.by_bus_id = (int (*)(const char *, void **))gm_real_dlsym(library, "nvmlDeviceGetHandleByPciBusId_v2");
    nvml.processes = (int (*)(void *, unsigned *, struct nvml_process *))gm_real_dlsym(
        library, "nvmlDeviceGetComputeRunningProcesses_v3");
    if (!nvml.processes)
        nvml.processes = (int (*)(void *, unsigned *, struct nvml_process *))gm_real_dlsym(
            library, "nvmlDeviceGetComputeRunningProcesses_v2");
    if (!nvml.by_bus_id || !nvml.processes)
        return false;
    nvml.pid = getpid();
    nvml.state = 1;
    return true;
}

static bool find_card(int device) {
    char bus_id[32];
    return nvml.cards[device] || (gm_drv.device_get_pci_bus_id &&
                                  gm_drv.device_get_pci_bus_id(bus_id, sizeof bus_id, device) == CUDA_SUCCESS &&
                                  !nvml.by_bus_id(bus_id, &nvml.cards[device]) && nvml.cards[device]);
}

/* Bytes that this process has in use on the card; 0: unknown, or another thread asks now. In a container the numbers of
 * processes may be those of the host. Then a process that is alone on the card, and has at least `reserved` bytes, is
 * this one. */
static uint64_t find_process(int device, uint64_t reserved, bool *alone) {
    unsigned count = PROCESSES;
    if (!find_nvml() || !find_card(device) || nvml.processes(nvml.cards[device], &count, processes))
        return 0;
    *alone = count == 1;
    for (unsigned i = 0; i < count && i < PROCESSES; i++)
        if ((processes[i].pid == (unsigned)getpid() || count == 1) && processes[i].bytes != ~0ull &&
            processes[i].bytes >= reserved)
            return processes[i].bytes;
    return 0;
}

static uint64_t bytes_of_process(int device, bool *alone) {
    static int busy;
    if (__atomic_exchange_n(&busy, 1, __ATOMIC_ACQUIRE))
        return 0;
    uint64_t reserved = __atomic_load_n(&gm_stats->reserved_on[device], __ATOMIC_RELAXED),
             away = __atomic_load_n(&gm_stats->suspended.away_on[device], __ATOMIC_RELAXED);
    uint64_t bytes = find_process(device, reserved > away ? reserved - away : 0, alone);
    __atomic_store_n(&busy, 0, __ATOMIC_RELEASE);
    return bytes;
}

uint64_t gm_card_own_at_end(int device) {
    bool found = nvml.pid == getpid() && nvml.cards[device], alone;
    return found ? bytes_of_process(device, &alone) : 0;
}

/* ---- the driver; the device's context is current */

/* The largest pools are shown, the largest first. */
static void add_pool(CUmemoryPool pool, bool is_default, void *arg) {
    struct gm_card *card = arg;
    cuuint64_t reserved = 0, used = 0;
    if (gm_drv.mem_pool_get_attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved) != CUDA_SUCCESS ||
        gm_drv.mem_pool_get_attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used) != CUDA_SUCCESS || !reserved)
        return;
    card->pools += reserved;
    card->pool_count++;
    unsigned at = GM_ACCOUNT_POOLS_SHOWN;
    while (at && reserved > card->shown[at - 1].reserved)
        at--;
    if (at == GM_ACCOUNT_POOLS_SHOWN)
        return;
    for (unsigned i = GM_ACCOUNT_POOLS_SHOWN - 1; i > at; i--)
        card->shown[i] = card->shown[i - 1];
    card->shown[at] = (struct gm_account_pool){is_default ? 0 : (uint64_t)(uintptr_t)pool, reserved, used};
}

static uint64_t bytes_of_graphs(int device) {
    cuuint64_t bytes = 0;
    if (!gm_drv.device_get_graph_mem_attribute ||
        gm_drv.device_get_graph_mem_attribute(device, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &bytes) != CUDA_SUCCESS)
        return 0;
    return bytes;
}

static bool ask_driver(int device, struct gm_card *card) {
    size_t free_bytes = 0, total = 0;
    if (gm_drv.mem_get_info(&free_bytes, &total) != CUDA_SUCCESS)
        return false;
    card->free = free_bytes;
    card->total = total;
    card->graphs = bytes_of_graphs(device);
    if (gm_drv.mem_pool_get_attribute)
        gm_program_pools_each(device, add_pool, card);
    return true;
}

/* Makes a context of the device current, unless one is. False: there is none. */
static bool enter_device(int *device, bool *pushed) {
    struct gm_context context;
    *pushed = false;
    if (!gm_context_current(&context))
        return false;
    if (*device < 0 || *device == context.device) {
        *device = context.device;
        return true;
    }
    return gm_context_on(*device, &context) && gm_context_enter(context.handle, pushed) == GM_OK;
}

/* While a stream captures, the driver is not queried: a call that fails then could end the capture. */
bool gm_card_ask(int *device, bool own, struct gm_card *card) {
    CUstreamCaptureMode mode;
    bool pushed;
    if (gm_capture_any() || !enter_device(device, &pushed))
        return false;
    bool known = !card;
    if (card && gm_stats_knows(*device) && gm_capture_guard_enter(&mode)) {
        known = ask_driver(*device, card);
        gm_capture_guard_leave(mode);
    }
    gm_context_leave(pushed);
    if (known && card && own)
        card->own = bytes_of_process(*device, &card->alone);
    return known;
}
