/* How much memory a cache may hold on a device. Free blocks never hold more than GPUMEM_CACHE_LIMIT, by default a
 * quarter of the device. In addition there is a target for all memory that the cache owns:
 *
 *     target = native + native / 4 + SLACK
 *
 * native   what native memory would take for the cache's largest live total since the last trim of everything: that
 *          total as the program requested it, times the mean of what native memory takes for a requested byte
 *
 * Live blocks that are larger than native ones waste the rest; gm_cache_most bounds the waste of blocks that are used
 * again, gm_cache_may_round that of new ones. gm_cache_check_device finds the cases in which a cache accepts no freed
 * block: little free memory on the device, or a process that can register memory with a network card. */
#include "shim/cache/parts.h"

#include "shim/base/limit.h"
#include "shim/base/observers.h"
#include "shim/base/stats.h"
#include "shim/driver/transports.h"

#define SLACK      ((size_t)64 << 20)
#define WASTE_PART 5               /* live blocks may waste this part of what the cache owns, SLACK added */
#define ROUND_PART 64              /* new blocks may be rounded up by this part of the device's free memory */
#define LARGEST    8               /* times a class: the largest block that serves it */
#define MISSES     64              /* that say how much room the next ones need, */
#define MOST_ROOM  (SLACK / 4 * 3) /* at most so much */
#define STEPS      64              /* an allowance grows by at least 1/STEPS of the limit while there is room */
#define CHECK_NS   100000000ull    /* shortest time between two checks of free memory and loaded libraries */

uint64_t gm_cache_limit(struct gm_cache *state, int device) {
    struct gm_cache_device *at = &state->devices[device];
    uint64_t limit = __atomic_load_n(&at->limit, __ATOMIC_RELAXED);
    size_t total = 0;
    if (GM_LIKELY(limit))
        return limit;
    if (state->limit)
        limit = state->limit;
    else if (gm_drv.device_total_mem && gm_drv.device_total_mem(&total, device) == CUDA_SUCCESS)
        limit = total / 4;
    __atomic_store_n(&at->limit, limit, __ATOMIC_RELAXED);
    return limit;
}

/* The allowances of all shards together never exceed the limit, and no shard holds more free bytes than its allowance.
 * So the limit holds for the whole device, although a free reads only its own shard. */
bool gm_cache_allow(struct gm_cache *state, struct gm_shard *shard, int device, size_t size) {
    struct gm_cache_device *at = &state->devices[device];
    struct gm_share *share = &shard->shares[device];
    uint64_t limit = __atomic_load_n(&at->limit, __ATOMIC_RELAXED), more;
    uint64_t allowed = __atomic_load_n(&at->allowed, __ATOMIC_RELAXED);
    if (share->bytes + size <= share->allowance)
        return true;
    do {
        uint64_t need = share->bytes + size - share->allowance, remaining = limit - allowed;
        if (need > remaining)
            return false;
        more = limit / STEPS < remaining ? limit / STEPS : remaining;
        more = need > more ? need : more;
    } while (
        !__atomic_compare_exchange_n(&at->allowed, &allowed, allowed + more, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    share->allowance += more;
    return true;
}

size_t gm_cache_gather(struct gm_cache *state, int device, size_t size) {
    struct gm_cache_device *at = &state->devices[device];
    uint64_t limit = __atomic_load_n(&at->limit, __ATOMIC_RELAXED);
    uint64_t remaining = limit - __atomic_load_n(&at->allowed, __ATOMIC_RELAXED);
    for (unsigned i = 0; i < gm_cache_shards_used() && remaining < size; i++) {
        struct gm_share *share = &state->shards[i].shares[device];
        gm_spin_lock(&state->shards[i].lock);
        size_t unused = share->allowance - share->bytes;
        share->allowance -= unused;
        gm_spin_unlock(&state->shards[i].lock);
        remaining = limit - __atomic_sub_fetch(&at->allowed, unused, __ATOMIC_RELAXED);
    }
    return remaining < size ? size - remaining : 0;
}

size_t gm_cache_unfenced(const struct gm_cache *state) {
    size_t bytes = 0;
    for (unsigned i = 0; i < gm_cache_shards_used(); i++)
        bytes += __atomic_load_n(&state->shards[i].unfenced, __ATOMIC_RELAXED);
    return bytes;
}

static uint64_t free_bytes_of(const struct gm_cache *state, int device) {
    uint64_t bytes = 0;
    for (unsigned i = 0; i < gm_cache_shards_used(); i++)
        bytes += __atomic_load_n(&state->shards[i].shares[device].bytes, __ATOMIC_RELAXED);
    return bytes;
}

void gm_cache_check_device(struct gm_cache *state, struct gm_cache_device *device) {
    uint64_t now = gm_ticks(), checked = __atomic_load_n(&device->checked, __ATOMIC_RELAXED);
    size_t free_bytes, total;
    if (gm_capture_any())
        gm_capture_recheck();
    if (checked && gm_ticks_span_ns(now - checked) < CHECK_NS)
        return;
    if (!__atomic_compare_exchange_n(&device->checked, &checked, now, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        return; /* another thread checks now */
    if (gm_drv.mem_get_info && gm_drv.mem_get_info(&free_bytes, &total) == CUDA_SUCCESS) {
        bool tight = gm_kind_is_on_device(state->shards[0].kind) && free_bytes < gm_device_headroom(total);
        __atomic_store_n(&device->unused, free_bytes, __ATOMIC_RELAXED);
        __atomic_store_n(&device->tight, tight, __ATOMIC_RELAXED);
        for (unsigned i = 0; i < GM_CACHE_SHARDS; i++)
            __atomic_store_n(&state->shards[i].shares[device - state->devices].tight, tight, __ATOMIC_RELAXED);
    }
    if (!gm_cache_has_rdma(state) && gm_rdma_in_process()) {
        __atomic_store_n(&state->rdma, true, __ATOMIC_RELAXED);
        gm_observers_set(GM_OBSERVED_START, true);
        gm_log(GM_LOG_INFO, "cache: memory may be registered with a network card here, so freed blocks are not reused");
    }
}

/* The device's share of what the process counts for all devices. */
static uint64_t share_of(const struct gm_cache *state, const uint64_t *counter) {
    unsigned devices = __atomic_load_n(&state->devices_used, __ATOMIC_RELAXED);
    return __atomic_load_n(counter, __ATOMIC_RELAXED) / (devices ? devices : 1);
}

static uint64_t larger(uint64_t a, uint64_t b) { return a > b ? a : b; }
static uint64_t smaller(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* Bytes by which the live blocks of a device are larger than requested. */
static uint64_t unrequested(const struct gm_cache *state) {
    return share_of(state, &gm_stats->slack_bytes[state->shards[0].kind]);
}

/* What native memory takes for `requested` bytes, if blocks are as those that were requested so far. */
static uint64_t native_of(const struct gm_cache_device *at, uint64_t requested) {
    uint64_t asked = __atomic_load_n(&at->asked, __ATOMIC_RELAXED);
    uint64_t native = __atomic_load_n(&at->native, __ATOMIC_RELAXED);
    return asked ? (uint64_t)((double)requested * ((double)native / (double)asked)) : requested;
}

/* What the program requested of the blocks that live now. */
static uint64_t live_of(const struct gm_cache *state, int device) {
    uint64_t owned = __atomic_load_n(&state->devices[device].owned, __ATOMIC_RELAXED);
    uint64_t others = free_bytes_of(state, device) + unrequested(state);
    return owned > others ? owned - others : 0;
}

/* The largest live total, the present one included. */
static uint64_t peak_of(struct gm_cache *state, int device) {
    struct gm_cache_device *at = &state->devices[device];
    uint64_t live = live_of(state, device), peak = __atomic_load_n(&at->peak, __ATOMIC_RELAXED);
    while (live > peak)
        if (__atomic_compare_exchange_n(&at->peak, &peak, live, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
            __atomic_add_fetch(&state->devices_used, !peak, __ATOMIC_RELAXED);
            return live;
        }
    return peak;
}

void gm_cache_forget_peak(struct gm_cache *state, int device) {
    uint64_t live = live_of(state, device), peak = __atomic_load_n(&state->devices[device].peak, __ATOMIC_RELAXED);
    if (peak) /* 0 is a device that was never used */
        __atomic_store_n(&state->devices[device].peak, live ? live : 1, __ATOMIC_RELAXED);
    __atomic_store_n(&state->devices[device].room, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&state->devices[device].next_room, 0, __ATOMIC_RELAXED);
}

static uint64_t target_of(const struct gm_cache_device *at, uint64_t peak, unsigned quarters) {
    uint64_t native = native_of(at, peak);
    return native + (native / 4 + SLACK) * quarters;
}

/* Bytes, `more` added, above what native memory takes for the largest live total, plus `quarters` quarters of it and as
 * many times SLACK. */
static size_t bytes_above(struct gm_cache *state, int device, unsigned quarters, size_t more) {
    const struct gm_cache_device *at = &state->devices[device];
    uint64_t owned = __atomic_load_n(&at->owned, __ATOMIC_RELAXED) + more;
    uint64_t target = target_of(at, __atomic_load_n(&at->peak, __ATOMIC_RELAXED), quarters);
    if (GM_LIKELY(owned <= target)) /* reuse may have raised the total since an allocation looked at it */
        return 0;
    target = target_of(at, peak_of(state, device), quarters);
    return owned > target ? owned - target : 0;
}

/* A miss cannot release memory, since it must not wait. So frees keep room below the target: the most that one of the
 * latest misses lacked, of at least MISSES. Called for each new block, which `owned` counts already. */
static void keep_room(struct gm_cache *state, int device, size_t size) {
    struct gm_cache_device *at = &state->devices[device];
    uint64_t lacks =
        smaller(smaller(bytes_above(state, device, 1, size), size), MOST_ROOM); /* for one more such block */
    uint64_t next = larger(__atomic_load_n(&at->next_room, __ATOMIC_RELAXED), lacks);
    uint64_t room = larger(__atomic_load_n(&at->room, __ATOMIC_RELAXED), lacks);
    bool turn = __atomic_add_fetch(&at->misses, 1, __ATOMIC_RELAXED) % MISSES == 0;
    __atomic_store_n(&at->room, turn ? next : room, __ATOMIC_RELAXED);
    __atomic_store_n(&at->next_room, turn ? 0 : next, __ATOMIC_RELAXED);
}

void gm_cache_count_owned(struct gm_cache *state, int device, size_t requested, size_t size) {
    struct gm_cache_device *at = &state->devices[device];
    size_t native = gm_cache_native(state, requested);
    __atomic_add_fetch(&at->owned, size, __ATOMIC_RELAXED);
    __atomic_add_fetch(&at->asked, requested, __ATOMIC_RELAXED);
    __atomic_add_fetch(&at->native, native, __ATOMIC_RELAXED);
    __atomic_add_fetch(&at->rounded, size > native ? size - native : 0, __ATOMIC_RELAXED);
    peak_of(state, device);
    keep_room(state, device, size);
}

void gm_cache_count_released(struct gm_cache *state, int device, size_t size) {
    struct gm_cache_device *at = &state->devices[device];
    uint64_t owned = __atomic_fetch_sub(&at->owned, size, __ATOMIC_RELAXED);
    uint64_t rounded = __atomic_load_n(&at->rounded, __ATOMIC_RELAXED), rest;
    do
        rest = owned > size ? (uint64_t)((double)rounded * ((double)(owned - size) / (double)owned)) : 0;
    while (!__atomic_compare_exchange_n(&at->rounded, &rounded, rest, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
}

/* A program may fill the device to the last page with blocks that it never frees. So the sum of what is rounded up
 * stays small beside the memory that is still free. */
bool gm_cache_may_round(const struct gm_cache *state, int device, size_t requested) {
    const struct gm_cache_device *at = &state->devices[device];
    size_t more = gm_cache_class(state, requested) - gm_cache_native(state, requested);
    return __atomic_load_n(&at->rounded, __ATOMIC_RELAXED) + more <=
           __atomic_load_n(&at->unused, __ATOMIC_RELAXED) / ROUND_PART;
}

/* A block up to 1 MiB may always waste as much as its class has, a larger one a fifth of it. More is wasted only
 * while all live blocks together waste little, since a block that lives long would keep the memory from larger
 * requests, and only where the driver takes long for a new block. */
size_t gm_cache_most(const struct gm_cache *state, int device, size_t size) {
    const struct gm_cache_device *at = &state->devices[device];
    uint64_t owned = __atomic_load_n(&at->owned, __ATOMIC_RELAXED);
    uint64_t live = share_of(state, &gm_stats->live_bytes[state->shards[0].kind]);
    uint64_t taken = live + unrequested(state), native = native_of(at, live);
    uint64_t may = (owned + SLACK) / WASTE_PART, is = taken > native ? taken - native : 0;
    uint64_t always = size <= GM_CACHE_SHARES ? size : size / WASTE_PART;
    uint64_t most = size < GM_CACHE_LOOK_FROM ? size : size * (LARGEST - 1);
    return size + smaller(larger(may > is ? may - is : 0, always), most);
}

size_t gm_cache_excess(struct gm_cache *state, int device) {
    return bytes_above(state, device, 1, __atomic_load_n(&state->devices[device].room, __ATOMIC_RELAXED));
}

bool gm_cache_overfull(struct gm_cache *state, int device) { return bytes_above(state, device, 4, 0) > 0; }

bool gm_cache_is_room_for(struct gm_cache *state, int device, size_t size) {
    return !bytes_above(state, device, 1, size);
}
