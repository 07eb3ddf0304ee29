/* The symbolic phase of C = A B on the host: sizes of C's rows, from the structures alone.
 *
 * A row is counted by marking the columns that it reaches. The marker of a column is the number of the last row that
 * reached it, so markers are never cleared. Rows are distributed over threads. Cost: one step for each intermediate
 * product. Memory: 4 bytes x columns of B for each thread. */
#ifndef SPG_SYMBOLIC_H
#define SPG_SYMBOLIC_H

#include "spgemm/matrix.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spg_sizes {
    int32_t rows;
    int32_t *row;    /* entries of each row of C */
    int64_t total;   /* nnz(C) */
    int64_t bound;   /* intermediate products: the upper bound on nnz(C), "Estimation" in the thesis' table 5.2 */
    int32_t longest; /* of row[] */
};

/* Intermediate products of one row: the upper bound on its entries. */
int64_t spg_row_bound(const struct spg_csr *a, const struct spg_csr *b, int32_t row);

/* Exact sizes of all rows. Needs a->columns == b->rows. On success the caller frees sizes->row. */
bool spg_sizes_make(struct spg_sizes *sizes, const struct spg_csr *a, const struct spg_csr *b, struct spg_error *error);

/* Exact sizes of the listed rows, in size[count]. */
bool spg_sizes_of_rows(const struct spg_csr *a, const struct spg_csr *b, const int32_t *rows, int32_t count,
                       int32_t *size, struct spg_error *error);

#ifdef __cplusplus
}
#endif

#endif
