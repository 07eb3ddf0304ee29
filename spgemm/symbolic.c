#include "spgemm/symbolic.h"

#include <stdatomic.h>
#include <stdlib.h>

int64_t spg_row_bound(const struct spg_csr *a, const struct spg_csr *b, int32_t row) {
    int64_t bound = 0;
    for (int32_t k = a->offsets[row]; k < a->offsets[row + 1]; k++)
        bound += b->offsets[a->indices[k] + 1] - b->offsets[a->indices[k]];
    return bound;
}

/* marker[j] is 1 + the last row of C that had column j. */
static int32_t count_row(const struct spg_csr *a, const struct spg_csr *b, int32_t row, int32_t *marker) {
    int32_t count = 0;
    for (int32_t k = a->offsets[row]; k < a->offsets[row + 1]; k++) {
        int32_t middle = a->indices[k];
        for (int32_t l = b->offsets[middle]; l < b->offsets[middle + 1]; l++) {
            count += marker[b->indices[l]] != row + 1;
            marker[b->indices[l]] = row + 1;
        }
    }
    return count;
}

bool spg_sizes_of_rows(const struct spg_csr *a, const struct spg_csr *b, const int32_t *rows, int32_t count,
                       int32_t *size, struct spg_error *error) {
    atomic_bool failed = false;
#pragma omp parallel
    {
        int32_t *marker = calloc((size_t)b->columns + 1, sizeof *marker);
        if (!marker)
            failed = true;
#pragma omp for schedule(dynamic, 256)
        for (int32_t i = 0; i < count; i++)
            if (marker)
                size[i] = count_row(a, b, rows ? rows[i] : i, marker);
        free(marker);
    }
    return !failed || spg_fail(error, "out of memory for a marker of %d columns", b->columns);
}

bool spg_sizes_make(struct spg_sizes *sizes, const struct spg_csr *a, const struct spg_csr *b,
                    struct spg_error *error) {
    *sizes = (struct spg_sizes){.rows = a->rows};
    sizes->row = malloc((size_t)a->rows * sizeof *sizes->row + 1);
    if (!sizes->row)
        return spg_fail_as(error, SPG_OUT_OF_MEMORY, "out of memory for the sizes of %d rows", a->rows);
    if (!spg_sizes_of_rows(a, b, NULL, a->rows, sizes->row, error)) {
        free(sizes->row);
        sizes->row = NULL;
        return false;
    }
    for (int32_t i = 0; i < a->rows; i++) {
        sizes->total += sizes->row[i];
        sizes->bound += spg_row_bound(a, b, i);
        if (sizes->row[i] > sizes->longest)
            sizes->longest = sizes->row[i];
    }
    return true;
}
