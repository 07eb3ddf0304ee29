/* One array of blocks that wait (guard_closing.h). */
#include "shim/resource/guard_closing.h"

#include "shim/base/stats.h"
#include "shim/resource/guard_memory.h"
#include "shim/resource/guard_pattern.h"

enum { TOGETHER = GM_GUARD_TOGETHER, PROMPT = 64 };
#define TOGETHER_BYTES ((uint64_t)64 << 20)

unsigned gm_guard_together = TOGETHER, gm_guard_waiting;
static struct gm_guard_block waiting[TOGETHER];
static unsigned added; /* blocks so far, up to PROMPT */
static gm_spin lock;

/* ---- the array */

static bool put(const struct gm_guard_block *block, bool *enough) {
    uint64_t bytes = block->mapped;
    gm_spin_lock(&lock);
    bool room = gm_guard_waiting < TOGETHER;
    for (unsigned i = 0; i < gm_guard_waiting; i++)
        bytes += waiting[i].mapped;
    if (room) {
        waiting[gm_guard_waiting] = *block;
        __atomic_store_n(&gm_guard_waiting, gm_guard_waiting + 1, __ATOMIC_RELEASE);
    }
    *enough = gm_guard_waiting >= gm_guard_together || bytes >= TOGETHER_BYTES || added < PROMPT;
    added += added < PROMPT;
    gm_spin_unlock(&lock);
    return room;
}

static unsigned take_all(struct gm_guard_block blocks[TOGETHER]) {
    gm_spin_lock(&lock);
    unsigned count = gm_guard_waiting;
    for (unsigned i = 0; i < count; i++)
        blocks[i] = waiting[i];
    __atomic_store_n(&gm_guard_waiting, 0, __ATOMIC_RELEASE);
    gm_spin_unlock(&lock);
    return count;
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
    uint64_t bytes = 0;
    gm_spin_lock(&lock);
    for (unsigned i = 0; i < gm_guard_waiting; i++)
        bytes += waiting[i].device == device ? waiting[i].mapped : 0;
    gm_spin_unlock(&lock);
    return bytes;
}

/* ---- closing */

static struct gm_guard_memory memory_of(const struct gm_guard_block *block, bool patterned) {
    return (struct gm_guard_memory){.extent = {.handle = block->memory, .size = block->mapped},
                                    .device = block->device,
                                    .patterned = patterned,
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

/* What stays open is tried again with the next ones. */
static size_t close_one(const struct gm_guard_block *block, struct gm_guard_memory *memory) {
    bool enough;
    if (unmap(block)) {
        gm_guard_memory_close(memory);
        (void)put(block, &enough);
        return 0;
    }
    gm_stats_uncached(GM_KIND_GUARD, block->mapped);
    if (memory->mapping && gm_guard_memory_keep(memory))
        return 0;
    gm_guard_memory_release(memory, true);
    return block->mapped;
}

/* All patterns are copied while the memory is opened at new addresses. */
static size_t close_these(const struct gm_guard_block *blocks, unsigned count, bool reuse) {
    struct gm_guard_memory memory[TOGETHER];
    bool arrived = false;
    size_t released = 0;
    for (unsigned i = 0; i < count; i++)
        gm_guard_pattern_fetch(&blocks[i]);
    for (unsigned i = 0; i < count; i++) {
        memory[i] = memory_of(&blocks[i], false);
        if (reuse)
            (void)gm_guard_memory_open(&memory[i]);
    }
    for (unsigned i = 0; i < count; i++) {
        if (!i || blocks[i].context_id != blocks[i - 1].context_id)
            arrived = !gm_guard_pattern_arrived(&blocks[i], true);
        memory[i].patterned = arrived && gm_guard_pattern_check(&blocks[i], GM_GUARD_AT_FREE);
        released += close_one(&blocks[i], &memory[i]);
    }
    return released;
}

/* Without a wait for work of the program. A block whose context ended is not read at all. */
static bool is_readable(const struct gm_guard_block *block) {
    gm_status status = gm_guard_pattern_arrived(block, false);
    return !status || status == GM_INVALID_CONTEXT;
}

static size_t close_all(bool reuse, bool waits) {
    struct gm_guard_block blocks[TOGETHER];
    unsigned count = take_all(blocks), ready = 0;
    bool readable = waits, enough;
    for (unsigned i = 0; i < count; i++) {
        if (!waits && (!i || blocks[i].context_id != blocks[i - 1].context_id))
            readable = is_readable(&blocks[i]);
        if (readable || !put(&blocks[i], &enough))
            blocks[ready++] = blocks[i];
    }
    return close_these(blocks, ready, reuse);
}

bool gm_guard_closing_add(const struct gm_guard_block *block) {
    bool enough;
    if (!gm_guard_memory_may_keep(block->device, block->mapped) || !put(block, &enough))
        return false;
    gm_stats_cached(GM_KIND_GUARD, block->mapped);
    if (enough)
        (void)close_all(true, true);
    return true;
}

size_t gm_guard_close_all(enum gm_guard_closing how) {
    if (!gm_guard_any_waits())
        return 0;
    CUstreamCaptureMode mode = gm_capture_relax();
    size_t released = close_all(how == GM_GUARD_REUSE, how == GM_GUARD_RELEASE);
    gm_capture_unrelax(mode);
    return released;
}

void gm_guard_closing_after_fork(void) {
    lock.held = 0;
    gm_guard_waiting = 0;
}
