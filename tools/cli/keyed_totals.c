#include "tools/cli/keyed_totals.h"

#include <stdlib.h>
#include <string.h>

struct gm_keyed_totals *gm_keyed_totals_of(struct gm_keyed_totals_table *t, uint64_t value, uint64_t space) {
    struct gm_totals_key key = {value, space};
    struct gm_keyed_totals *row = t->last;
    if (row && row->key.value == value && row->key.space == space)
        return row;
    HASH_FIND(hh, t->rows, &key, sizeof key, row);
    if (!row && (row = calloc(1, sizeof *row))) {
        row->key = key;
        HASH_ADD(hh, t->rows, key, sizeof key, row);
    }
    return t->last = row;
}

static int by_bytes(const struct gm_keyed_totals *a, const struct gm_keyed_totals *b) {
    if (a->bytes != b->bytes)
        return a->bytes < b->bytes ? 1 : -1;
    if (a->key.space != b->key.space)
        return a->key.space > b->key.space ? 1 : -1;
    return a->key.value > b->key.value ? 1 : a->key.value < b->key.value ? -1 : 0;
}

void gm_keyed_totals_sort(struct gm_keyed_totals_table *t) { HASH_SORT(t->rows, by_bytes); }

void gm_keyed_totals_free(struct gm_keyed_totals_table *t) {
    struct gm_keyed_totals *row, *next;
    HASH_ITER(hh, t->rows, row, next) {
        HASH_DEL(t->rows, row);
        free(row);
    }
    t->last = NULL;
}
