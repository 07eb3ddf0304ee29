/* Linear probing with backward-shift deletion. Without tombstones, look-ups stay fast in long traces. */
#include "tools/cli/live_blocks.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define HUGE_PAGE (2u << 20)

/* Look-ups access the table at random. Huge pages avoid a TLB miss in addition to each cache miss. */
static struct gm_live_block *new_slots(size_t count) {
    size_t bytes = count * sizeof(struct gm_live_block);
    if (bytes < HUGE_PAGE)
        return calloc(count, sizeof(struct gm_live_block));
    bytes = (bytes + HUGE_PAGE - 1) & ~(size_t)(HUGE_PAGE - 1);
    struct gm_live_block *slots = aligned_alloc(HUGE_PAGE, bytes);
    if (slots) {
        madvise(slots, bytes, MADV_HUGEPAGE);
        memset(slots, 0, bytes);
    }
    return slots;
}

static size_t home(const struct gm_live_blocks *t, uint64_t key) {
    return (size_t)((key * UINT64_C(0x9e3779b97f4a7c15)) >> 20) & (t->size - 1);
}

static struct gm_live_block *find(const struct gm_live_blocks *t, uint64_t key) {
    size_t at = home(t, key);
    while (t->slots[at].key && t->slots[at].key != key)
        at = (at + 1) & (t->size - 1);
    return &t->slots[at];
}

static bool grow(struct gm_live_blocks *t) {
    struct gm_live_blocks bigger = {.size = t->size ? 2 * t->size : 1024, .count = t->count};
    bigger.slots = new_slots(bigger.size);
    if (!bigger.slots)
        return false;
    for (size_t i = 0; i < t->size; i++)
        if (t->slots[i].key)
            *find(&bigger, t->slots[i].key) = t->slots[i];
    free(t->slots);
    *t = bigger;
    return true;
}

int gm_live_blocks_add(struct gm_live_blocks *t, const struct gm_live_block *block, struct gm_live_block *old) {
    if (t->count * 4 >= t->size * 3 && !grow(t))
        return -1;
    struct gm_live_block *slot = find(t, block->key);
    int replaced = slot->key != 0;
    if (replaced)
        *old = *slot;
    else
        t->count++;
    *slot = *block;
    return replaced;
}

struct gm_live_block *gm_live_blocks_find(const struct gm_live_blocks *t, uint64_t key) {
    struct gm_live_block *slot = t->size ? find(t, key) : NULL;
    return slot && slot->key ? slot : NULL;
}

bool gm_live_blocks_take(struct gm_live_blocks *t, uint64_t key, struct gm_live_block *block) {
    if (!t->size)
        return false;
    struct gm_live_block *slot = find(t, key);
    if (!slot->key)
        return false;
    *block = *slot;
    t->count--;
    size_t hole = (size_t)(slot - t->slots), mask = t->size - 1;
    for (size_t at = (hole + 1) & mask; t->slots[at].key; at = (at + 1) & mask) {
        /* A record may move into the hole only if the hole lies between its home slot and its current slot. */
        if (((at - home(t, t->slots[at].key)) & mask) < ((at - hole) & mask))
            continue;
        t->slots[hole] = t->slots[at];
        hole = at;
    }
    t->slots[hole].key = 0;
    return true;
}

void gm_live_blocks_free(struct gm_live_blocks *t) {
    free(t->slots);
    *t = (struct gm_live_blocks){0};
}
