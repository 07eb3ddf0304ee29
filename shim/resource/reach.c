/* Peer access of devices, queried once (reach.h). */
#include "shim/resource/reach.h"

enum { DEVICES = 64 };
enum answer { UNKNOWN, ALL, NOT_ALL };

static uint64_t devices, opened;

static void log_unreachable(int accessor, int device) {
    static int once;
    gm_log_once(&once, GM_LOG_WARN,
                "device %d cannot access memory of device %d: gpumem uses plain memory instead of pools and mappings, "
                "which could not be copied between them; CUDA_VISIBLE_DEVICES can hide unused devices",
                accessor, device);
}

static enum answer query_driver(void) {
    int count = 0;
    if (gm_drv.device_get_count(&count) != CUDA_SUCCESS)
        return UNKNOWN;
    for (int accessor = 0; accessor < count; accessor++)
        for (int device = 0; device < count; device++) {
            int can = accessor == device;
            if (!can && gm_drv.device_can_access_peer(&can, accessor, device) != CUDA_SUCCESS)
                return UNKNOWN;
            if (!can) {
                log_unreachable(accessor, device);
                return NOT_ALL;
            }
        }
    return count <= DEVICES ? ALL : NOT_ALL;
}

bool gm_reach_all(void) {
    static enum answer known;
    enum answer answer = __atomic_load_n(&known, __ATOMIC_RELAXED);
    if (GM_UNLIKELY(answer == UNKNOWN))
        __atomic_store_n(&known, answer = query_driver(), __ATOMIC_RELAXED);
    return answer == ALL;
}

bool gm_reach_note(int device) {
    if (device < 0 || device >= DEVICES || __atomic_load_n(&opened, __ATOMIC_ACQUIRE) >> device & 1)
        return false;
    __atomic_fetch_or(&devices, 1ull << device, __ATOMIC_SEQ_CST);
    return true;
}

void gm_reach_opened(int device) { __atomic_fetch_or(&opened, 1ull << device, __ATOMIC_RELEASE); }

uint64_t gm_reach_devices(void) { return __atomic_load_n(&devices, __ATOMIC_SEQ_CST); }

gm_status gm_reach_open(const struct gm_location *location, CUdeviceptr address, size_t size) {
    struct gm_location open = *location;
    uint64_t others;
    gm_status status;
    do {
        others = gm_reach_devices();
        open.peers = location->peers | others;
        status = gm_mapping_open(&gm_drv, &open, address, size, false);
    } while (!status && gm_reach_devices() != others);
    return status;
}
