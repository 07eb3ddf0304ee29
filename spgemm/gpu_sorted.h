/* Rows by sorting their intermediate products (kernels_sorted.cu), batch by batch.
 *
 * This is for rows whose tables or ranges would need more work (bins.h): long rows of A that meet short rows of B, and
 * very wide matrices. A batch has whole rows and about SPG_SORT_BATCH intermediate products; a longer row is a batch of
 * its own.
 *
 * Cost: a sort of the intermediate products, twice if the rows are also counted. Memory: about 40 bytes for each
 * intermediate product of the largest batch, in double precision. */
#ifndef SPG_GPU_SORTED_H
#define SPG_GPU_SORTED_H

#include "spgemm/kernels.h"

#define SPG_SORT_BATCH (1 << 21)

/* Computes the listed rows into `c`, or counts them if c->values is NULL. The list is in device memory. Waits. */
bool spg_sorted_rows(struct spg_gpu *g, const struct spg_operand *a, const struct spg_operand *b, const int32_t *list,
                     int32_t rows, const struct spg_target *c, struct spg_error *error);

#endif
