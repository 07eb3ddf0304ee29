#include "spgemm/model.h"

#include <stdlib.h>

const int32_t spg_thesis_sizes[SPG_THESIS_SIZES] = {8, 16, 32, 48, 64, 96, 128, 256};

bool spg_histogram_make(struct spg_histogram *h, const int32_t *size, int32_t rows, struct spg_error *error) {
    *h = (struct spg_histogram){.rows = rows};
    for (int32_t i = 0; i < rows; i++)
        if (size[i] > h->longest)
            h->longest = size[i];
    h->count = calloc((size_t)h->longest + 1, sizeof *h->count);
    if (!h->count)
        return spg_fail_as(error, SPG_OUT_OF_MEMORY, "out of memory for %d row sizes", h->longest);
    for (int32_t i = 0; i < rows; i++) {
        h->distinct += !h->count[size[i]]++;
        h->total += size[i];
    }
    h->size = malloc((size_t)h->distinct * sizeof *h->size + 1);
    if (!h->size) {
        spg_histogram_free(h);
        return spg_fail_as(error, SPG_OUT_OF_MEMORY, "out of memory for the sizes of %d rows", rows);
    }
    for (int32_t each = 0, last = 0; last < h->distinct; each++)
        if (h->count[each]) {
            h->size[last] = each;
            h->count[last++] = h->count[each];
        }
    return true;
}

void spg_histogram_free(struct spg_histogram *h) {
    free(h->size);
    free(h->count);
    *h = (struct spg_histogram){0};
}

struct spg_rounds spg_model_rounds(const struct spg_histogram *h, int32_t size_per_row) {
    struct spg_rounds r = {.size_per_row = size_per_row};
    for (int32_t i = 0; i < h->distinct; i++) {
        uint32_t size = (uint32_t)h->size[i], each = (uint32_t)size_per_row;
        uint32_t rounds = size ? (size + each - 1) / each : 1;
        r.rounds = (int32_t)rounds; /* sizes ascend */
        r.entries += h->count[i] * rounds * size_per_row;
    }
    r.efficiency = r.entries ? (double)h->total / (double)r.entries : 1;
    return r;
}
