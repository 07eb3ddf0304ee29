/* Where the growing loop (algorithm 3 of the thesis) puts a row: in pieces of `size` places, one for each
 * round that the row took part in. Round k, from 0, has the rows owner[first[k]] to owner[first[k + 1] - 1],
 * ascending, and piece number p, below 2^31, lies at place p x size. So the rows of a round, which the next round's are
 * chosen from, also say whose each piece is. */
#ifndef GM_SPGEMM_PIECES_H
#define GM_SPGEMM_PIECES_H

#include "spgemm/bins.h"

struct gm_pieces {
    int32_t size;   /* places of a piece; 0 = C does not lie in pieces */
    int32_t rounds; /* those whose pieces exist */
    const int32_t *owner;
    const int64_t *first; /* rounds + 1 */
};

/* Number of the piece that `row` got in round `round`; the row must have taken part in it. */
static inline GM_BOTH int64_t gm_piece_of(const struct gm_pieces *p, int32_t row, int32_t round) {
    int64_t low = p->first[round], high = p->first[round + 1] - 1;
    if (round == 0)
        return low + row; /* every row takes part */
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (p->owner[middle] < row)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Round that made piece number `piece`. */
static inline GM_BOTH int32_t gm_piece_round(const struct gm_pieces *p, int64_t piece) {
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

/* Place of the row's entry number `rank`. */
static inline GM_BOTH int64_t gm_piece_place(const struct gm_pieces *p, int32_t row, int32_t rank) {
    return gm_piece_of(p, row, rank / p->size) * p->size + rank % p->size;
}

#endif
