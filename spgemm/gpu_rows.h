/* One product in hand: its helpers in device memory, and rows formed by either kernel. */
#ifndef SPG_GPU_ROWS_H
#define SPG_GPU_ROWS_H

#include "spgemm/estimate.h"
#include "spgemm/kernels.h"

/* What a way keeps between calls. */
struct spg_way {
    struct spg_gpu gpu;
    struct spg_operand by_columns; /* B transposed; only for the kernel of the thesis */
    struct spg_block sample;       /* numbers of the rows that are sampled */
    int32_t sample_rows;
};
/* Of struct spg_mode_functions. */
void *spg_way_open(const struct spg_job *job, struct spg_error *error);
void spg_way_close(void *way);
bool spg_way_fetch(void *way, struct spg_csr *c, struct spg_error *error);
bool spg_way_estimate(void *way, struct spg_estimates *e, struct spg_error *error);

struct spg_counters; /* on the device */

/* What the host learns of rows that were formed. */
struct spg_found {
    struct spg_ends ends;
    struct spg_spill spill;
    int32_t overflowed; /* rows whose tables were too small */
};

struct spg_work {
    struct spg_way *way;
    struct spg_gpu *gpu;
    const struct spg_operand *a, *b;
    int32_t rows;
    struct spg_block block; /* of all that follows */
    int32_t *bound, *size;  /* of each row: multiplications, entries of C; a 0 behind the last */
    int64_t *start, *place; /* rows + 1 each */
    int32_t *binned, *overflow;
    struct spg_spill *spill;
    struct spg_counters *counters;
    void *space; /* of scans */
    size_t space_size;
    struct spg_block cursor;
    struct spg_totals totals; /* on the host, as what follows */
    struct spg_found found;
    float shrink; /* entries of C for a multiplication, in the mean of the sample; 1 where none was taken */
    float share;  /* of multiplications that tables are made for (spg_table_share); 1 as well */
    int32_t sampled[SPG_SAMPLE_ROWS]; /* sizes of the sample, in the order of rows */
};

/* Helpers; the device begins to count bounds of the rows. On failure, too, spg_work_drop is due. */
bool spg_work_make(struct spg_work *w, struct spg_way *way, struct spg_error *error);
void spg_work_drop(struct spg_work *w);
/* C without entries, but with its offsets to be; nothing is waited for. */
bool spg_work_offsets(struct spg_work *w, struct spg_error *error);
/* Waits for the bounds, sets w->totals. */
bool spg_work_totals(struct spg_work *w, struct spg_error *error);

/* Exact sizes of the sampled rows: sets w->shrink and w->share; `sizes` (NULL = not wanted) is the caller's
 * to free. */
bool spg_work_sample(struct spg_work *w, struct spg_histogram *sizes, struct spg_error *error);
/* Whether rows have many multiplications, so that tables made for as many entries would be large. */
bool spg_work_is_long(const struct spg_work *w);
/* A sample where they have. */
bool spg_work_sample_if_long(struct spg_work *w, struct spg_error *error);

/* Rows in the order of their bins, for each slab. */
struct spg_binned {
    int slabs;
    bool all, exact;
    int32_t count[SPG_SLABS * SPG_BINS], begin[SPG_SLABS * SPG_BINS]; /* rows of each; the place of the first */
};
/* Bins of the rows of the list (NULL: all) for tables of `share`, or, `exact`, of the sizes that w->size has;
 * slabs of `slab` rows. */
bool spg_work_bin(struct spg_work *w, const int32_t *list, int32_t rows, int32_t slab, bool exact, float share,
                  struct spg_binned *b, struct spg_error *error);
/* Forms or counts the rows of a slab by the fast accumulator: slabs of a spread one after the other, from the
 * first. Into a spread rows by ranges are formed only when their sizes are known, else they are counted and
 * listed. */
bool spg_work_form_slab(struct spg_work *w, const struct spg_binned *b, int slab, const struct spg_target *c,
                        struct spg_error *error);
/* Both: rows of the list in one slab, all rows of a spread in its own. */
bool spg_work_form(struct spg_work *w, const int32_t *list, int32_t rows, const struct spg_target *c, bool exact,
                   struct spg_error *error);

/* Waits for the rows to be formed, those of a table that was too small anew; records `formed` behind them.
 * Sets w->found, w->place and C's offsets from w->size. */
bool spg_work_settle(struct spg_work *w, const struct spg_target *c, cudaEvent_t formed, struct spg_error *error);
/* C's entries, settled, and room for `arrays` (else for none) of them. Fails over 2^31 - 1. */
bool spg_work_result(struct spg_work *w, bool arrays, struct spg_error *error);

/* Rows of the list with sizes above `above`, in order, to `chosen`; their number to *number on the host. */
bool spg_work_select(struct spg_work *w, const int32_t *list, int32_t rows, int64_t above, int32_t *chosen,
                     int32_t *number, struct spg_error *error);

#endif
