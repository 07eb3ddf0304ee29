/* Where the growing loop (algorithm 3 of the thesis) puts a row: in pieces of `size` places, one for each
 * round that the row took part in. Round k, from 0, has the rows owner[first[k]] to owner[first[k + 1] - 1],
 * and piece number p, below 2^31, lies at place p x size. So the rows of a round, which the next round's are
 * chosen from, also say whose each piece is. */
#ifndef SPG_PIECES_H
#define SPG_PIECES_H

#include "spgemm/bins.h"

struct spg_pieces {
    int32_t size;   /* places of a piece; 0 = C does not lie in pieces */
    int32_t rounds; /* those whose pieces exist */
    const int32_t *owner;
    const int64_t *first; /* rounds + 1 */
};

/* Round that made piece number `piece`. */
static inline SPG_BOTH int32_t spg_piece_round(const struct spg_pieces *p, int64_t piece) {
    int32_t low = 0, high = p->rounds - 1;
    while (low < high) {
        int32_t middle = low + (high - low + 1) / 2;
        if (p->first[middle] <= piece)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

#endif
