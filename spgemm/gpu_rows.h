/* One product on the device: its helper arrays, the sample of rows, and rows computed by the hash accumulator.
 *
 * Steps of a product by hash tables, used by all own modes:
 * 1. spg_work_make: a kernel counts the intermediate products of each row.
 * 2. spg_work_sample: 1024 sampled rows are counted exactly. Their sizes predict nnz(C) and the table sizes.
 * 3. spg_work_compute: rows are sorted into bins (bins.h); each bin is one launch. Either the symbolic phase, which
 *    counts entries, or the numeric phase, which writes them.
 * 4. spg_work_settle: rows that overflowed their tables are computed again with tables that hold every intermediate
 *    product, unless they were already (gpu_move.h); a scan of the row sizes gives the offsets of C.
 *
 * Memory: 33 bytes for each row, one for each row of a B that is not A; 8 more for each row and 64 columns of a narrow
 * C, and for each row of B while they are counted; 8 more for each row that is computed by ranges; while rows are
 * computed by sorting, 40 bytes for each of their intermediate products, of a batch or of the longest row
 * (gpu_sorted.c). */
#ifndef SPG_GPU_ROWS_H
#define SPG_GPU_ROWS_H

#include "spgemm/estimate.h"
#include "spgemm/gpu_sorted.h"
#include "spgemm/kernels.h"

/* What a mode keeps between calls. The functions are operations of struct spg_mode_ops. */
struct spg_method {
    struct spg_gpu gpu;
    struct spg_operand by_columns; /* B transposed; only for the kernel of the thesis */
};
void *spg_method_open(const struct spg_job *job, struct spg_error *error);
void spg_method_close(void *method);
bool spg_method_fetch(void *method, struct spg_csr *c, struct spg_error *error);

/* Columns of C up to which spg_launch_narrow_rows() computes rows. Only tests change it. */
extern int32_t spg_narrow_columns;

struct spg_counters; /* on the device */

/* What the host reads back after rows were computed. */
struct spg_row_results {
    struct spg_c_totals c;
    struct spg_chunk_counts chunk_counts;
    struct spg_overflows overflows;
    struct spg_moves moves;
};

/* Rows sorted into bins, separately for each slab. */
struct spg_binned {
    int slabs;
    bool all, exact;
    int32_t count[SPG_SLABS * SPG_BINS], first[SPG_SLABS * SPG_BINS]; /* rows of a bin; position of its first row */
};

struct spg_work {
    struct spg_method *method;
    struct spg_gpu *gpu;
    const struct spg_operand *a, *b;
    int32_t rows;
    /* in device memory */
    struct spg_block block;     /* holds all arrays that follow, except cursor */
    int32_t *bound, *size;      /* of each row: intermediate products, entries of C; then a 0 */
    int64_t *start, *c_offset;  /* rows + 1 each: slots of rows in the output, offsets of rows in C */
    int32_t *binned, *overflow; /* lists of rows */
    uint8_t *alike;             /* of each row: whether its pattern in A is that of the row before */
    uint8_t *b_alike;           /* the same of B's rows, if rows are grouped */
    int32_t *sample_list;       /* numbers of the sampled rows */
    uint64_t *masks;            /* of a narrow C's rows (kernels_narrow.cu) */
    struct spg_counters *counters;
    struct spg_chunk_counts *chunk_counts; /* this and the next three: parts of counters */
    struct spg_overflows *overflows;
    struct spg_moves *moves;
    int64_t *sections; /* SPG_SECTIONS */
    void *scratch;     /* of scans */
    size_t scratch_size;
    struct spg_block progress; /* for rows by ranges */
    /* of spg_work_plan() */
    bool planned;
    struct spg_binned exact;
    struct spg_sort_lengths exact_lengths;
    /* on the host */
    int32_t sample_rows;
    struct spg_binned sample; /* the sampled rows */
    bool is_sampled;          /* the sampled rows are counted */
    bool counted;             /* the totals are known */
    struct spg_bound_totals totals;
    bool grouped; /* rows of equal pattern are computed together (bins.h) */
    struct spg_row_results results;
    float entries_per_product; /* mean of the sample: entries of C for each intermediate product; 1 without a sample */
    double sample_error;       /* standard error of entries_per_product, as a part of it */
    float share;               /* of spg_entries_expected(); 1 without a sample */
    int32_t sampled[SPG_SAMPLE_ROWS]; /* sizes of the sampled rows, in order */
};

/* Allocates the helper arrays and starts counting the intermediate products, and of a narrow C the entries of all rows.
 * Call spg_work_drop after a failure too. */
bool spg_work_make(struct spg_work *w, struct spg_method *method, struct spg_error *error);
void spg_work_drop(struct spg_work *w);
/* Makes C without entries, and memory for its offsets. Does not wait. */
bool spg_work_offsets(struct spg_work *w, struct spg_error *error);
/* Waits for the count of intermediate products and sets w->totals. `samples`: spg_work_sample() may follow, before rows
 * are computed. */
bool spg_work_totals(struct spg_work *w, bool samples, struct spg_error *error);

/* Counts the sampled rows exactly, once; sets w->entries_per_product, w->share and w->sampled. `sizes`, unless NULL,
 * receives a histogram that the caller frees. */
bool spg_work_sample(struct spg_work *w, struct spg_histogram *sizes, struct spg_error *error);
/* Whether C has so few columns that rows are computed without tables (kernels_narrow.cu). */
bool spg_work_is_narrow(const struct spg_work *w);
/* Whether rows have so many intermediate products that tables for as many entries would be large. */
bool spg_work_is_long(const struct spg_work *w);
/* Whether all rows are short (kernels_short.cu). */
bool spg_work_is_short(const struct spg_work *w);
/* Samples only if rows are long. */
bool spg_work_sample_if_long(struct spg_work *w, struct spg_error *error);

/* Sorts the rows of the list (NULL: all rows) into bins. `exact`: by the sizes in w->size; else by `share` of their
 * intermediate products. `final`: of spg_bins_of_tables(). A slab has `slab` rows. */
bool spg_work_bin(struct spg_work *w, const int32_t *list, int32_t rows, int32_t slab, bool exact, bool final,
                  float share, struct spg_binned *b, struct spg_error *error);
/* Computes or counts the rows of one slab. The slabs of a spread must be started and computed in order. Ranges write
 * rows into a spread only when the sizes are exact; otherwise they count and defer them. */
bool spg_work_compute_slab(struct spg_work *w, const struct spg_binned *b, int slab, const struct spg_target *c,
                           struct spg_error *error);
/* Both steps for rows that are not cut into slabs. */
bool spg_work_compute(struct spg_work *w, const int32_t *list, int32_t rows, const struct spg_target *c, bool exact,
                      struct spg_error *error);

/* Prepares to compute all rows once their sizes are exact: sorts them into bins. Waits for the stream. The list of bins
 * must not change any more. Does nothing where it was done before, and where rows are short. */
bool spg_work_plan(struct spg_work *w, struct spg_error *error);
/* Computes all rows as planned. Submits work, and does nothing else: it neither waits nor changes the arrays of `w`. */
bool spg_work_compute_planned(struct spg_work *w, const struct spg_target *c, struct spg_error *error);

/* Waits for the rows and computes those again that overflowed their tables. Records the event `computed` after them.
 * Sets w->results, w->c_offset and C's offsets from w->size, and w->totals. */
bool spg_work_settle(struct spg_work *w, const struct spg_target *c, cudaEvent_t computed, struct spg_error *error);
/* Does what spg_work_plan() does, too, and waits once for both. */
bool spg_work_settle_and_plan(struct spg_work *w, const struct spg_target *c, cudaEvent_t computed,
                              struct spg_error *error);
/* Sets C's number of entries, after settling. `arrays`: allocates memory for them. Fails beyond 2^31 - 1 entries. */
bool spg_work_result(struct spg_work *w, bool arrays, struct spg_error *error);

/* Copies the rows of the list with more than `above` entries to `chosen`, in order, and their number to *number on the
 * host. */
bool spg_work_select(struct spg_work *w, const int32_t *list, int32_t rows, int64_t above, int32_t *chosen,
                     int32_t *number, struct spg_error *error);

#endif
