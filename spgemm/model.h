/* The growing loop of the thesis as arithmetic on row sizes: how many slots and rounds it needs.
 *
 * Each round adds size_per_row slots for every unfinished row. A row with exactly that many remaining entries is
 * finished by the round. The first round counts every row, also the empty ones. So a row of s entries takes ceil(s /
 * size_per_row) chunks, at least one. Memory efficiency is nnz(C) / slots at the end.
 *
 * Cost: one step for each different row size. Source: thesis, algorithm 3, sections 3.2 and 5.1. */
#ifndef SPG_MODEL_H
#define SPG_MODEL_H

#include "spgemm/symbolic.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The sizes of the thesis' experiment (4.1). */
#define SPG_THESIS_SIZES 8
extern const int32_t spg_thesis_sizes[SPG_THESIS_SIZES];

/* The number of rows of each size: one pass over the rows serves all models. */
struct spg_histogram {
    int32_t longest;
    int64_t rows, total;
    int32_t distinct; /* number of different sizes: size[] ascends, count[] rows have it */
    int32_t *size;
    int64_t *count;
};
bool spg_histogram_make(struct spg_histogram *h, const int32_t *size, int32_t rows, struct spg_error *error);
void spg_histogram_free(struct spg_histogram *h);

struct spg_rounds {
    int32_t size_per_row, rounds;
    int64_t entries;   /* slots of the vector after the last round */
    double efficiency; /* nnz(C) / entries, 0 to 1 */
};
struct spg_rounds spg_model_rounds(const struct spg_histogram *h, int32_t size_per_row);

#ifdef __cplusplus
}
#endif

#endif
