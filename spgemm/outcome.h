/* What the driver found out, and how it is told: as text on stdout and as JSON. */
#ifndef GM_SPGEMM_OUTCOME_H
#define GM_SPGEMM_OUTCOME_H

#include "spgemm/check.h"
#include "spgemm/estimate.h"
#include "spgemm/settings.h"

struct gm_shape {
    int32_t rows, columns;
    int64_t stored, nonzeros;
};

struct gm_outcome {
    const struct gm_settings *settings;
    struct gm_shape a, b;
    /* --model */
    int64_t nnz_c, bound;
    int32_t longest;
    double sampled, cohen; /* estimates of nnz_c */
    struct gm_rounds rounds[GM_THESIS_SIZES];
    int rounds_count;
    /* --mode */
    struct gm_run *runs; /* NULL without a mode */
    unsigned runs_count, warmup;
    bool estimated; /* of a chosen size_per_row */
    struct gm_estimates estimates;
    struct gm_check check;
};

/* Each bytes of C's places: a value and a 32-bit column, as the thesis' two vectors (3.2). */
static inline size_t gm_place_size(enum gm_precision precision) { return gm_value_size(precision) + sizeof(int32_t); }

/* Of a member of the runs that is a time. */
struct gm_times {
    double least, median, most;
};
/* `member` is its offset in struct gm_run. NaN, all of them, without memory. */
struct gm_times gm_outcome_times(const struct gm_outcome *o, size_t member);

bool gm_outcome_text(const struct gm_outcome *o, struct gm_spgemm_error *error);
/* Writes settings->json; "-" is stdout. */
bool gm_outcome_json(const struct gm_outcome *o, struct gm_spgemm_error *error);

#endif
