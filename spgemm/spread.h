/* Layout of C's rows under the hash accumulator in mode rounds.
 *
 * A row lies in chunks of `size` slots, as in chunks.h. The hash table knows the row's number of entries before it
 * writes the first one. So a row requests the chunks of all its rounds at once: its first chunk exists for every row,
 * and the extra chunks of one row are contiguous. The numbers of chunks and slots are those of the thesis' loop.
 *
 * Rows are computed slab by slab; a slab is a number of consecutive rows. The first chunks of a slab follow the extra
 * chunks of all slabs before it:
 *
 *     gap | first chunks of slab 0 | extra chunks of slab 0 | first chunks of slab 1 | extra chunks of slab 1 | ...
 *
 * So everything before a slab's first chunk belongs to earlier slabs. The extra chunks of slab k + 1 include those of
 * rows of slab k that are computed again meanwhile (gpu_move.h). Compaction can move the slabs in order to the
 * beginning of the same memory, as long as the slab's rows of C end before the slab's first chunk. The gap before slab
 * 0 makes that true.
 *
 * All counts treat the gap as extra chunks that no row owns. So a chunk's number is the number of first chunks before
 * it plus the number of extra chunks before it. */
#ifndef SPG_SPREAD_H
#define SPG_SPREAD_H

#include "spgemm/both.h"

#include <stdint.h>

#define SPG_SLABS 16 /* at most */

/* Counters in device memory. All numbers are extra chunks, the gap included, unless a comment says otherwise. */
struct spg_chunk_counts {
    unsigned long long requested;   /* by all rows that were computed */
    unsigned long long granted_end; /* granted chunks end here, once a request failed; else UINT64_MAX */
    unsigned long long counted;     /* needed by rows that were only counted; without the gap */
    int64_t shift[SPG_SLABS];       /* granted when the slab was started */
    int32_t deferred;               /* rows that must be computed later */
    unsigned ticket;                /* next tile to pack (tiles.h) */
};

struct spg_spread {
    int32_t size;         /* slots of a chunk; 0 = C is not in this layout */
    int32_t slab;         /* rows of a slab, at least 1; the last slab may have fewer */
    int32_t first_chunks; /* first chunks that precede the extra chunks granted now */
    int64_t capacity;     /* extra chunks that have memory, the gap included */
    int32_t *first_extra; /* number of the first extra chunk, by row */
    int32_t *deferred;    /* list of deferred rows */
    struct spg_chunk_counts *chunk_counts;
};

/* Extra chunks of a row with this many entries. */
static inline SPG_BOTH int64_t spg_extra_chunks(int32_t entries, int32_t size) {
    return entries > size ? (entries - 1) / size : 0;
}

/* Number of the row's first chunk. */
static inline SPG_BOTH int64_t spg_first_chunk(const struct spg_spread *s, int32_t row) {
    return row + s->chunk_counts->shift[row / s->slab];
}

/* Slot of the row's entry number `rank`, from the numbers of its first chunk and its first extra chunk. */
static inline SPG_BOTH int64_t spg_spread_slot(const struct spg_spread *s, int64_t first, int64_t first_extra,
                                               int32_t rank) {
    return rank < s->size ? first * s->size + rank : (first_extra - 1) * s->size + rank;
}

#endif
