/* What a product C = A B takes, from structures alone. */
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
    int64_t bound;   /* multiplications: the upper bound on nnz(C), "Estimation" of the thesis' table 5.2 */
    int32_t longest; /* of row[] */
};

/* Multiplications of one row: what a row of C has at most. */
int64_t spg_row_bound(const struct spg_csr *a, const struct spg_csr *b, int32_t row);

/* Exact sizes, with a marker of B's columns for each thread (4 bytes a column). Needs a->columns == b->rows.
 * On success the caller frees sizes->row. */
bool spg_sizes_make(struct spg_sizes *sizes, const struct spg_csr *a, const struct spg_csr *b, struct spg_error *error);

/* Exact sizes of chosen rows only, into size[count]. */
bool spg_sizes_of_rows(const struct spg_csr *a, const struct spg_csr *b, const int32_t *rows, int32_t count,
                       int32_t *size, struct spg_error *error);

#ifdef __cplusplus
}
#endif

#endif
