/* Layout of C's rows under the kernel of the thesis (algorithm 3).
 *
 * A row lies in chunks of `size` slots, one chunk for each round that the row took part in. A slot holds one entry: a
 * column and a value. Chunk number p, below 2^31, begins at slot p x size. Round k, from 0, made the chunks first[k] to
 * first[k + 1] - 1, and owner[p] is the row of chunk p. So the list of a round's rows, from which the next round
 * selects, is at the same time the list of chunk owners. A row's chunks are not contiguous, and its last one may have
 * empty slots: compaction (gpu_compact.c) makes valid CSR of them. Memory: 4 bytes a chunk. */
#ifndef SPG_CHUNKS_H
#define SPG_CHUNKS_H

#include "spgemm/both.h"

#include <stdint.h>

struct spg_chunks {
    int32_t size;   /* slots of a chunk; 0 = C is not in this layout */
    int32_t rounds; /* rounds whose chunks exist */
    const int32_t *owner;
    const int64_t *first; /* rounds + 1 */
};

/* The round that made chunk number `chunk`; binary search. */
static inline SPG_BOTH int32_t spg_chunk_round(const struct spg_chunks *p, int64_t chunk) {
    int32_t low = 0, high = p->rounds - 1;
    while (low < high) {
        int32_t middle = low + (high - low + 1) / 2;
        if (p->first[middle] <= chunk)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

#endif
