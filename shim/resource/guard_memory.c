/* One array of kept extents, the latest last (guard_memory.h). */
#include "shim/resource/guard_memory.h"

#include <string.h>

#include "shim/base/options.h"
#include "shim/accounts/stats.h"
#include "shim/resource/reach.h"
#include "shim/resource/releases.h"
#include "shim/resource/vmm.h"

enum { KEPT = 256, DEVICES = 64 };

static struct kept {
    struct gm_guard_memory memory;
    uint64_t since_ns;
} kept[KEPT];
static unsigned count;
static uint64_t bytes[DEVICES];
static gm_spin lock;

/* ---- addresses */

gm_status gm_guard_memory_open(struct gm_guard_memory *memory) {
    uint64_t reach = gm_reach_devices();
    memory->mapping = gm_guard_range_take(memory->extent.size);
    if (!memory->mapping)
        return GM_NOT_SUPPORTED;
    gm_status status = gm_vmm_map(memory->device, memory->mapping, &memory->extent, 1);
    memory->reach = reach;
    if (status) {
        gm_guard_range_release(memory->mapping);
        memory->mapping = 0;
    }
    return status;
}

void gm_guard_memory_close(struct gm_guard_memory *memory) {
    if (!memory->mapping)
        return;
    (void)gm_extents_unmap(&gm_drv, memory->mapping, &memory->extent, 1);
    gm_guard_range_release(memory->mapping);
    memory->mapping = 0;
}

/* ---- kept memory */

/* The lock is held. */
static struct gm_guard_memory take_out(unsigned at) {
    struct gm_guard_memory taken = kept[at].memory;
    count--;
    memmove(&kept[at], &kept[at + 1], (count - at) * sizeof *kept);
    bytes[taken.device] -= taken.extent.size;
    return taken;
}

bool gm_guard_memory_take(const struct gm_guard_memory *wanted, struct gm_guard_memory *memory) {
    unsigned best = KEPT;
    gm_spin_lock(&lock);
    for (unsigned at = count; at-- > 0;) {
        const struct gm_guard_memory *seen = &kept[at].memory;
        if (seen->extent.size != wanted->extent.size || seen->device != wanted->device)
            continue;
        bool fits = gm_guard_memory_has_pattern(seen, wanted);
        if (fits || best == KEPT)
            best = at;
        if (fits)
            break;
    }
    if (best < KEPT)
        *memory = take_out(best);
    gm_spin_unlock(&lock);
    if (best < KEPT)
        gm_stats_uncached(GM_KIND_GUARD, memory->extent.size);
    return best < KEPT;
}

/* ---- bounds */

static uint64_t most_of(int device) {
    static uint64_t known[DEVICES];
    uint64_t most = __atomic_load_n(&known[device], __ATOMIC_RELAXED), limit = gm_option_number(GM_OPT_CACHE_LIMIT);
    size_t total;
    if (most || gm_drv.device_total_mem(&total, device))
        return most;
    limit = gm_memory_of(limit, total);
    most = limit && limit < total / 16 ? limit : total / 16;
    __atomic_store_n(&known[device], most, __ATOMIC_RELAXED);
    return most;
}

bool gm_guard_memory_may_keep(int device, uint64_t size) { return size <= most_of(device); }

void gm_guard_memory_release(struct gm_guard_memory *memory, bool counted) {
    gm_guard_memory_close(memory);
    if (counted)
        gm_release_note(GM_KIND_GUARD, memory->device, memory->extent.size);
    gm_extents_release(&gm_drv, &memory->extent, 1);
}

static void release_kept(struct gm_guard_memory *memory) {
    gm_stats_uncached(GM_KIND_GUARD, memory->extent.size);
    gm_guard_memory_release(memory, true);
}

/* Takes out one extent that is idle since `before_ns`, or is in the way of `more` bytes of a device. The lock is held.
 */
static bool take_excess(int device, uint64_t more, uint64_t most, uint64_t before_ns, struct gm_guard_memory *taken) {
    unsigned at = 0;
    if (!count)
        return false;
    if (kept[0].since_ns >= before_ns && count < KEPT) {
        if (bytes[device] + more <= most)
            return false;
        while (at < count && kept[at].memory.device != device)
            at++;
    }
    *taken = take_out(at);
    return true;
}

bool gm_guard_memory_keep(const struct gm_guard_memory *memory) {
    uint64_t size = memory->extent.size, most = most_of(memory->device), now = gm_now_ns();
    uint64_t idle_ns = gm_option_number(GM_OPT_CACHE_IDLE), before_ns = idle_ns && now > idle_ns ? now - idle_ns : 0;
    struct gm_guard_memory excess;
    struct gm_releases releases;
    if (size > most)
        return false;
    gm_releases_begin(&releases, GM_REASON_CACHE_LIMIT);
    gm_spin_lock(&lock);
    while (take_excess(memory->device, size, most, before_ns, &excess)) {
        gm_spin_unlock(&lock);
        release_kept(&excess);
        gm_spin_lock(&lock);
    }
    kept[count++] = (struct kept){*memory, now};
    bytes[memory->device] += size;
    gm_spin_unlock(&lock);
    gm_releases_end(&releases, false);
    gm_stats_cached(GM_KIND_GUARD, size);
    return true;
}

size_t gm_guard_memory_release_all(void) {
    struct gm_guard_memory memory;
    size_t released = 0;
    CUstreamCaptureMode mode = gm_capture_relax();
    for (;;) {
        gm_spin_lock(&lock);
        bool more = count > 0;
        if (more)
            memory = take_out(count - 1);
        gm_spin_unlock(&lock);
        if (!more)
            break;
        release_kept(&memory);
        released += memory.extent.size;
    }
    gm_capture_unrelax(mode);
    return released;
}

size_t gm_guard_memory_bytes(int device) {
    return device >= 0 && device < DEVICES ? __atomic_load_n(&bytes[device], __ATOMIC_RELAXED) : 0;
}

void gm_guard_memory_after_fork(void) {
    lock.held = 0;
    count = 0;
    memset(bytes, 0, sizeof bytes);
}
