/* Memory of freed guarded blocks, kept for later ones of the same size. It is open at addresses of its own, which no
 * block had for long and the program does not know. So the next block costs no call of the driver: where it has the
 * same place in the mapping, it also has the pattern beside it already (guard_pattern.h).
 *
 * Each device keeps at most a sixteenth of its memory, or GPUMEM_CACHE_LIMIT if that is less. What is unused for
 * GPUMEM_CACHE_IDLE is released when later blocks are kept. All functions are safe from any thread; none holds a lock
 * across a driver call. */
#ifndef GM_GUARD_MEMORY_H
#define GM_GUARD_MEMORY_H

#include "shim/driver/mapping.h"
#include "shim/resource/guard_ranges.h"

struct gm_guard_memory {
    struct gm_extent extent;
    int device;
    uint64_t mapping;    /* where it is open, in a range of its own (guard_ranges.h); 0: nowhere */
    uint64_t reach;      /* gm_reach_devices() when it was opened: it is open to these */
    bool patterned;      /* the pattern lies near the place of the block that had it (guard_pattern.h) */
    bool whole;          /* it fills all of the rest */
    size_t before, size; /* that place: bytes of the mapping before the block, and of the block */
};

static inline bool gm_guard_memory_has_pattern(const struct gm_guard_memory *memory,
                                               const struct gm_guard_memory *wanted) {
    return memory->patterned && memory->size == wanted->size && memory->before == wanted->before;
}

/* Takes a range for the memory and opens it there. After a failure it is open nowhere. */
GM_INTERNAL gm_status gm_guard_memory_open(struct gm_guard_memory *memory);
/* Undoes that. */
GM_INTERNAL void gm_guard_memory_close(struct gm_guard_memory *memory);
/* Takes kept memory with the size and device of `wanted`, if possible with the pattern for its place. False: there is
 * none. */
GM_INTERNAL bool gm_guard_memory_take(const struct gm_guard_memory *wanted, struct gm_guard_memory *memory);
/* Whether memory of this size is within the bound of its device. */
GM_INTERNAL bool gm_guard_memory_may_keep(int device, uint64_t bytes);
/* Keeps open memory, and releases what is too much with it. Runs in relaxed capture mode. False: it is not kept. */
GM_INTERNAL bool gm_guard_memory_keep(const struct gm_guard_memory *memory);
/* Closes and releases memory that is not kept. `counted`: it was counted as kept. */
GM_INTERNAL void gm_guard_memory_release(struct gm_guard_memory *memory, bool counted);
/* Releases all that is kept. Returns the bytes. */
GM_INTERNAL size_t gm_guard_memory_release_all(void);
/* Bytes that are kept of a device. */
GM_INTERNAL size_t gm_guard_memory_bytes(int device);
GM_INTERNAL void gm_guard_memory_after_fork(void);

#endif
