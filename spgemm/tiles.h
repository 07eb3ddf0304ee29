/* C moved together in the memory that its rows were formed in, where row i has size[i] entries from place i x
 * `piece` on: every entry goes to a place at or before its own. Places are cut into tiles. Who moves a tile
 * takes its number by a ticket, reads its entries, says so, waits until the tiles that lie where the entries
 * go have been read, and writes. Nobody waits before having read, and only for tiles of lower tickets, which
 * have been begun: so it goes on however few tiles are in hand at a time. */
#ifndef GM_SPGEMM_TILES_H
#define GM_SPGEMM_TILES_H

#include "spgemm/both.h"

#include <stdint.h>

#define GM_TILE 2048 /* places */

struct gm_padded {
    int32_t rows, piece;
    const int32_t *size;
    const int64_t *place; /* of C's rows: rows + 1 */
};

struct gm_tile {
    int64_t from;       /* first place */
    int32_t places;     /* up to GM_TILE */
    int32_t row, rank;  /* of the first place */
    int64_t begin, end; /* of its entries in C */
    int64_t first,
        after; /* tiles that must have been read: first to after - 1, none or at most two, before this one */
};

static inline GM_BOTH int64_t gm_tiles(const struct gm_padded *p) {
    return ((int64_t)p->rows * p->piece + GM_TILE - 1) / GM_TILE;
}

/* Entries of C in places before `place`. */
static inline GM_BOTH int64_t gm_entries_before(const struct gm_padded *p, int64_t place) {
    int64_t row = place / p->piece;
    if (row >= p->rows)
        return p->place[p->rows];
    int32_t rank = (int32_t)(place % p->piece);
    return p->place[row] + (rank < p->size[row] ? rank : p->size[row]);
}

static inline GM_BOTH struct gm_tile gm_tile_at(const struct gm_padded *p, int64_t number) {
    int64_t places = (int64_t)p->rows * p->piece, from = number * GM_TILE;
    struct gm_tile t;
    t.from = from;
    t.places = (int32_t)(places - from < GM_TILE ? places - from : GM_TILE);
    t.row = (int32_t)(from / p->piece);
    t.rank = (int32_t)(from % p->piece);
    t.begin = gm_entries_before(p, from);
    t.end = gm_entries_before(p, from + t.places);
    t.first = t.begin / GM_TILE;
    t.after = (t.end + GM_TILE - 1) / GM_TILE;
    if (t.after > number)
        t.after = number;
    /* Nothing goes anywhere, or all entries stay where they are. */
    if (t.begin == t.end || t.begin == from)
        t.after = t.first;
    return t;
}

/* Number in C, from t->begin on, of what lies at place t->from + i; -1 where nothing does. `piece` is at most
 * GM_TILE, so that 32 bits do. */
static inline GM_BOTH int32_t gm_tile_entry(const struct gm_padded *p, const struct gm_tile *t, int32_t i) {
    uint32_t at = (uint32_t)t->rank + (uint32_t)i, piece = (uint32_t)p->piece;
    int32_t row = t->row + (int32_t)(at / piece), rank = (int32_t)(at % piece);
    return rank < p->size[row] ? (int32_t)(p->place[row] + rank - t->begin) : -1;
}

#endif
