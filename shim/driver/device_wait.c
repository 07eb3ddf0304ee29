#include "shim/driver/device_wait.h"

#include <link.h>
#include <string.h>

static bool wanted, refused;
static CUcontext bound; /* whose later work waits */

static const char *const reasons[GM_ENEMIES] = {
    [GM_ENEMY_PEERS] = "peer access",
    [GM_ENEMY_SHARED] = "memory shared between processes",
    [GM_ENEMY_RANGE] = "a handle of a range of addresses",
    [GM_ENEMY_GREEN] = "a green context",
    [GM_ENEMY_CONTEXTS] = "a second context",
    [GM_ENEMY_VALUES] = "a stream that waits for a value in memory",
    [GM_ENEMY_SEMAPHORES] = "a stream that waits for an external semaphore",
    [GM_ENEMY_HOST] = "a function of the host in a stream",
    [GM_ENEMY_LIBRARIES] = "a library of collectives",
};

void gm_device_wait_want(void) { wanted = true; }

/* What was handed out while older work was queued may be reached from elsewhere now: lets that work finish. */
static void settle(void) {
    CUcontext context = __atomic_exchange_n(&bound, NULL, __ATOMIC_SEQ_CST), popped;
    CUstreamCaptureMode mode;
    if (!context || !gm_capture_guard_enter(&mode))
        return;
    if (gm_drv.ctx_push(context) == CUDA_SUCCESS) {
        gm_drv.ctx_synchronize(); /* an error stays for the program's own next call */
        gm_drv.ctx_pop(&popped);
    }
    gm_capture_guard_leave(mode);
}

void gm_device_wait_refuse(enum gm_device_wait_enemy enemy) {
    if (GM_LIKELY(!wanted))
        return;
    if (!__atomic_exchange_n(&refused, true, __ATOMIC_SEQ_CST))
        gm_log(GM_LOG_WARN, "GPUMEM_FENCE=device: %s; threads wait from now on, as with GPUMEM_FENCE=host", reasons[enemy]);
    if (enemy <= GM_ENEMY_GREEN)
        settle();
}

struct search {
    unsigned long long adds, known;
    bool found;
};

/* The first row tells whether libraries were loaded since the last look. */
static int visit(struct dl_phdr_info *info, size_t size, void *argument) {
    struct search *search = argument;
    const char *slash = strrchr(info->dlpi_name, '/'), *file = slash ? slash + 1 : info->dlpi_name;
    search->adds = size >= offsetof(struct dl_phdr_info, dlpi_subs) ? info->dlpi_adds : 0;
    if (search->adds && search->adds == search->known)
        return 1;
    search->found |= strncmp(file, "libnccl", 7) == 0 || strncmp(file, "libnvshmem", 10) == 0;
    return 0;
}

static bool has_collectives(void) {
    static unsigned long long known;
    struct search search = {.known = __atomic_load_n(&known, __ATOMIC_RELAXED)};
    dl_iterate_phdr(visit, &search);
    __atomic_store_n(&known, search.adds, __ATOMIC_RELAXED);
    return search.found;
}

gm_status gm_device_wait(const struct gm_fence *fence, CUcontext context) {
    CUstreamCaptureMode mode;
    gm_status status;
    if (!wanted || __atomic_load_n(&refused, __ATOMIC_SEQ_CST) || !gm_drv.ctx_wait_event || fence->count != 1)
        return GM_NOT_SUPPORTED;
    if (gm_contexts_seen() > 1)
        gm_device_wait_refuse(GM_ENEMY_CONTEXTS);
    else if (has_collectives())
        gm_device_wait_refuse(GM_ENEMY_LIBRARIES);
    if (__atomic_load_n(&refused, __ATOMIC_SEQ_CST) || !gm_capture_guard_enter(&mode))
        return GM_NOT_SUPPORTED;
    __atomic_store_n(&bound, context, __ATOMIC_SEQ_CST);
    status = __atomic_load_n(&refused, __ATOMIC_SEQ_CST) ? GM_NOT_SUPPORTED
                                                        : (gm_status)gm_drv.ctx_wait_event(context, fence->points[0].event);
    gm_capture_guard_leave(mode);
    return gm_is_capture_error(status) ? GM_NOT_SUPPORTED : status;
}
