/* Compaction in place, for rows of one chunk each.
 *
 * Row i has its entries from slot i x `chunk` on; they must move to where the row begins in C. Every entry moves to its
 * own slot or to an earlier one. Rows are cut into tiles of at most SPG_TILE slots. A block of threads moves one tile:
 *
 *     take the next tile number (ticket); read the tile's entries into shared memory; mark the tile as read;
 *     wait until the tiles that now lie where the entries go have been marked; write the entries.
 *
 * No block waits before it has read its own tile, and it waits only for tiles with lower tickets, whose blocks have
 * already started. So the method cannot deadlock, however few blocks run at a time. Cost: one read and one write of
 * every entry. Memory: 4 bytes a tile. */
#ifndef SPG_TILES_H
#define SPG_TILES_H

#include "spgemm/both.h"

#include <stdint.h>

#define SPG_TILE 2048 /* slots of a tile at most; a tile has whole rows */

struct spg_tiling {
    int32_t rows, chunk;   /* of C; slots of a chunk, at most SPG_TILE */
    int32_t rows_per_tile; /* spg_tile_rows(chunk) */
    const int32_t *offset; /* of C's rows: rows + 1 */
};

struct spg_tile {
    int32_t row, rows;    /* the first row, their number */
    int32_t begin, end;   /* the range of its entries in C */
    int32_t first, after; /* must be read before: tiles first to after - 1, at most two, all before this one */
};

static inline SPG_BOTH int32_t spg_tile_rows(int32_t chunk) { return SPG_TILE / chunk; }

static inline SPG_BOTH int32_t spg_tiles(const struct spg_tiling *p) {
    return p->rows / p->rows_per_tile + (p->rows % p->rows_per_tile > 0);
}

static inline SPG_BOTH struct spg_tile spg_tile_at(const struct spg_tiling *p, int32_t number) {
    int32_t row = number * p->rows_per_tile, rows = p->rows - row < p->rows_per_tile ? p->rows - row : p->rows_per_tile,
            slots = p->rows_per_tile * p->chunk;
    struct spg_tile t = {row, rows, p->offset[row], p->offset[row + rows], 0, 0};
    /* An empty tile, or one whose entries already lie where they belong. */
    if (t.begin == t.end || t.begin == (int64_t)row * p->chunk)
        return t;
    t.first = t.begin / slots;
    t.after = (t.end - 1) / slots + 1;
    if (t.after > number)
        t.after = number;
    return t;
}

#endif
