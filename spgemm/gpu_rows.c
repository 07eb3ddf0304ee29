#include "spgemm/gpu_rows.h"
#include "spgemm/choices.h"
#include "spgemm/gpu_read.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* Mean number of intermediate products of a row up to which no sample is needed: the smallest tables hold such rows. */
#define SHORT_ROWS 128

/* Rows are grouped when at least one of so many rows has the pattern of the row before. */
#define FOLLOWERS 3

/* The host reads the bins of a sample with the totals, and the bins by exact sizes with the results. */
struct spg_counters {
    struct spg_bound_totals totals;
    int32_t taken[SPG_SLABS * SPG_BINS], bins[SPG_SLABS * SPG_BINS];
    struct spg_row_results results;
    int32_t chosen;
    int32_t gathered[2][SPG_SAMPLE_ROWS];
    int64_t sections[SPG_SECTIONS];
};

int32_t spg_narrow_columns = SPG_NARROW;

bool spg_work_is_narrow(const struct spg_work *w) { return w->b->columns <= spg_narrow_columns; }

static bool fetch(const struct spg_work *w, void *to, const void *from, size_t size, struct spg_error *error) {
    return spg_read(&w->gpu->memory, to, from, size, "copy to the host", error);
}

static bool zero(const struct spg_work *w, void *at, size_t size, struct spg_error *error) {
    return spg_clear(w->gpu->memory.stream, at, size, error);
}

/* ---- between calls */

static bool make_by_columns(struct spg_method *method, const struct spg_job *job, struct spg_error *error) {
    struct spg_csr transposed;
    if (!spg_csr_transpose(&transposed, job->b, error))
        return false;
    bool made = spg_operand_make(&method->by_columns, &transposed, job->precision, error);
    spg_csr_free(&transposed);
    return made;
}

void *spg_method_open(const struct spg_job *job, struct spg_error *error) {
    struct spg_method *method = calloc(1, sizeof *method);
    if (!method) {
        spg_fail(error, "out of memory");
        return NULL;
    }
    if (!spg_gpu_open(&method->gpu, job, error)) {
        free(method);
        return NULL;
    }
    if (job->kernel != SPG_KERNEL_THESIS || make_by_columns(method, job, error))
        return method;
    spg_method_close(method);
    return NULL;
}

void spg_method_close(void *pointer) {
    struct spg_method *method = pointer;
    if (!method)
        return;
    spg_operand_drop(&method->by_columns);
    spg_gpu_close(&method->gpu);
    free(method);
}

bool spg_method_fetch(void *pointer, struct spg_csr *c, struct spg_error *error) {
    struct spg_method *method = pointer;
    return spg_result_fetch(&method->gpu.c, method->gpu.job->precision, c, error);
}

/* ---- helpers of a call */

/* Returns the next part of a block. Without a block it only adds up the sizes. */
static void *part(char *base, size_t *used, size_t size) {
    size_t at = *used;
    *used += spg_aligned(size);
    return base ? base + at : NULL;
}

/* Bytes of the mask of a row of a narrow C. */
static size_t mask_size(const struct spg_work *w) {
    return spg_work_is_narrow(w) ? (size_t)spg_mask_words(w->b->columns) * sizeof *w->masks : 0;
}

/* Whether B is A. */
static bool is_square(const struct spg_work *w) {
    return w->a->offsets == w->b->offsets && w->a->indices == w->b->indices && w->a->rows == w->b->rows;
}

static size_t lay_out(struct spg_work *w, char *base) {
    size_t used = 0, rows = (size_t)w->rows + 1;
    w->start = part(base, &used, rows * sizeof *w->start);
    w->c_offset = part(base, &used, rows * sizeof *w->c_offset);
    w->bound = part(base, &used, rows * sizeof *w->bound);
    w->size = part(base, &used, rows * sizeof *w->size);
    w->binned = part(base, &used, rows * sizeof *w->binned);
    w->overflow = part(base, &used, rows * sizeof *w->overflow);
    w->alike = part(base, &used, rows);
    w->b_alike = is_square(w) ? w->alike : part(base, &used, (size_t)w->b->rows);
    w->sample_list = part(base, &used, (size_t)w->sample_rows * sizeof *w->sample_list);
    w->masks = part(base, &used, rows * mask_size(w));
    w->counters = part(base, &used, sizeof *w->counters);
    w->scratch = part(base, &used, w->scratch_size);
    return used;
}

static bool count_narrow(struct spg_work *w, struct spg_error *error);

bool spg_work_make(struct spg_work *w, struct spg_method *method, struct spg_error *error) {
    size_t scan = 0, select = 0;
    *w = (struct spg_work){.method = method,
                           .gpu = &method->gpu,
                           .a = method->gpu.a,
                           .b = method->gpu.b,
                           .rows = method->gpu.a->rows,
                           .sample_rows = method->gpu.a->rows < SPG_SAMPLE_ROWS ? method->gpu.a->rows : SPG_SAMPLE_ROWS,
                           .entries_per_product = 1,
                           .share = 1};
    if (!spg_cuda(spg_scan(NULL, &scan, NULL, NULL, w->rows, w->gpu->memory.stream), "scan", error) ||
        !spg_cuda(spg_select_above(NULL, &select, NULL, w->rows, NULL, 0, NULL, NULL, w->gpu->memory.stream), "select",
                  error))
        return false;
    w->scratch_size = scan > select ? scan : select;
    if (!spg_block_make(&w->block, &w->gpu->memory, lay_out(w, NULL), "helpers", error))
        return false;
    lay_out(w, w->block.at);
    w->chunk_counts = &w->counters->results.chunk_counts;
    w->overflows = &w->counters->results.overflows;
    w->moves = &w->counters->results.moves;
    w->sections = w->counters->sections;
    return zero(w, w->bound, ((size_t)w->rows + 1) * sizeof *w->bound, error) &&
           zero(w, w->size, ((size_t)w->rows + 1) * sizeof *w->size, error) &&
           zero(w, w->counters, sizeof *w->counters, error) &&
           (spg_work_is_narrow(w) ? count_narrow(w, error)
                                  : spg_cuda(spg_launch_bounds(w->a, w->b, w->bound, w->alike, &w->counters->totals,
                                                               w->gpu->memory.stream),
                                             "bounds", error));
}

void spg_work_drop(struct spg_work *w) {
    if (!w->gpu)
        return;
    spg_sort_lengths_drop(&w->exact_lengths, &w->gpu->memory);
    spg_block_drop(&w->progress, &w->gpu->memory);
    spg_block_drop(&w->block, &w->gpu->memory);
}

/* ---- rows */

/* For rows by ranges. It is made before bins run side by side: memory that one of them has dropped is still in use. */
static bool make_progress(struct spg_work *w, int32_t rows, struct spg_error *error) {
    size_t size = ((size_t)rows + 1) * sizeof(unsigned long long);
    if (!rows || w->progress.size >= size)
        return true;
    spg_block_drop(&w->progress, &w->gpu->memory);
    return spg_block_make(&w->progress, &w->gpu->memory, size, "progress of rows", error);
}

/* Without exact sizes, rows for a spread are only counted. */
static bool launch_ranges(struct spg_work *w, const int32_t *list, int32_t rows, const struct spg_target *c, bool exact,
                          cudaStream_t stream, struct spg_error *error) {
    struct spg_target target = *c;
    if (c->spread.size && !exact)
        target.values = NULL;
    return spg_cuda(spg_launch_ranges(w->gpu->job->precision, w->a, w->b, list, rows, &target, w->progress.at, stream),
                    "rows by ranges", error);
}

/* The lengths of a structure's rows were measured before. */
static bool sort_rows(struct spg_work *w, const int32_t *list, int32_t rows, const struct spg_target *c, bool exact,
                      struct spg_error *error) {
    struct spg_target target = *c;
    struct spg_sort_lengths lengths = {0};
    if (c->spread.size && !exact)
        target.values = NULL;
    if (w->exact_lengths.rows)
        return spg_sorted_rows(w->gpu, list, &w->exact_lengths, &target, error);
    bool done = spg_sort_measure(w->gpu, list, rows, &lengths, error) &&
                spg_sorted_rows(w->gpu, list, &lengths, &target, error);
    spg_sort_lengths_drop(&lengths, &w->gpu->memory);
    return done;
}

bool spg_work_is_short(const struct spg_work *w) {
    return w->counted && !w->totals.not_short && w->b->columns <= SPG_SHORT_COLUMNS && !w->grouped;
}

static bool launch_bin(struct spg_work *w, int bin, const int32_t *list, int32_t rows, const struct spg_target *c,
                       bool all, bool exact, cudaStream_t stream, struct spg_error *error) {
    if (bin == SPG_BIN_RANGES)
        return launch_ranges(w, list, rows, c, exact, stream, error);
    if (bin == SPG_BIN_SORTED)
        return sort_rows(w, list, rows, c, exact, error);
    if (spg_work_is_short(w))
        return spg_cuda(spg_launch_short(w->gpu->job->precision, w->a, w->b, list, rows, c, stream), "short rows",
                        error);
    return spg_cuda(spg_launch_table(bin, w->gpu->job->precision, w->a, w->b, list, rows,
                                     all && w->grouped ? w->alike : NULL, w->grouped ? w->b_alike : NULL, c,
                                     w->overflow, w->overflows, stream),
                    "rows by tables", error);
}

/* Bins run concurrently, in the stream and in the side streams, so that one bin fills the device while the last rows of
 * another finish. The bin of the longest rows starts first. Rows of a narrow C need no other streams. */
static bool launch_bins(struct spg_work *w, const struct spg_binned *b, int slab, const struct spg_target *c,
                        struct spg_error *error) {
    const int32_t *count = b->count + slab * SPG_BINS, *first = b->first + slab * SPG_BINS;
    struct spg_gpu *g = w->gpu;
    int bins = 0, at = 0;
    if (spg_work_is_narrow(w))
        return spg_cuda(spg_launch_narrow_rows(g->job->precision, w->a, w->b, w->binned + first[0], count, w->masks, c,
                                               g->memory.stream),
                        "rows of few columns", error);
    for (int bin = 0; bin < SPG_BINS; bin++)
        bins += count[bin] > 0;
    int sides = bins < 1 ? 0 : bins - 1 < SPG_SIDE_STREAMS ? bins - 1 : SPG_SIDE_STREAMS;
    bool done = make_progress(w, count[SPG_BIN_RANGES], error) && spg_gpu_fork(g, &sides, error);
    if (!done)
        return false;
    for (int bin = SPG_BINS - 1; done && bin >= 0; bin--) {
        if (!count[bin])
            continue;
        int side = at++ % (sides + 1);
        done = launch_bin(w, bin, w->binned + first[bin], count[bin], c, b->all, b->exact,
                          side ? g->side[side - 1] : g->memory.stream, error);
    }
    return spg_gpu_join(g, sides, error) && done;
}

/* ---- bins */

static bool launch_binning(struct spg_work *w, const int32_t *list, int32_t rows, int32_t slab, bool exact, bool final,
                           float share, struct spg_binned *b, struct spg_error *error) {
    struct spg_counters *c = w->counters;
    struct spg_bin_rule rule = {.offsets = w->a->offsets,
                                .alike = !list && w->grouped ? w->alike : NULL,
                                .bound = w->bound,
                                .size = exact ? w->size : NULL,
                                .columns = w->b->columns,
                                .share = exact ? 1 : share,
                                .slab = slab,
                                .narrow = spg_work_is_narrow(w)};
    rule.tables = spg_bins_of_tables(w->b->columns, final, spg_value_size(w->gpu->job->precision));
    *b = (struct spg_binned){.slabs = slab < rows ? (rows - 1) / slab + 1 : 1, .all = !list, .exact = exact};
    return zero(w, c->taken, sizeof c->taken + sizeof c->bins, error) &&
           spg_cuda(spg_launch_bins(list, rows, &rule, c->bins, c->taken, w->binned, w->gpu->memory.stream), "bins",
                    error);
}

/* Rows of a narrow C are in the same bins when they are counted and when they are computed. */
static bool count_narrow(struct spg_work *w, struct spg_error *error) {
    struct spg_counters *c = w->counters;
    struct spg_narrow_count to = {w->binned, c->bins, w->bound, w->size, w->masks, &c->totals};
    struct spg_memory *memory = &w->gpu->memory;
    struct spg_block b_masks = {0};
    bool done =
        launch_binning(w, NULL, w->rows, INT32_MAX, true, true, 1, &w->exact, error) &&
        spg_block_make(&b_masks, memory, (size_t)w->b->rows * mask_size(w), "masks of B", error) &&
        spg_cuda(spg_launch_narrow_count(w->a, w->b, b_masks.at, &to, memory->stream), "rows of few columns", error);
    spg_block_drop(&b_masks, memory);
    return done;
}

static void take_bins(struct spg_binned *b, const int32_t *count) {
    int32_t sum = 0;
    memcpy(b->count, count, (size_t)b->slabs * SPG_BINS * sizeof *count);
    for (int bin = 0; bin < b->slabs * SPG_BINS; bin++) {
        b->first[bin] = sum;
        sum += b->count[bin];
    }
}

bool spg_work_bin(struct spg_work *w, const int32_t *list, int32_t rows, int32_t slab, bool exact, bool final,
                  float share, struct spg_binned *b, struct spg_error *error) {
    int32_t count[SPG_SLABS * SPG_BINS];
    if (!launch_binning(w, list, rows, slab, exact, final, share, b, error) ||
        !zero(w, w->overflows, sizeof *w->overflows, error) ||
        !fetch(w, count, w->counters->bins, (size_t)b->slabs * SPG_BINS * sizeof *count, error))
        return false;
    take_bins(b, count);
    return true;
}

static bool send_sample(struct spg_work *w, struct spg_error *error) {
    int32_t list[SPG_SAMPLE_ROWS];
    for (int32_t i = 0; i < w->sample_rows; i++)
        list[i] = spg_sampled_row(w->rows, w->sample_rows, i, SPG_SAMPLE_SEED);
    return spg_send(w->gpu->memory.stream, w->sample_list, list, (size_t)w->sample_rows * sizeof *list, "a sample",
                    error);
}

static bool bin_sample(struct spg_work *w, struct spg_error *error) {
    return send_sample(w, error) &&
           launch_binning(w, w->sample_list, w->sample_rows, INT32_MAX, false, true, 1, &w->sample, error);
}

static void take_totals(struct spg_work *w, const struct spg_bound_totals *totals) {
    w->totals = *totals;
    w->counted = true;
    w->grouped = spg_is_real(w->gpu->job->precision) && totals->alike >= w->rows / FOLLOWERS && totals->alike > 0;
}

bool spg_work_totals(struct spg_work *w, bool samples, struct spg_error *error) {
    struct spg_counters *c = w->counters;
    struct {
        struct spg_bound_totals totals;
        int32_t taken[SPG_SLABS * SPG_BINS], bins[SPG_SLABS * SPG_BINS];
    } found;
    _Static_assert(sizeof found == offsetof(struct spg_counters, results), "one copy reads the totals and the bins");
    if (w->counted)
        return true;
    samples = samples && !spg_work_is_narrow(w);
    if ((samples && !bin_sample(w, error)) || !fetch(w, &found, c, samples ? sizeof found : sizeof found.totals, error))
        return false;
    if (samples)
        take_bins(&w->sample, found.bins);
    take_totals(w, &found.totals);
    return !w->grouped || w->b_alike == w->alike ||
           spg_cuda(spg_launch_alike(w->b, w->b_alike, w->gpu->memory.stream), "bounds", error);
}

bool spg_work_compute_slab(struct spg_work *w, const struct spg_binned *b, int slab, const struct spg_target *c,
                           struct spg_error *error) {
    return launch_bins(w, b, slab, c, error);
}

static bool compute(struct spg_work *w, const int32_t *list, int32_t rows, const struct spg_target *c, bool exact,
                    float share, struct spg_error *error) {
    struct spg_binned b;
    if (!c->values && spg_work_is_narrow(w))
        return true; /* they are counted already */
    /* Ranges count the rows of a spread first, unless their sizes are known. */
    bool final = exact || !c->values || !c->spread.size;
    return spg_work_bin(w, list, rows, INT32_MAX, exact, final, share, &b, error) &&
           spg_work_compute_slab(w, &b, 0, c, error);
}

bool spg_work_compute(struct spg_work *w, const int32_t *list, int32_t rows, const struct spg_target *c, bool exact,
                      struct spg_error *error) {
    return compute(w, list, rows, c, exact, w->share, error);
}

/* `plans`: also sorts the rows into bins by their sizes. */
static bool read_results(struct spg_work *w, const struct spg_target *c, cudaEvent_t computed, bool plans,
                         struct spg_error *error) {
    int32_t slab = c->spread.size ? c->spread.slab : INT32_MAX;
    struct {
        struct spg_bound_totals totals;
        int32_t taken[SPG_SLABS * SPG_BINS], bins[SPG_SLABS * SPG_BINS];
        struct spg_row_results results;
    } found;
    _Static_assert(sizeof found == offsetof(struct spg_counters, chosen), "one copy reads the bins and the results");
    if (!spg_cuda(cudaEventRecord(computed, w->gpu->memory.stream), "event", error) ||
        !spg_cuda(spg_scan(w->scratch, &w->scratch_size, w->size, w->c_offset, w->rows, w->gpu->memory.stream), "scan",
                  error) ||
        !spg_cuda(spg_launch_offsets(w->c_offset, w->size, w->rows, w->gpu->c.offsets.at, slab, &w->counters->results.c,
                                     w->gpu->memory.stream),
                  "offsets of C", error) ||
        (plans && !spg_work_is_narrow(w) &&
         !launch_binning(w, NULL, w->rows, INT32_MAX, true, true, 1, &w->exact, error)) ||
        !fetch(w, &found, w->counters, sizeof found, error))
        return false;
    if (!w->counted)
        take_totals(w, &found.totals);
    w->results = found.results;
    if (plans)
        take_bins(&w->exact, found.bins);
    return true;
}

static bool settle(struct spg_work *w, const struct spg_target *c, cudaEvent_t computed, bool plans,
                   struct spg_error *error) {
    if (!read_results(w, c, computed, plans, error))
        return false;
    const struct spg_overflows *o = &w->results.overflows;
    /* Tables for all intermediate products cannot overflow. */
    return o->repeated == o->listed ||
           (compute(w, w->overflow + o->repeated, o->listed - o->repeated, c, false, 1, error) &&
            read_results(w, c, computed, plans, error));
}

bool spg_work_settle(struct spg_work *w, const struct spg_target *c, cudaEvent_t computed, struct spg_error *error) {
    return settle(w, c, computed, false, error);
}

static bool count_sample(struct spg_work *w, struct spg_error *error) {
    struct spg_target counted = {.size = w->size};
    const int32_t *list = w->sample_list;
    int32_t rows = w->sample_rows, gathered[2][SPG_SAMPLE_ROWS], *size = w->sampled, *bound = gathered[1];
    int64_t size_sum = 0, bound_sum = 0;
    /* The list was sent with the bins. A narrow C has none, and its rows are counted already. */
    if (!(spg_work_is_narrow(w) ? send_sample(w, error) : spg_work_compute_slab(w, &w->sample, 0, &counted, error)) ||
        !spg_cuda(spg_launch_gather(list, rows, w->size, w->counters->gathered[0], w->gpu->memory.stream), "a sample",
                  error) ||
        !spg_cuda(spg_launch_gather(list, rows, w->bound, w->counters->gathered[1], w->gpu->memory.stream), "a sample",
                  error) ||
        !fetch(w, gathered, w->counters->gathered, sizeof gathered, error))
        return false;
    memcpy(size, gathered[0], (size_t)rows * sizeof *size);
    for (int32_t i = 0; i < rows; i++) {
        size_sum += size[i];
        bound_sum += bound[i];
    }
    double each = bound_sum ? (double)size_sum / (double)bound_sum : 1, squares = 0;
    for (int32_t i = 0; i < rows; i++)
        squares += (size[i] - each * bound[i]) * (size[i] - each * bound[i]);
    w->entries_per_product = (float)each;
    w->sample_error = size_sum ? sqrt(squares) / (double)size_sum : 0;
    w->share = bound_sum ? spg_table_share(bound, size, rows) : 1;
    w->is_sampled = true;
    return true;
}

bool spg_work_sample(struct spg_work *w, struct spg_histogram *sizes, struct spg_error *error) {
    return (w->is_sampled || count_sample(w, error)) &&
           (!sizes || spg_histogram_make(sizes, w->sampled, w->sample_rows, error));
}

bool spg_work_is_long(const struct spg_work *w) {
    return !spg_work_is_narrow(w) && w->totals.bound / SHORT_ROWS >= w->rows;
}

bool spg_work_sample_if_long(struct spg_work *w, struct spg_error *error) {
    return !spg_work_is_long(w) || spg_work_sample(w, NULL, error);
}

/* ---- rows of a known structure */

/* The rows are in their bins: measures those that are sorted. */
static bool measure_planned(struct spg_work *w, struct spg_error *error) {
    const struct spg_binned *b = &w->exact;
    int32_t sorted = b->count[SPG_BIN_SORTED];
    if (sorted && !spg_sort_measure(w->gpu, w->binned + b->first[SPG_BIN_SORTED], sorted, &w->exact_lengths, error)) {
        spg_sort_lengths_drop(&w->exact_lengths, &w->gpu->memory);
        return false;
    }
    w->planned = true;
    return true;
}

bool spg_work_plan(struct spg_work *w, struct spg_error *error) {
    return w->planned || spg_work_is_short(w) ||
           (spg_work_bin(w, NULL, w->rows, INT32_MAX, true, true, 1, &w->exact, error) && measure_planned(w, error));
}

bool spg_work_settle_and_plan(struct spg_work *w, const struct spg_target *c, cudaEvent_t computed,
                              struct spg_error *error) {
    bool plans = !spg_work_is_short(w);
    return settle(w, c, computed, plans, error) && (!plans || measure_planned(w, error));
}

bool spg_work_compute_planned(struct spg_work *w, const struct spg_target *c, struct spg_error *error) {
    return launch_bins(w, &w->exact, 0, c, error);
}

/* ---- results */

bool spg_work_offsets(struct spg_work *w, struct spg_error *error) {
    return spg_result_start(&w->gpu->c, &w->gpu->memory, w->rows, w->b->columns, error);
}

bool spg_work_result(struct spg_work *w, bool arrays, struct spg_error *error) {
    struct spg_result *c = &w->gpu->c;
    struct spg_memory *memory = &w->gpu->memory;
    if (!spg_result_fits(w->results.c.stored, error))
        return false;
    c->stored = w->results.c.stored;
    size_t count = arrays ? (size_t)c->stored : 0;
    return spg_block_make(&c->indices, memory, count * sizeof(int32_t), "columns of C", error) &&
           spg_block_make(&c->values, memory, count * spg_value_size(w->gpu->job->precision), "values of C", error);
}

bool spg_work_select(struct spg_work *w, const int32_t *list, int32_t rows, int64_t above, int32_t *chosen,
                     int32_t *number, struct spg_error *error) {
    return spg_cuda(spg_select_above(w->scratch, &w->scratch_size, list, rows, w->size, above, chosen,
                                     &w->counters->chosen, w->gpu->memory.stream),
                    "unfinished rows", error) &&
           fetch(w, number, &w->counters->chosen, sizeof *number, error);
}
