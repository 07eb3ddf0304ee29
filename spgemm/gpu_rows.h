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
    struct gm_totals totals; /* on the host */
    float shrink;            /* entries of C for a multiplication, in the sample; 1 where none was taken */
    int32_t sampled[GM_SAMPLE_ROWS]; /* sizes of the sample, in the order of rows */
};

/* Helpers, bounds of the rows and their totals. On failure, too, gm_work_drop is due. */
bool gm_work_make(struct gm_work *w, struct gm_way *way, struct gm_spgemm_error *error);
void gm_work_drop(struct gm_work *w);

/* Exact sizes of the sampled rows: sets w->shrink; `sizes` (NULL = not wanted) is the caller's to free. */
bool gm_work_sample(struct gm_work *w, struct gm_histogram *sizes, struct gm_spgemm_error *error);
/* Whether rows have many multiplications, so that tables made for as many entries would be large. */
bool gm_work_is_long(const struct gm_work *w);
/* A sample where they have. */
bool gm_work_sample_if_long(struct gm_work *w, struct gm_spgemm_error *error);

/* Forms or counts the rows of the list (NULL: all) by the fast accumulator. `exact`: w->size is known. Into a
 * spread all rows are formed slab by slab; rows by ranges only when their sizes are known, else they are
 * counted and listed. */
bool gm_work_form(struct gm_work *w, const int32_t *list, int32_t rows, const struct gm_target *c, bool exact,
                  struct gm_spgemm_error *error);

/* w->place from w->size, and C with its offsets and room for `arrays` (else for none) of its entries. Fails
 * over 2^31 - 1. */
bool gm_work_result(struct gm_work *w, bool arrays, struct gm_spgemm_error *error);

/* Rows of the list with sizes above `above`, in order, to `chosen`; their number to *number on the host. */
bool gm_work_select(struct gm_work *w, const int32_t *list, int32_t rows, int64_t above, int32_t *chosen,
                    int32_t *number, struct gm_spgemm_error *error);

#endif
