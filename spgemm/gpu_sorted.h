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

/* Lengths of the listed rows. On the host: exclusive sums, rows + 1 elements each. */
struct spg_sort_lengths {
    int32_t rows;
    int64_t *terms, *products; /* of one allocation */
    struct spg_block block;    /* the same sums, on the device: first the terms, then the products */
};
/* Measures the listed rows. Waits for the stream. Drop the lengths after a failure, too. */
bool spg_sort_measure(struct spg_gpu *g, const int32_t *list, int32_t rows, struct spg_sort_lengths *lengths,
                      struct spg_error *error);
void spg_sort_lengths_drop(struct spg_sort_lengths *lengths, struct spg_memory *memory);

/* Computes the listed rows, whose lengths were measured, into `c`, or counts them if c->values is NULL. The list is in
 * device memory. Does not wait. */
bool spg_sorted_rows(struct spg_gpu *g, const int32_t *list, const struct spg_sort_lengths *lengths,
                     const struct spg_target *c, struct spg_error *error);

#endif
