/* What a residency has to count, replayed on numbers: the placement of gpumem_residency.h beside a policy of
 * policy/eviction/, without memory, streams and transfers. */
#ifndef RESIDENCY_REPLAY_H
#define RESIDENCY_REPLAY_H

#include <stdbool.h>
#include <stdint.h>

enum { REPLAY_OBJECTS = 64, REPLAY_SIZES = 8 };

struct replay {
    struct gm_eviction *eviction;
    uint64_t unit, budget, allocated;
    unsigned pool[REPLAY_SIZES]; /* blocks by size in units */
    unsigned uses[REPLAY_OBJECTS], units[REPLAY_OBJECTS];
    bool resident[REPLAY_OBJECTS];
    uint64_t hits, misses, allocations, reused, reused_evicted, evictions, given_back;
};

void replay_open(struct replay *replay, const char *policy, uint64_t unit, uint64_t budget, uint32_t window);
void replay_close(struct replay *replay);
/* False: nothing could be evicted, and nothing is in use by this call. */
bool replay_acquire(struct replay *replay, const uint32_t *objects, unsigned count);
void replay_release(struct replay *replay, uint32_t object);
/* The copy ends: dropped, or unregistered. */
void replay_end(struct replay *replay, uint32_t object);

#endif
