/* Where the fast accumulator puts rows in mode rounds, in pieces of `size` places. It knows a row's entries
 * when the table is packed, so a row takes the pieces of all its rounds at once: its first piece is made with
 * the rows', the further ones lie together behind. As many pieces, and places, as by the loop of the thesis.
 *
 * Rows are formed slab by slab of consecutive rows; each slab's first pieces lie behind all that the slabs
 * before took. So whatever is ahead of a slab's first piece belongs to slabs before it, and slabs in their
 * order can be moved to where C begins in the same memory, as long as a slab's rows of C end before its first
 * piece: a gap in front of the first slab, as large as its rows of C, sees to that. */
#ifndef SPG_SPREAD_H
#define SPG_SPREAD_H

#include "spgemm/both.h"

#include <stdint.h>

#define SPG_SLABS 8 /* at most */

/* On the device. */
struct spg_spill {
    unsigned long long taken; /* further pieces that rows asked for, the gap before them */
    unsigned long long end;   /* of those that rows got, where some got none; else UINT64_MAX */
    unsigned long long later; /* further pieces of rows that were only counted */
    int64_t shift[SPG_SLABS]; /* further pieces that rows had got when the slab was begun, and the gap */
    int32_t left;             /* rows that are still to be formed */
    unsigned ticket;          /* of tiles (tiles.h) */
};

struct spg_spread {
    int32_t size;   /* places of a piece; 0 = C does not lie so */
    int32_t slab;   /* rows of each slab, at least 1; the last may have fewer */
    int32_t behind; /* rows whose first pieces lie before the further pieces that are taken now */
    int64_t room;   /* further pieces that there is memory for, the gap among them */
    int32_t *more;  /* number of the first further piece, by row */
    int32_t *left;  /* list of those rows */
    struct spg_spill *spill;
};

/* Pieces of a row beside its first. */
static inline SPG_BOTH int64_t spg_further_pieces(int32_t entries, int32_t size) {
    return entries > size ? (entries - 1) / size : 0;
}

/* Number of the row's first piece. */
static inline SPG_BOTH int64_t spg_first_piece(const struct spg_spread *s, int32_t row) {
    return row + s->spill->shift[row / s->slab];
}

/* Place of the row's entry number `rank`. */
static inline SPG_BOTH int64_t spg_spread_place(const struct spg_spread *s, int64_t first, int64_t more, int32_t rank) {
    return rank < s->size ? first * s->size + rank : (more - 1) * s->size + rank;
}

#endif
