/* Estimates of a product's size that do not form it, and the size_per_row that they suggest. */
#ifndef SPG_ESTIMATE_H
#define SPG_ESTIMATE_H

#include "spgemm/model.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SPG_SAMPLE_ROWS 1024 /* default of what follows */
#define SPG_COHEN_KEYS  16
#define SPG_SAMPLE_SEED 1

/* Sampled row number `i` of `count` among `rows`: at a random place in the i-th of as many equal strips,
 * since equal strides meet the period of a grid. */
int32_t spg_sampled_row(int32_t rows, int32_t count, int32_t i, uint64_t seed);

/* Exact sizes of `rows` rows of C, one at a random place in each of as many equal strips, and the histogram
 * of them. The total is estimated by the compression of each sampled row: multiplications of all rows, times
 * sizes over multiplications of the sampled. The caller frees the histogram. */
struct spg_sample {
    struct spg_histogram sizes;
    int64_t bound; /* multiplications of all rows, exact */
    double total;  /* estimated nnz(C) */
};
bool spg_sample_rows(struct spg_sample *sample, const struct spg_csr *a, const struct spg_csr *b, int32_t rows,
                     uint64_t seed, struct spg_error *error);

/* Cohen's estimator (Structure prediction and sparse matrix multiplication, Algorithmica 1998): every column
 * of B draws `keys` exponential keys; minima over the columns that a row reaches tell how many they are,
 * (keys - 1) / sum of the minima, unbiased, with relative deviation 1 / sqrt(keys - 2). Time keys x (nnz(A) +
 * nnz(B)), memory 4 bytes x keys x (rows and columns of B). `size` gets the estimate for each row of C; NULL:
 * only their sum is wanted. keys >= 3. */
bool spg_estimate_cohen(const struct spg_csr *a, const struct spg_csr *b, int32_t keys, uint64_t seed, float *size,
                        double *total, struct spg_error *error);

/* The least share s, 0 to 1, such that tables made for s times a row's multiplications (bins.h) are those
 * that its entries need, or larger, in all but one of twenty of `rows` sampled rows: tables of the others are
 * fuller than they should be, few of them too small. */
float spg_table_share(const int32_t *bound, const int32_t *size, int32_t rows);

/* The size_per_row with the fewest rounds among those whose memory efficiency is at least `efficiency`; of
 * equal rounds the more efficient. 1 is always efficient enough: it wastes nothing but an entry on each empty
 * row. */
int32_t spg_choose_size_per_row(const struct spg_histogram *sizes, double efficiency);

/* The size_per_row that `--size-per-row auto` stands for: one round where that wastes little. `at_once`: a
 * row takes the pieces of all its rounds at once (spread.h), so that more rounds cost nothing and less is
 * wasted. */
int32_t spg_auto_size_per_row(const struct spg_histogram *sizes, bool at_once);

#ifdef __cplusplus
}
#endif

#endif
