/* One product in hand: its helpers in device memory, and rows formed by either kernel. */
#ifndef GM_SPGEMM_GPU_ROWS_H
#define GM_SPGEMM_GPU_ROWS_H

#include "spgemm/estimate.h"
#include "spgemm/kernels.h"

/* What a way keeps between calls. */
struct gm_way {
    struct gm_gpu gpu;
    struct gm_operand by_columns; /* B transposed; only for the kernel of the thesis */
    struct gm_block sample;       /* numbers of the rows that are sampled */
    int32_t sample_rows;
};
/* Of struct gm_mode_functions. */
void *gm_way_open(const struct gm_job *job, struct gm_spgemm_error *error);
void gm_way_close(void *way);
bool gm_way_fetch(void *way, struct gm_csr *c, struct gm_spgemm_error *error);
bool gm_way_estimate(void *way, struct gm_estimates *e, struct gm_spgemm_error *error);

struct gm_counters; /* on the device */

/* What the host learns of rows that were formed. */
struct gm_found {
    struct gm_ends ends;
    struct gm_spill spill;
    int32_t overflowed; /* rows whose tables were too small */
};

struct gm_work {
    struct gm_way *way;
    struct gm_gpu *gpu;
    const struct gm_operand *a, *b;
    int32_t rows;
    struct gm_block block;  /* of all that follows */
    int32_t *bound, *size;  /* of each row: multiplications, entries of C; a 0 behind the last */
    int64_t *start, *place; /* rows + 1 each */
    int32_t *binned, *overflow;
    struct gm_spill *spill;
    struct gm_counters *counters;
    void *space; /* of scans */
    size_t space_size;
    struct gm_block cursor;
    struct gm_totals totals; /* on the host, as what follows */
    struct gm_found found;
    float shrink; /* entries of C for a multiplication, in the mean of the sample; 1 where none was taken */
    float share;  /* of multiplications that tables are made for (gm_table_share); 1 as well */
    int32_t sampled[GM_SAMPLE_ROWS]; /* sizes of the sample, in the order of rows */
};

/* Helpers; the device begins to count bounds of the rows. On failure, too, gm_work_drop is due. */
bool gm_work_make(struct gm_work *w, struct gm_way *way, struct gm_spgemm_error *error);
void gm_work_drop(struct gm_work *w);
/* C without entries, but with its offsets to be; nothing is waited for. */
bool gm_work_offsets(struct gm_work *w, struct gm_spgemm_error *error);
/* Waits for the bounds, sets w->totals. */
bool gm_work_totals(struct gm_work *w, struct gm_spgemm_error *error);

/* Exact sizes of the sampled rows: sets w->shrink and w->share; `sizes` (NULL = not wanted) is the caller's
 * to free. */
bool gm_work_sample(struct gm_work *w, struct gm_histogram *sizes, struct gm_spgemm_error *error);
/* Whether rows have many multiplications, so that tables made for as many entries would be large. */
bool gm_work_is_long(const struct gm_work *w);
/* A sample where they have. */
bool gm_work_sample_if_long(struct gm_work *w, struct gm_spgemm_error *error);

/* Rows in the order of their bins, for each slab. */
struct gm_binned {
    int slabs;
    bool all, exact;
    int32_t count[GM_SLABS * GM_BINS], begin[GM_SLABS * GM_BINS]; /* rows of each; the place of the first */
};
/* Bins of the rows of the list (NULL: all) for tables of `share`, or, `exact`, of the sizes that w->size has;
 * slabs of `slab` rows. */
bool gm_work_bin(struct gm_work *w, const int32_t *list, int32_t rows, int32_t slab, bool exact, float share,
                 struct gm_binned *b, struct gm_spgemm_error *error);
/* Forms or counts the rows of a slab by the fast accumulator: slabs of a spread one after the other, from the
 * first. Into a spread rows by ranges are formed only when their sizes are known, else they are counted and
 * listed. */
bool gm_work_form_slab(struct gm_work *w, const struct gm_binned *b, int slab, const struct gm_target *c,
                       struct gm_spgemm_error *error);
/* Both: rows of the list in one slab, all rows of a spread in its own. */
bool gm_work_form(struct gm_work *w, const int32_t *list, int32_t rows, const struct gm_target *c, bool exact,
                  struct gm_spgemm_error *error);

/* Waits for the rows to be formed, those of a table that was too small anew; records `formed` behind them.
 * Sets w->found, w->place and C's offsets from w->size. */
bool gm_work_settle(struct gm_work *w, const struct gm_target *c, cudaEvent_t formed, struct gm_spgemm_error *error);
/* C's entries, settled, and room for `arrays` (else for none) of them. Fails over 2^31 - 1. */
bool gm_work_result(struct gm_work *w, bool arrays, struct gm_spgemm_error *error);

/* Rows of the list with sizes above `above`, in order, to `chosen`; their number to *number on the host. */
bool gm_work_select(struct gm_work *w, const int32_t *list, int32_t rows, int64_t above, int32_t *chosen,
                    int32_t *number, struct gm_spgemm_error *error);

#endif
