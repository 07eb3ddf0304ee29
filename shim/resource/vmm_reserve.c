/* One set of extents for each device, under one lock (vmm_reserve.h). */
#include "shim/resource/vmm_reserve.h"

#include "shim/base/options.h"
#include "shim/accounts/stats.h"
#include "shim/accounts/limit.h"
#include "shim/driver/in_flight.h"
#include "shim/resource/releases.h"

static struct extent_set {
    struct gm_extent extents[GM_VMM_RESERVE_SLOTS];
    unsigned count;
    uint64_t bytes, since_ns;
} reserve[GM_VMM_DEVICES];
GM_LOCK(lock);
static unsigned sets; /* devices with a set; 0 in most processes, which then skip the search */
GM_ZERO_IN_CHILD(reserve);
GM_ZERO_IN_CHILD(sets);

/* The lock is held. */
static struct extent_set take_set(int device) {
    struct extent_set taken = reserve[device];
    if (taken.count)
        __atomic_sub_fetch(&sets, 1, __ATOMIC_RELAXED);
    reserve[device].count = 0;
    reserve[device].bytes = 0;
    return taken;
}

/* The pages are no longer kept: they are released, or counted again with the block that takes them. */
static void count_out(int device, const struct extent_set *taken) {
    gm_stats_uncached(GM_KIND_VMM, taken->bytes);
    gm_release_note(GM_KIND_VMM, device, taken->bytes);
}

static uint64_t release_set(int device, const struct extent_set *taken) {
    gm_extents_release(&gm_drv, taken->extents, taken->count);
    count_out(device, taken);
    return taken->bytes;
}

static bool has_room(uint64_t bytes) {
    size_t free_bytes, total;
    if (!gm_drv.mem_get_info || gm_drv.mem_get_info(&free_bytes, &total))
        return false;
    uint64_t limit = gm_memory_of(gm_option_number(GM_OPT_CACHE_LIMIT), total);
    return bytes <= (limit ? limit : total / 4) && free_bytes >= gm_device_headroom(total);
}

void gm_vmm_reserve_keep(int device, const struct gm_extent *extents, unsigned count) {
    struct extent_set set = {.count = count, .since_ns = gm_now_ns()};
    for (unsigned i = 0; i < count; i++)
        set.bytes += extents[i].size;
    if (count > GM_VMM_RESERVE_SLOTS || !has_room(set.bytes)) {
        gm_extents_release(&gm_drv, extents, count);
        return;
    }
    for (unsigned i = 0; i < count; i++)
        set.extents[i] = extents[i];
    gm_watch_kept();
    gm_spin_lock(&lock);
    struct extent_set previous = take_set(device);
    reserve[device] = set;
    __atomic_add_fetch(&sets, 1, __ATOMIC_RELAXED);
    gm_spin_unlock(&lock);
    gm_stats_cached(GM_KIND_VMM, set.bytes);
    release_set(device, &previous);
}

unsigned gm_vmm_reserve_take(int device, uint64_t at_most, struct gm_extent *extents) {
    struct extent_set taken = {0};
    if (!__atomic_load_n(&sets, __ATOMIC_RELAXED))
        return 0;
    gm_spin_lock(&lock);
    if (reserve[device].bytes <= at_most)
        taken = take_set(device);
    gm_spin_unlock(&lock);
    for (unsigned i = 0; i < taken.count; i++)
        extents[i] = taken.extents[i];
    struct gm_releases releases;
    gm_releases_begin(&releases, GM_REASON_GROWTH);
    count_out(device, &taken);
    gm_releases_end(&releases, false);
    return taken.count;
}

uint64_t gm_vmm_reserve_release(bool only_idle) {
    uint64_t bytes = 0;
    if (GM_LIKELY(!__atomic_load_n(&sets, __ATOMIC_RELAXED)) || (only_idle && gm_capture_any()))
        return 0;
    struct gm_releases releases;
    gm_releases_begin(&releases, GM_REASON_IDLE);
    CUstreamCaptureMode mode = gm_capture_relax();
    uint64_t idle_ns = gm_option_number(GM_OPT_CACHE_IDLE), now = gm_now_ns();
    for (int device = 0; device < GM_VMM_DEVICES && __atomic_load_n(&sets, __ATOMIC_RELAXED); device++) {
        struct extent_set taken = {0};
        gm_spin_lock(&lock);
        if (!only_idle || (idle_ns && now - reserve[device].since_ns > idle_ns))
            taken = take_set(device);
        gm_spin_unlock(&lock);
        bytes += release_set(device, &taken);
    }
    gm_capture_unrelax(mode);
    gm_releases_end(&releases, false);
    return bytes;
}

uint64_t gm_vmm_reserve_bytes(int device) {
    if (device < 0 || device >= GM_VMM_DEVICES)
        return 0;
    gm_spin_lock(&lock);
    uint64_t bytes = reserve[device].bytes;
    gm_spin_unlock(&lock);
    return bytes;
}
