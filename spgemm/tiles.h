/* C moved together in the memory that its rows were formed in, where row i has its entries from place i x
 * `piece` on: every entry goes to a place at or before its own. Rows are cut into tiles. Who moves a tile
 * takes its number by a ticket, reads its entries, says so, waits until the tiles that lie where the entries
 * go have been read, and writes. Nobody waits before having read, and only for tiles of lower tickets, which
 * have been begun: so it goes on however few tiles are in hand at a time. */
#ifndef SPG_TILES_H
#define SPG_TILES_H

#include "spgemm/both.h"

#include <stdint.h>

#define SPG_TILE 2048 /* places at most, those of whole rows */

struct spg_padded {
    int32_t rows, piece;
    int32_t tile;          /* rows of a tile: spg_tile_rows(piece) */
    const int32_t *offset; /* of C's rows: rows + 1 */
};

struct spg_tile {
    int32_t row, rows;    /* the first, how many */
    int32_t begin, end;   /* of its entries in C */
    int32_t first, after; /* tiles that must have been read: first to after - 1, none or at most two, before
                           * this one */
};

/* `piece` is at most SPG_TILE. */
static inline SPG_BOTH int32_t spg_tile_rows(int32_t piece) { return SPG_TILE / piece; }

static inline SPG_BOTH int32_t spg_tiles(const struct spg_padded *p) {
    return p->rows / p->tile + (p->rows % p->tile > 0);
}

static inline SPG_BOTH struct spg_tile spg_tile_at(const struct spg_padded *p, int32_t number) {
    int32_t row = number * p->tile, rows = p->rows - row < p->tile ? p->rows - row : p->tile,
            places = p->tile * p->piece;
    struct spg_tile t = {row, rows, p->offset[row], p->offset[row + rows], 0, 0};
    /* Nothing goes anywhere, or all entries stay where they are. */
    if (t.begin == t.end || t.begin == (int64_t)row * p->piece)
        return t;
    t.first = t.begin / places;
    t.after = (t.end - 1) / places + 1;
    if (t.after > number)
        t.after = number;
    return t;
}

#endif
