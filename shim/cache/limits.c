/* How much memory a cache may hold on a device.
 *
 * Free blocks are a loan. Whoever needs their memory gets it: a call that the driver refuses for lack of memory is made
 * again after a trim, and a thread gives memory back to other processes (the event much_kept). So large free blocks,
 * which have pages of their own, may hold what GPUMEM_CACHE_LIMIT says, by default all of the device; a quarter where
 * no such thread is. A target keeps the process from holding much more than it has use for, for each sort of blocks
 * (struct gm_cache_budget).
 *
 * Small blocks share pages with others. A page comes back to the driver only when all its blocks are free, so their
 * target is lower.
 *
 * What live blocks hold cannot come back at all. Blocks have just the size that native memory takes. Only small blocks
 * may have the size of their class, so that all sizes of the class can use them. The bytes by which such blocks may
 * exceed native ones are counted for each block from its allocation on, and never exceed ROUND_MOST, or 1/ROUND_PART of
 * the device's free memory if that is less.
 *
 * gm_cache_check_device finds the cases in which a cache accepts no freed block: little memory left on the device, free
 * blocks included, or a process that can register memory with a network card. */
#include "shim/base/events.h"
#include "shim/cache/parts.h"

#include "shim/accounts/limit.h"
#include "shim/accounts/loans.h"
#include "shim/base/observers.h"
#include "shim/base/options.h"
#include "shim/accounts/stats.h"
#include "shim/driver/in_flight.h"
#include "shim/driver/transports.h"

#define SLACK      ((size_t)64 << 20)
#define ROUND_MOST ((size_t)64 << 20)
#define ROUND_PART 256
#define MISSES     64              /* that say how much room the next ones need, */
#define MOST_ROOM  (SLACK / 4 * 3) /* at most so much */
#define CHECK_NS   100000000ull    /* shortest time between two checks of free memory and loaded libraries */

/* The target is the peak and so many times a quarter of it and SLACK. */
static const unsigned target_quarters[GM_CACHE_SORTS] = {[GM_CACHE_SMALL] = 1, [GM_CACHE_LARGE] = 8};
enum { OVERFULL_QUARTERS = 4 }; /* of small blocks */

uint64_t gm_cache_limit(struct gm_cache *state, int device) {
    struct gm_cache_device *at = &state->devices[device];
    uint64_t limit = __atomic_load_n(&at->limit, __ATOMIC_RELAXED);
    size_t total = 0;
    if (GM_LIKELY(limit))
        return limit;
    if (state->limit && !gm_memory_is_part(state->limit))
        limit = state->limit;
    else if (gm_drv.device_total_mem && gm_drv.device_total_mem(&total, device) == CUDA_SUCCESS)
        limit = state->limit ? gm_memory_of(state->limit, total) : GM_SUBSCRIBER(much_kept) ? total : total / 4;
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
        more = limit / GM_CACHE_STEPS < remaining ? limit / GM_CACHE_STEPS : remaining;
        more = need > more ? need : more;
    } while (
        !__atomic_compare_exchange_n(&at->allowed, &allowed, allowed + more, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    gm_watch_kept();
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

static uint64_t free_bytes_of(const struct gm_cache *state, int device, enum gm_cache_sort sort) {
    uint64_t bytes = 0;
    for (unsigned i = 0; i < gm_cache_shards_used(); i++) {
        const struct gm_share *share = &state->shards[i].shares[device];
        uint64_t small = __atomic_load_n(&share->small, __ATOMIC_RELAXED);
        uint64_t all = __atomic_load_n(&share->bytes, __ATOMIC_RELAXED);
        bytes += sort == GM_CACHE_SMALL ? small : all > small ? all - small : 0;
    }
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
        int number = (int)(device - state->devices);
        size_t left = free_bytes + free_bytes_of(state, number, GM_CACHE_LARGE);
        bool tight = gm_kind_is_on_device(state->shards[0].kind) && left < gm_device_headroom(total);
        __atomic_store_n(&device->unused, free_bytes, __ATOMIC_RELAXED);
        __atomic_store_n(&device->tight, tight, __ATOMIC_RELAXED);
        for (unsigned i = 0; i < GM_CACHE_SHARDS; i++)
            __atomic_store_n(&state->shards[i].shares[number].tight, tight, __ATOMIC_RELAXED);
    }
    gm_rdma_in_process();
}

static uint64_t larger(uint64_t a, uint64_t b) { return a > b ? a : b; }
static uint64_t smaller(uint64_t a, uint64_t b) { return a < b ? a : b; }

static struct gm_cache_sum *sum_of(struct gm_cache *state, int device, enum gm_cache_sort sort) {
    return &state->devices[device].sums[sort];
}

static uint64_t live_of(struct gm_cache *state, int device, enum gm_cache_sort sort) {
    uint64_t owned = __atomic_load_n(&sum_of(state, device, sort)->owned, __ATOMIC_RELAXED);
    uint64_t unused = free_bytes_of(state, device, sort);
    return owned > unused ? owned - unused : 0;
}

/* The largest live total, the present one included. */
static uint64_t peak_of(struct gm_cache *state, int device, enum gm_cache_sort sort) {
    struct gm_cache_sum *sum = sum_of(state, device, sort);
    uint64_t live = live_of(state, device, sort), peak = __atomic_load_n(&sum->peak, __ATOMIC_RELAXED);
    while (live > peak)
        if (__atomic_compare_exchange_n(&sum->peak, &peak, live, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            return live;
    return peak;
}

void gm_cache_forget_peak(struct gm_cache *state, int device) {
    for (unsigned sort = 0; sort < GM_CACHE_SORTS; sort++) {
        struct gm_cache_sum *sum = sum_of(state, device, sort);
        __atomic_store_n(&sum->peak, live_of(state, device, sort), __ATOMIC_RELAXED);
        __atomic_store_n(&sum->room, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&sum->next_room, 0, __ATOMIC_RELAXED);
    }
}

static uint64_t target_of(uint64_t peak, unsigned quarters) { return peak + (peak / 4 + SLACK) * quarters; }

static struct gm_cache_budget budget_of(const struct gm_cache_sum *sum, enum gm_cache_sort sort, uint64_t peak,
                                        size_t more) {
    return (struct gm_cache_budget){.owned = __atomic_load_n(&sum->owned, __ATOMIC_RELAXED) + more,
                                    .room = __atomic_load_n(&sum->room, __ATOMIC_RELAXED),
                                    .target = target_of(peak, target_quarters[sort])};
}

struct gm_cache_budget gm_cache_budget(struct gm_cache *state, int device, enum gm_cache_sort sort, size_t more) {
    const struct gm_cache_sum *sum = sum_of(state, device, sort);
    struct gm_cache_budget budget = budget_of(sum, sort, __atomic_load_n(&sum->peak, __ATOMIC_RELAXED), more);
    if (GM_LIKELY(!gm_cache_excess(budget)))
        return budget;
    return budget_of(sum, sort, peak_of(state, device, sort), more); /* reuse may have raised the total since */
}

/* A miss cannot release memory, since it must not wait. So frees keep room below the target: the most that one of the
 * latest misses lacked for one more block of its size, of at least MISSES. */
static uint64_t keep_room(struct gm_cache_sum *sum, struct gm_cache_budget budget, size_t size) {
    budget.owned += size;
    budget.room = 0;
    uint64_t lacks = smaller(smaller(gm_cache_excess(budget), size), MOST_ROOM);
    uint64_t next = larger(__atomic_load_n(&sum->next_room, __ATOMIC_RELAXED), lacks);
    uint64_t room = larger(__atomic_load_n(&sum->room, __ATOMIC_RELAXED), lacks);
    bool turn = __atomic_add_fetch(&sum->misses, 1, __ATOMIC_RELAXED) % MISSES == 0;
    __atomic_store_n(&sum->next_room, turn ? 0 : next, __ATOMIC_RELAXED);
    __atomic_store_n(&sum->room, turn ? next : room, __ATOMIC_RELAXED);
    return turn ? next : room;
}

struct gm_cache_budget gm_cache_count_owned(struct gm_cache *state, int device, size_t size) {
    enum gm_cache_sort sort = gm_cache_sort_of(size);
    struct gm_cache_sum *sum = sum_of(state, device, sort);
    __atomic_add_fetch(&sum->owned, size, __ATOMIC_RELAXED);
    struct gm_cache_budget budget = budget_of(sum, sort, peak_of(state, device, sort), 0);
    budget.room = keep_room(sum, budget, size);
    return budget;
}

void gm_cache_count_released(struct gm_cache *state, int device, size_t size, unsigned bin) {
    __atomic_sub_fetch(&sum_of(state, device, gm_cache_sort_of(size))->owned, size, __ATOMIC_RELAXED);
    gm_cache_unround(state, device, gm_cache_width(state, bin, size));
}

bool gm_cache_round(struct gm_cache *state, int device, size_t width) {
    struct gm_cache_device *at = &state->devices[device];
    uint64_t most = smaller(__atomic_load_n(&at->unused, __ATOMIC_RELAXED) / ROUND_PART, ROUND_MOST);
    if (__atomic_add_fetch(&at->rounded, width, __ATOMIC_RELAXED) <= most || !width)
        return true;
    gm_cache_unround(state, device, width);
    return false;
}

void gm_cache_unround(struct gm_cache *state, int device, size_t width) {
    __atomic_sub_fetch(&state->devices[device].rounded, width, __ATOMIC_RELAXED);
}

bool gm_cache_overfull(struct gm_cache *state, int device) {
    const struct gm_cache_sum *sum = sum_of(state, device, GM_CACHE_SMALL);
    uint64_t owned = __atomic_load_n(&sum->owned, __ATOMIC_RELAXED);
    return owned > target_of(__atomic_load_n(&sum->peak, __ATOMIC_RELAXED), OVERFULL_QUARTERS) &&
           owned > target_of(peak_of(state, device, GM_CACHE_SMALL), OVERFULL_QUARTERS);
}
