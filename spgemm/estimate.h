/* Estimates of nnz(C) without computing C.
 *
 * Two estimators:
 * - sampling: the exact sizes of 1024 rows give the compression, entries for each intermediate product. Times the
 *   intermediate products of all rows, which are cheap to count, this estimates nnz(C). Cost: the symbolic phase of the
 *   sampled rows. It also gives the distribution of row sizes, from which choices.h chooses size_per_row.
 * - Cohen: random keys, see spg_estimate_cohen. Cost: keys x (nnz(A) + nnz(B)), whatever the compression. */
#ifndef SPG_ESTIMATE_H
#define SPG_ESTIMATE_H

#include "spgemm/model.h"
#include "spgemm/random.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SPG_SAMPLE_ROWS 1024 /* defaults of the functions below */
#define SPG_COHEN_KEYS  16
#define SPG_SAMPLE_SEED 1

/* Sampled row number `i` of `count`: a random row of the i-th of `count` equal strips of the rows. Equal strides would
 * resonate with the period of a grid. */
static inline SPG_BOTH int32_t spg_sampled_row(int32_t rows, int32_t count, int32_t i, uint64_t seed) {
    int64_t from = (int64_t)i * rows / count, to = ((int64_t)i + 1) * rows / count;
    return (int32_t)(from + (int64_t)(spg_random_at(seed, (uint64_t)i) % (uint64_t)(to - from)));
}

/* Counts the sampled rows of C exactly. total = intermediate products of all rows x entries of the sampled rows /
 * intermediate products of the sampled rows. The caller frees the histogram. */
struct spg_sample {
    struct spg_histogram sizes;
    int64_t bound; /* intermediate products of all rows, exact */
    double total;  /* estimated nnz(C) */
};
bool spg_sample_rows(struct spg_sample *sample, const struct spg_csr *a, const struct spg_csr *b, int32_t rows,
                     uint64_t seed, struct spg_error *error);

/* Cohen's estimator (Structure prediction and sparse matrix multiplication, Algorithmica 1998).
 *
 * Every column of B draws `keys` exponential random numbers. The minima of key number k over all columns that a row of
 * C reaches are exponential with the number of columns as rate: so (keys - 1) / (sum of the minima) estimates the row's
 * size, without bias and with relative deviation 1 / sqrt(keys - 2). The minima are found in two steps, over B's rows
 * and then over A's rows.
 *
 * Cost: keys x (nnz(A) + nnz(B)). Memory: 4 bytes x keys x (rows and columns of B). keys >= 3. `size` receives the
 * estimate of each row; NULL: only the sum is wanted. */
bool spg_estimate_cohen(const struct spg_csr *a, const struct spg_csr *b, int32_t keys, uint64_t seed, float *size,
                        double *total, struct spg_error *error);

#ifdef __cplusplus
}
#endif

#endif
