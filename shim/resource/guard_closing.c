/* One array of blocks that wait, the oldest first (guard_closing.h). One thread at a time closes the first ones of it:
 * the closer's own, or one of the program that needs it done. */
#include "shim/resource/guard_closing.h"

#include <limits.h>
#include <string.h>

#include "shim/base/file.h"
#include "shim/base/futex.h"
#include "shim/base/real_dl.h"
#include "shim/accounts/stats.h"
#include "shim/driver/internal_stream.h"
#include "shim/resource/guard_memory.h"
#include "shim/resource/guard_pattern.h"

enum { TOGETHER = 16, ROOM = 64, NAP_NS = 20000, MOST_NAPS = 50000 };
#define ROOM_BYTES ((uint64_t)256 << 20)

unsigned gm_guard_prompt = 64, gm_guard_waiting;
static struct gm_guard_block waiting[ROOM];
static unsigned closing; /* the first so many are being closed */
static enum { NO_CLOSER, HAS_CLOSER, NEVER } closer;
static gm_spin lock; /* of all above */

/* ---- the array */

static uint64_t bytes_of(int device) {
    uint64_t bytes = 0;
    for (unsigned i = 0; i < gm_guard_waiting; i++)
        bytes += device < 0 || waiting[i].device == device ? waiting[i].mapped : 0;
    return bytes;
}

static bool put(const struct gm_guard_block *block) {
    gm_spin_lock(&lock);
    bool room = gm_guard_waiting < ROOM && (!gm_guard_waiting || bytes_of(-1) + block->mapped <= ROOM_BYTES);
    if (room) {
        waiting[gm_guard_waiting] = *block;
        __atomic_store_n(&gm_guard_waiting, gm_guard_waiting + 1, __ATOMIC_RELEASE);
    }
    gm_spin_unlock(&lock);
    return room;
}

/* Takes the first blocks, of one context. 0: there are none, another thread closes, or the closer has ended. */
static unsigned take(struct gm_guard_block blocks[TOGETHER], bool by_closer) {
    unsigned count = 0;
    gm_spin_lock(&lock);
    if (!closing && !(by_closer && closer != HAS_CLOSER)) {
        while (count < TOGETHER && count < gm_guard_waiting && waiting[count].context_id == waiting[0].context_id)
            count++;
        memcpy(blocks, waiting, count * sizeof *blocks);
        closing = count;
    }
    gm_spin_unlock(&lock);
    return count;
}

/* What is still open waits behind the others. */
static void put_back(const bool open[TOGETHER]) {
    struct gm_guard_block left[TOGETHER];
    unsigned count = 0;
    gm_spin_lock(&lock);
    for (unsigned i = 0; i < closing; i++)
        if (open[i])
            left[count++] = waiting[i];
    memmove(waiting, waiting + closing, (gm_guard_waiting - closing) * sizeof *waiting);
    memcpy(waiting + (gm_guard_waiting - closing), left, count * sizeof *left);
    __atomic_store_n(&gm_guard_waiting, gm_guard_waiting - closing + count, __ATOMIC_RELEASE);
    closing = 0;
    gm_spin_unlock(&lock);
}

bool gm_guard_waits_at(uint64_t address) {
    bool found = false;
    if (!gm_guard_any_waits())
        return false;
    gm_spin_lock(&lock);
    for (unsigned i = 0; i < gm_guard_waiting && !found; i++)
        found = address - waiting[i].mapping < waiting[i].mapped;
    gm_spin_unlock(&lock);
    return found;
}

uint64_t gm_guard_waiting_bytes(int device) {
    gm_spin_lock(&lock);
    uint64_t bytes = bytes_of(device);
    gm_spin_unlock(&lock);
    return bytes;
}

/* ---- closing */

static struct gm_guard_memory memory_of(const struct gm_guard_block *block, enum gm_guard_pattern pattern) {
    return (struct gm_guard_memory){.extent = {.handle = block->memory, .size = block->mapped},
                                    .device = block->device,
                                    .patterned = pattern != GM_GUARD_UNSURE,
                                    .whole = pattern == GM_GUARD_ALL_RIGHT,
                                    .before = block->address - block->mapping,
                                    .size = block->size};
}

static gm_status unmap(const struct gm_guard_block *block) {
    const struct gm_extent extent = {.size = block->mapped};
    gm_status status = gm_extents_unmap(&gm_drv, block->mapping, &extent, 1);
    if (!status)
        gm_guard_range_release(block->mapping);
    return status;
}

gm_status gm_guard_close(const struct gm_guard_block *block) {
    struct gm_guard_memory memory = memory_of(block, gm_guard_pattern_check(block, GM_GUARD_AT_FREE));
    gm_status status = unmap(block);
    if (!status)
        gm_guard_memory_release(&memory, false);
    return status;
}

/* Returns the bytes that were released. *open: it could not be unmapped. */
static size_t close_one(const struct gm_guard_block *block, struct gm_guard_memory *memory, bool *open) {
    *open = unmap(block);
    if (*open) {
        gm_guard_memory_close(memory);
        return 0;
    }
    gm_stats_uncached(GM_KIND_GUARD, block->mapped);
    if (memory->mapping && gm_guard_memory_keep(memory))
        return 0;
    gm_guard_memory_release(memory, true);
    return block->mapped;
}

/* All patterns are copied while the memory is opened at new addresses. */
static size_t close_these(const struct gm_guard_block *blocks, unsigned count, bool reuse, bool open[TOGETHER]) {
    struct gm_guard_memory memory[TOGETHER];
    size_t released = 0;
    for (unsigned i = 0; i < count; i++)
        gm_guard_pattern_fetch(&blocks[i]);
    for (unsigned i = 0; i < count; i++) {
        memory[i] = memory_of(&blocks[i], GM_GUARD_UNSURE);
        if (reuse)
            (void)gm_guard_memory_open(&memory[i]);
    }
    bool arrived = !gm_guard_pattern_arrived(blocks, GM_GUARD_FOREVER);
    for (unsigned i = 0; i < count; i++) {
        enum gm_guard_pattern pattern =
            arrived ? gm_guard_pattern_check(&blocks[i], GM_GUARD_AT_FREE) : GM_GUARD_UNSURE;
        memory[i].patterned = pattern != GM_GUARD_UNSURE;
        memory[i].whole = pattern == GM_GUARD_ALL_RIGHT;
        released += close_one(&blocks[i], &memory[i], &open[i]);
    }
    return released;
}

struct way {
    bool reuse, by_closer;
    uint64_t patience_ns; /* for work of the program */
};

/* A block whose context ended is not read at all. */
static bool is_readable(const struct gm_guard_block *block, uint64_t patience_ns) {
    gm_status status = gm_guard_pattern_arrived(block, patience_ns);
    return !status || status == GM_INVALID_CONTEXT;
}

/* Closes the first blocks, while their context cannot end. Returns how many blocks it looked at. */
static unsigned close_some(struct way way, size_t *released, bool *progress) {
    struct gm_guard_block blocks[TOGETHER];
    struct gm_context_held held;
    bool open[TOGETHER];
    unsigned count = take(blocks, way.by_closer);
    if (!count)
        return 0;
    memset(open, true, sizeof open);
    bool entered = !gm_context_enter_held((CUcontext)(uintptr_t)blocks->context, blocks->context_id, &held);
    if (way.patience_ns == GM_GUARD_FOREVER || is_readable(blocks, way.patience_ns))
        *released += close_these(blocks, count, way.reuse, open);
    if (entered)
        gm_context_leave_held(&held);
    for (unsigned i = 0; i < count; i++)
        *progress |= !open[i];
    put_back(open);
    return count;
}

static bool another_closes(void) {
    gm_spin_lock(&lock);
    bool does = closing != 0;
    gm_spin_unlock(&lock);
    return does;
}

/* All that wait now. While another thread closes, waits for that, within bounds: the thread may have been cancelled. */
static size_t close_all(struct way way) {
    unsigned left = __atomic_load_n(&gm_guard_waiting, __ATOMIC_RELAXED);
    size_t released = 0;
    bool progress = false;
    for (unsigned naps = 0; left && naps < MOST_NAPS && gm_guard_any_waits();) {
        unsigned count = close_some(way, &released, &progress);
        left -= count < left ? count : left;
        if (!count && another_closes()) {
            naps++;
            gm_sleep(NAP_NS);
        }
    }
    return released;
}

/* ---- the closer */

static uint32_t calls; /* rises with each one */
static bool sleeps;

static void call_closer(void) {
    __atomic_add_fetch(&calls, 1, __ATOMIC_SEQ_CST);
    if (__atomic_exchange_n(&sleeps, false, __ATOMIC_SEQ_CST))
        gm_futex_wake(&calls);
}

static void *run_closer(void *unused) {
    gm_mine.depth = 1;
    (void)gm_capture_relax();
    for (;;) {
        uint32_t seen = __atomic_load_n(&calls, __ATOMIC_SEQ_CST);
        bool progress = false;
        size_t released = 0;
        while (close_some((struct way){.reuse = true, .by_closer = true, .patience_ns = GM_GUARD_BRIEFLY}, &released,
                          &progress) &&
               progress)
            progress = false;
        if (__atomic_load_n(&closer, __ATOMIC_RELAXED) != HAS_CLOSER)
            return NULL;
        __atomic_store_n(&sleeps, true, __ATOMIC_SEQ_CST);
        gm_futex_wait(&calls, seen, NULL);
    }
}

/* Whether there is a closer from now on. */
static bool start_closer(void) {
    gm_spin_lock(&lock);
    bool starts = closer == NO_CLOSER, has = closer != NEVER;
    if (starts)
        __atomic_store_n(&closer, HAS_CLOSER, __ATOMIC_RELAXED);
    gm_spin_unlock(&lock);
    if (starts && gm_thread_start(run_closer, NULL)) {
        gm_guard_closer_end();
        has = false;
    }
    return has;
}

void gm_guard_closer_end(void) {
    gm_spin_lock(&lock);
    __atomic_store_n(&closer, NEVER, __ATOMIC_RELAXED);
    gm_spin_unlock(&lock);
    call_closer();
}

/* ---- frees */

static bool is_prompt(void) {
    unsigned left = __atomic_load_n(&gm_guard_prompt, __ATOMIC_RELAXED);
    while (left && left != UINT_MAX &&
           !__atomic_compare_exchange_n(&gm_guard_prompt, &left, left - 1, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
    return left;
}

/* Most blocks of this thread that are not guarded are native. So its next calls of the driver would wait for those of
 * the closer, and for longer than the thread needs itself. */
static bool calls_driver(void) {
    const struct gm_stats_shard *shard = gm_stats_mine();
    return 2 * shard->allocs[GM_KIND_NATIVE] > gm_stats_allocations(shard) - shard->allocs[GM_KIND_GUARD];
}

static bool make_room(const struct gm_guard_block *block) {
    for (unsigned naps = 0; naps < MOST_NAPS; naps++) {
        size_t released = 0;
        bool progress = false;
        if (put(block))
            return true;
        if (close_some((struct way){.reuse = true, .patience_ns = GM_GUARD_FOREVER}, &released, &progress) && !progress)
            return false;
        if (!progress)
            gm_sleep(NAP_NS);
    }
    return false;
}

bool gm_guard_closing_add(const struct gm_guard_block *block) {
    if (!gm_guard_memory_may_keep(block->device, block->mapped))
        return false;
    gm_stats_cached(GM_KIND_GUARD, block->mapped);
    if (!put(block) && !make_room(block)) {
        gm_stats_uncached(GM_KIND_GUARD, block->mapped);
        return false;
    }
    if (is_prompt() || calls_driver() || !start_closer())
        (void)close_all((struct way){.reuse = true, .patience_ns = GM_GUARD_FOREVER});
    else
        call_closer();
    return true;
}

size_t gm_guard_close_all(enum gm_guard_closing how) {
    if (!gm_guard_any_waits())
        return 0;
    CUstreamCaptureMode mode = gm_capture_relax();
    static const uint64_t patience_ns[] = {[GM_GUARD_REUSE] = GM_GUARD_BRIEFLY,
                                           [GM_GUARD_AT_LAST] = GM_GUARD_PATIENTLY,
                                           [GM_GUARD_RELEASE] = GM_GUARD_FOREVER};
    size_t released = close_all((struct way){.reuse = how != GM_GUARD_RELEASE, .patience_ns = patience_ns[how]});
    gm_capture_unrelax(mode);
    return released;
}

void gm_guard_close_later(void) {
    if (!gm_guard_any_waits())
        return;
    if (__atomic_load_n(&closer, __ATOMIC_RELAXED) == HAS_CLOSER)
        call_closer();
    else
        (void)gm_guard_close_all(GM_GUARD_REUSE);
}

void gm_guard_closing_after_fork(void) {
    lock.held = 0;
    gm_guard_waiting = closing = 0;
    closer = NEVER; /* the driver does not work in the child */
}
