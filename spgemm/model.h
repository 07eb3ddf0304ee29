/* The thesis' loop (algorithm 3, section 3.2) as arithmetic on row sizes: what memory it takes and in how
 * many rounds.
 *
 * Each round adds size_per_row entries for every row that is not finished; a row with exactly that many left
 * is finished by it, and the first round counts every row, empty ones too. Memory efficiency is nnz(C) over
 * the entries of the vector at the end (5.1). */
#ifndef GM_SPGEMM_MODEL_H
#define GM_SPGEMM_MODEL_H

#include "spgemm/symbolic.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Sizes of the thesis' experiment (4.1). */
#define GM_THESIS_SIZES 8
extern const int32_t gm_thesis_sizes[GM_THESIS_SIZES];

/* How many rows have each size, so that one look at the rows serves all models. */
struct gm_histogram {
    int32_t longest;
    int64_t rows, total;
    int32_t distinct; /* sizes that rows have: size[], ascending, count[] rows each */
    int32_t *size;
    int64_t *count;
};
bool gm_histogram_make(struct gm_histogram *h, const int32_t *size, int32_t rows, struct gm_spgemm_error *error);
void gm_histogram_free(struct gm_histogram *h);

struct gm_rounds {
    int32_t size_per_row, rounds;
    int64_t entries;   /* of the vector after the last round */
    double efficiency; /* nnz(C) / entries, 0 to 1 */
};
struct gm_rounds gm_model_rounds(const struct gm_histogram *h, int32_t size_per_row);

#ifdef __cplusplus
}
#endif

#endif
