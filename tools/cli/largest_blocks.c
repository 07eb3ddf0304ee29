#include "tools/cli/largest_blocks.h"

#include <stdlib.h>

static uint64_t rank(const struct gm_largest *h, unsigned i) { return h->list[i].block.bytes; }

static void swap(struct gm_largest *h, unsigned a, unsigned b) {
    struct gm_timeline_block kept = h->list[a];
    h->list[a] = h->list[b];
    h->list[b] = kept;
}

bool gm_largest_keep(struct gm_largest *h, const struct gm_timeline_block *b, unsigned most) {
    if (h->count == h->room && h->room < most) {
        unsigned room = h->room ? 2 * h->room : 4;
        struct gm_timeline_block *list = realloc(h->list, room * sizeof *list);
        if (!list)
            return false;
        h->list = list;
        h->room = room;
    }
    if (h->count < most) {
        unsigned i = h->count++;
        h->list[i] = *b;
        for (; i && rank(h, i) < rank(h, (i - 1) / 2); i = (i - 1) / 2)
            swap(h, i, (i - 1) / 2);
        return true;
    }
    if (b->block.bytes <= rank(h, 0))
        return true;
    h->list[0] = *b;
    for (unsigned i = 0, child; (child = 2 * i + 1) < h->count; i = child) {
        child += child + 1 < h->count && rank(h, child + 1) < rank(h, child);
        if (rank(h, child) >= rank(h, i))
            break;
        swap(h, i, child);
    }
    return true;
}
