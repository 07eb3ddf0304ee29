/* The replay of a residency's counts (replay.h). */
#include "policy/eviction/eviction.h"

#include <stdlib.h>
#include <string.h>

#include "replay.h"

static void *allocate(size_t bytes, void *user) { return malloc(bytes); }
static void release(void *memory, size_t bytes, void *user) { free(memory); }

void replay_open(struct replay *replay, const char *policy, uint64_t unit, uint64_t budget, uint32_t window) {
    const struct gm_eviction_setup setup = {.policy = gm_eviction_find(policy),
                                            .objects = REPLAY_OBJECTS,
                                            .window = window,
                                            .capacity = budget,
                                            .allocate = allocate,
                                            .release = release};
    memset(replay, 0, sizeof *replay);
    replay->unit = unit;
    replay->budget = budget;
    if (gm_eviction_open(&setup, &replay->eviction))
        abort();
}

void replay_close(struct replay *replay) { gm_eviction_close(replay->eviction); }

static unsigned largest_in_pool(const struct replay *replay) {
    unsigned units = REPLAY_SIZES - 1;
    while (units && !replay->pool[units])
        units--;
    return units;
}

/* A victim's memory serves the object that it was evicted for, or is freed. */
static bool place(struct replay *replay, uint32_t object) {
    const unsigned units = replay->units[object];
    for (;;) {
        const unsigned largest = largest_in_pool(replay);
        uint32_t victim;
        if (replay->pool[units]) {
            replay->pool[units]--;
            replay->reused++;
            return true;
        }
        if (replay->allocated + units * replay->unit <= replay->budget) {
            replay->allocated += units * replay->unit;
            replay->allocations++;
            return true;
        }
        if (largest) {
            replay->pool[largest]--;
            replay->allocated -= largest * replay->unit;
            replay->given_back++;
            continue;
        }
        if (gm_eviction_choose(replay->eviction, &victim))
            return false;
        gm_eviction_remove(replay->eviction, victim, true);
        replay->resident[victim] = false;
        replay->evictions++;
        if (replay->units[victim] == units) {
            replay->reused_evicted++;
            return true;
        }
        replay->allocated -= replay->units[victim] * replay->unit;
    }
}

static void begin(struct replay *replay, uint32_t object) {
    if (!replay->uses[object]++ && replay->resident[object])
        gm_eviction_pin(replay->eviction, object);
}

void replay_release(struct replay *replay, uint32_t object) {
    if (!--replay->uses[object] && replay->resident[object])
        gm_eviction_unpin(replay->eviction, object);
}

bool replay_acquire(struct replay *replay, const uint32_t *objects, unsigned count) {
    for (unsigned i = 0; i < count; i++)
        begin(replay, objects[i]);
    for (unsigned i = 0; i < count; i++) {
        const uint32_t object = objects[i];
        if (replay->resident[object]) {
            replay->hits++;
            gm_eviction_hit(replay->eviction, object);
            continue;
        }
        if (!place(replay, object)) {
            for (unsigned j = 0; j < count; j++)
                replay_release(replay, objects[j]);
            return false;
        }
        replay->misses++;
        gm_eviction_insert(replay->eviction, object, replay->units[object] * replay->unit);
        gm_eviction_pin(replay->eviction, object);
        replay->resident[object] = true;
    }
    return true;
}

void replay_end(struct replay *replay, uint32_t object) {
    if (!replay->resident[object])
        return;
    gm_eviction_remove(replay->eviction, object, false);
    replay->resident[object] = false;
    replay->pool[replay->units[object]]++;
}
