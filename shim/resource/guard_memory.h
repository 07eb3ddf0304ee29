/* Physical memory of freed guarded blocks, kept for later ones of the same size. A kept extent is mapped nowhere, so
 * its former addresses fault. It saves the creation and the release of a handle; where the next block has the same
 * place in the mapping, it also has the pattern beside it already (guard_pattern.h).
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
    bool patterned;      /* the pattern lies beside the place of the block that had it */
    size_t before, size; /* that place: bytes of the mapping before the block, and of the block */
};

static inline bool gm_guard_memory_has_pattern(const struct gm_guard_memory *memory,
                                               const struct gm_guard_block *block) {
    return memory->patterned && memory->size == block->size && memory->before == block->address - block->mapping;
}

/* Takes kept memory of block->mapped bytes on the block's device, if possible with the pattern that the block needs.
 * False: there is none. */
GM_INTERNAL bool gm_guard_memory_take(const struct gm_guard_block *block, struct gm_guard_memory *memory);
/* Keeps memory that is mapped nowhere, and releases what is too much with it. Runs in relaxed capture mode. False: it
 * is not kept. */
GM_INTERNAL bool gm_guard_memory_keep(const struct gm_guard_memory *memory);
/* Releases memory that is not kept. `taken`: it was, until gm_guard_memory_take. */
GM_INTERNAL void gm_guard_memory_release(const struct gm_guard_memory *memory, bool taken);
/* Releases all that is kept. Returns the bytes. */
GM_INTERNAL size_t gm_guard_memory_release_all(void);
/* Bytes that are kept of a device. */
GM_INTERNAL size_t gm_guard_memory_bytes(int device);
GM_INTERNAL void gm_guard_memory_after_fork(void);

#endif
