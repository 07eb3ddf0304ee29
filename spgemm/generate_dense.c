/* Matrices with a few dense rows or columns among short rows: a constraint of all unknowns, or a hub of a graph.
 *
 * A short row has its diagonal entry and `each` - 1 random ones; equal ones become one. The dense rows are spread
 * evenly over the matrix. Entry k of the matrix uses output k of the seed's generator. */
#include "spgemm/generate.h"
#include "spgemm/random.h"

#include <stdlib.h>

bool spg_generate_dense(struct spg_csr *m, int64_t rows, int64_t each, int64_t dense, bool by_columns, uint64_t seed,
                        struct spg_error *error) {
    int64_t count = rows * each + rows * dense, at = 0, merged;
    bool made = false;
    *m = (struct spg_csr){0};
    if (dense > rows || count > INT32_MAX)
        return spg_fail(error, "%lld dense rows of %lld: at most %lld rows, and 2^31 - 1 entries", (long long)dense,
                        (long long)rows, (long long)rows);
    int64_t *row = malloc((size_t)count * sizeof *row), *column = malloc((size_t)count * sizeof *column);
    double *value = calloc((size_t)count, sizeof *value);
    if (!row || !column || !value) {
        spg_fail(error, "out of memory for %lld entries", (long long)count);
        goto out;
    }
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t k = 0; k < each; k++, at++) {
            row[at] = i;
            column[at] = k ? (int64_t)(spg_random_at(seed, (uint64_t)at) % (uint64_t)rows) : i;
        }
    }
    for (int64_t d = 0; d < dense; d++) {
        for (int64_t i = 0; i < rows; i++, at++) {
            row[at] = d * rows / dense;
            column[at] = i;
        }
    }
    made = spg_csr_from_triplets(m, (int32_t)rows, (int32_t)rows, count, by_columns ? column : row,
                                 by_columns ? row : column, value, &merged, error);
out:
    free(row);
    free(column);
    free(value);
    return made;
}
