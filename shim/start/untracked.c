#include "shim/start/untracked.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

#include "shim/base/real_dl.h"
#include "shim/base/stats.h"
#include "shim/pipeline/pipeline.h"
#include "shim/driver/driver.h"

#define LEAST_STEP  ((uint64_t)32 << 20) /* growth of the peak between two measurements */
#define LEAST_NS    100000000u           /* time between two measurements */
#define LEAST_OF_NS 10000000u            /* the same when memory ran out, or at the end */

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
static struct nvml_process processes[PROCESSES];

static void measure_at_end(void);

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
    if (!nvml.by_bus_id || !nvml.processes || atexit(measure_at_end))
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

/* Bytes that this process has in use on the card; 0: unknown. In a container the numbers of processes may be those of
 * the host. Then a process that is alone on the card, and has at least `reserved` bytes, is this one. */
static uint64_t bytes_of_process(int device, uint64_t reserved) {
    unsigned count = PROCESSES;
    if (!find_nvml() || !find_card(device) || nvml.processes(nvml.cards[device], &count, processes))
        return 0;
    for (unsigned i = 0; i < count && i < PROCESSES; i++)
        if ((processes[i].pid == (unsigned)getpid() || count == 1) && processes[i].bytes != ~0ull &&
            processes[i].bytes >= reserved)
            return processes[i].bytes;
    return 0;
}

/* ---- a measurement */

/* Unused memory of the program's default pool, which keeps it by its release threshold. */
static uint64_t unused_in_default_pool(int device) {
    CUmemoryPool pool;
    cuuint64_t reserved = 0, used = 0;
    if (!gm_drv.device_get_default_mem_pool || !gm_drv.mem_pool_get_attribute ||
        gm_drv.device_get_default_mem_pool(&pool, device) != CUDA_SUCCESS ||
        gm_drv.mem_pool_get_attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved) != CUDA_SUCCESS ||
        gm_drv.mem_pool_get_attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used) != CUDA_SUCCESS)
        return 0;
    return reserved > used ? reserved - used : 0;
}

/* `own`: bytes of this process, 0 = unknown; `all`: bytes in use on the card. */
static void note_untracked(int device, uint64_t own, uint64_t all, uint64_t counted) {
    struct gm_stats_untracked *untracked = &gm_stats->untracked[device];
    uint64_t used = own ? own : all, bytes = used > counted ? used - counted : 0;
    __atomic_store_n(&untracked->shared, (uint64_t)!own, __ATOMIC_RELAXED);
    __atomic_store_n(&untracked->bytes, bytes, __ATOMIC_RELAXED);
    gm_stats_raise(&untracked->peak, bytes);
    struct gm_event event;
    if (!gm_trace_is_on())
        return;
    gm_event_fill(&event, gm_trace_sequence(), gm_now_ns(), GM_ACT_UNTRACKED, GM_KIND_NATIVE, device);
    event.address = all;
    event.bytes = bytes;
    event.flags = own ? 0 : GM_EVENT_SHARED;
    gm_trace_event(&event);
}

static void measure(int device) {
    uint64_t held[GM_REASON_COUNT] = {0};
    uint64_t reserved = __atomic_load_n(&gm_stats->reserved_on[device], __ATOMIC_RELAXED);
    size_t free_bytes = 0, total = 0;
    CUstreamCaptureMode mode;
    if (!gm_capture_guard_enter(&mode))
        return;
    bool known = gm_drv.mem_get_info(&free_bytes, &total) == CUDA_SUCCESS;
    held[GM_REASON_THRESHOLD] = unused_in_default_pool(device);
    gm_capture_guard_leave(mode);
    if (!known)
        return;
    gm_pipeline_held(device, held);
    note_untracked(device, bytes_of_process(device, reserved), total - free_bytes,
                   reserved + held[GM_REASON_THRESHOLD]);
    for (int why = 0; why < GM_REASON_COUNT; why++)
        if (held[why])
            gm_trace_amount(GM_ACT_HELD, GM_KIND_NATIVE, device, held[why], (enum gm_reason)why);
}

static int busy;

/* When the program exits. The driver may be gone, so only the management library is queried. */
static void measure_at_end(void) {
    if (__atomic_exchange_n(&busy, 1, __ATOMIC_ACQUIRE))
        return;
    for (int device = 0; nvml.pid == getpid() && device < GM_STATS_DEVICES; device++) {
        uint64_t reserved = __atomic_load_n(&gm_stats->reserved_on[device], __ATOMIC_RELAXED);
        uint64_t own = nvml.cards[device] ? bytes_of_process(device, reserved) : 0;
        if (own)
            note_untracked(device, own, 0, reserved);
    }
    __atomic_store_n(&busy, 0, __ATOMIC_RELEASE);
}

/* The context of the device is current. `soon`: memory ran out, or the context ends. */
static void sample(int device, bool soon) {
    static uint64_t latest;
    uint64_t from = __atomic_load_n(&gm_pipeline_sample_from, __ATOMIC_RELAXED);
    uint64_t now = gm_now_ns(), before = __atomic_load_n(&latest, __ATOMIC_RELAXED);
    if (from == UINT64_MAX || device < 0 || device >= GM_STATS_DEVICES ||
        (before && now - before < (soon ? LEAST_OF_NS : LEAST_NS)) || __atomic_exchange_n(&busy, 1, __ATOMIC_ACQUIRE))
        return;
    __atomic_store_n(&latest, now, __ATOMIC_RELAXED);
    uint64_t peak = __atomic_load_n(&gm_stats->peak_reserved, __ATOMIC_RELAXED);
    uint64_t step = peak / 8 > LEAST_STEP ? peak / 8 : LEAST_STEP;
    if (__atomic_compare_exchange_n(&gm_pipeline_sample_from, &from, peak + step, false, __ATOMIC_RELAXED,
                                    __ATOMIC_RELAXED)) /* not when the recording ended meanwhile */
        measure(device);
    __atomic_store_n(&busy, 0, __ATOMIC_RELEASE);
}

void gm_untracked_setup(void) {
    if (!gm_trace_is_on() && !gm_pipeline_timed)
        return;
    __atomic_store_n(&gm_pipeline_sample, sample, __ATOMIC_RELEASE);
    __atomic_store_n(&gm_pipeline_sample_from, LEAST_STEP,
                     __ATOMIC_RELEASE); /* a small program need not pay for the library's start */
}
