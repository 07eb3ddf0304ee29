/* The thesis' loop (algorithm 3, section 3.2) as arithmetic on row sizes: what memory it takes and in how
 * many rounds.
 *
 * Each round adds size_per_row entries for every row that is not finished; a row with exactly that many left
 * is finished by it, and the first round counts every row, empty ones too. Memory efficiency is nnz(C) over
 * the entries of the vector at the end (5.1). */
#ifndef SPG_MODEL_H
#define SPG_MODEL_H

#include "spgemm/symbolic.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Sizes of the thesis' experiment (4.1). */
#define SPG_THESIS_SIZES 8
extern const int32_t spg_thesis_sizes[SPG_THESIS_SIZES];

/* How many rows have each size, so that one look at the rows serves all models. */
struct spg_histogram {
    int32_t longest;
    int64_t rows, total;
    int32_t distinct; /* sizes that rows have: size[], ascending, count[] rows each */
    int32_t *size;
    int64_t *count;
};
bool spg_histogram_make(struct spg_histogram *h, const int32_t *size, int32_t rows, struct spg_error *error);
void spg_histogram_free(struct spg_histogram *h);

struct spg_rounds {
    int32_t size_per_row, rounds;
    int64_t entries;   /* of the vector after the last round */
    double efficiency; /* nnz(C) / entries, 0 to 1 */
};
struct spg_rounds spg_model_rounds(const struct spg_histogram *h, int32_t size_per_row);

#ifdef __cplusplus
}
#endif

#endif
