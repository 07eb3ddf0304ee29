/* The driver's results, and how they are reported: as text on stdout and as JSON. */
#ifndef SPG_OUTCOME_H
#define SPG_OUTCOME_H

#include "spgemm/check.h"
#include "spgemm/estimate.h"
#include "spgemm/settings.h"

struct spg_shape {
    int32_t rows, columns;
    int64_t stored, nonzeros;
};

struct spg_outcome {
    const struct spg_settings *settings;
    struct spg_shape a, b;
    /* --model */
    int64_t nnz_c, bound;
    int32_t longest;
    double sampled, cohen; /* estimates of nnz_c */
    struct spg_rounds rounds[SPG_THESIS_SIZES];
    int rounds_count;
    /* --mode */
    struct spg_run *runs; /* NULL without a mode */
    unsigned runs_count, warmup;
    bool estimated; /* only when the mode chose size_per_row */
    struct spg_estimates estimates;
    struct spg_check check;
    struct spg_share shares[SPG_SHARES]; /* of the last run on several devices */
    int shares_count, processes;         /* processes: of MPI; 0 = without */
};

/* Bytes of one slot of C: a value and a 32-bit column, as in the two vectors of the thesis (3.2). */
static inline size_t spg_slot_size(enum spg_precision precision) { return spg_value_size(precision) + sizeof(int32_t); }

/* One of the times in struct spg_run, over all runs. */
struct spg_times {
    double least, median, most;
};
/* `member` is the offset of the time in struct spg_run. All three are NaN when there is no memory. */
struct spg_times spg_outcome_times(const struct spg_outcome *o, size_t member);

bool spg_outcome_text(const struct spg_outcome *o, struct spg_error *error);
/* Writes settings->json; "-" is stdout. */
bool spg_outcome_json(const struct spg_outcome *o, struct spg_error *error);

#endif
