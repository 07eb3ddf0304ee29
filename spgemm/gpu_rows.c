#include "spgemm/gpu_rows.h"

#include <stdlib.h>

#define SHORT_ROWS                                                                           \
    128 /* multiplications, in the mean, below which the smallest tables do without a sample \
         */

struct gm_counters {
    struct gm_totals totals;
    int32_t bins[GM_SLABS * GM_BINS];
    int32_t chosen;
    int32_t gathered[2][GM_SAMPLE_ROWS];
    struct gm_found found;
};

static bool fetch(void *to, const void *from, size_t size, struct gm_spgemm_error *error) {
    return gm_cuda(cudaMemcpy(to, from, size, cudaMemcpyDeviceToHost), "copy to the host", error);
}

static bool zero(void *at, size_t size, struct gm_spgemm_error *error) {
    return gm_cuda(cudaMemsetAsync(at, 0, size, NULL), "clearing", error);
}

/* ---- between calls */

static bool make_sample(struct gm_way *way, int32_t rows, struct gm_spgemm_error *error) {
    struct gm_memory uncounted = {0};
    int32_t list[GM_SAMPLE_ROWS];
    way->sample_rows = rows < GM_SAMPLE_ROWS ? rows : GM_SAMPLE_ROWS;
    for (int32_t i = 0; i < way->sample_rows; i++)
        list[i] = gm_sampled_row(rows, way->sample_rows, i, GM_SAMPLE_SEED);
    size_t size = (size_t)way->sample_rows * sizeof *list;
    return gm_block_make(&way->sample, &uncounted, size, "a sample", error) &&
           (!size || gm_cuda(cudaMemcpy(way->sample.at, list, size, cudaMemcpyHostToDevice), "a sample", error));
}

static bool make_by_columns(struct gm_way *way, const struct gm_job *job, struct gm_spgemm_error *error) {
    struct gm_csr transposed;
    if (!gm_csr_transpose(&transposed, job->b, error))
        return false;
    bool made = gm_operand_make(&way->by_columns, &transposed, job->precision, error);
    gm_csr_free(&transposed);
    return made;
}

void *gm_way_open(const struct gm_job *job, struct gm_spgemm_error *error) {
    struct gm_way *way = calloc(1, sizeof *way);
    if (!way) {
        gm_spgemm_fail(error, "out of memory");
        return NULL;
    }
    if (!gm_gpu_open(&way->gpu, job, error)) {
        free(way);
        return NULL;
    }
    if (make_sample(way, job->a->rows, error) && (job->kernel != GM_KERNEL_THESIS || make_by_columns(way, job, error)))
        return way;
    gm_way_close(way);
    return NULL;
}

void gm_way_close(void *pointer) {
    struct gm_way *way = pointer;
    struct gm_memory uncounted = {0};
    if (!way)
        return;
    gm_block_drop(&way->sample, &uncounted);
    gm_operand_drop(&way->by_columns);
    gm_gpu_close(&way->gpu);
    free(way);
}

bool gm_way_fetch(void *pointer, struct gm_csr *c, struct gm_spgemm_error *error) {
    struct gm_way *way = pointer;
    return gm_result_fetch(&way->gpu.c, way->gpu.job->precision, c, error);
}

/* ---- helpers of a call */

/* Hands out parts of a block, or, without one, adds up what they take. */
static void *part(char *base, size_t *used, size_t size) {
    size_t at = *used;
    *used += (size + 255) / 256 * 256;
    return base ? base + at : NULL;
}

static size_t lay_out(struct gm_work *w, char *base) {
    size_t used = 0, rows = (size_t)w->rows + 1;
    w->start = part(base, &used, rows * sizeof *w->start);
    w->place = part(base, &used, rows * sizeof *w->place);
    w->bound = part(base, &used, rows * sizeof *w->bound);
    w->size = part(base, &used, rows * sizeof *w->size);
    w->binned = part(base, &used, rows * sizeof *w->binned);
    w->overflow = part(base, &used, rows * sizeof *w->overflow);
    w->counters = part(base, &used, sizeof *w->counters);
    w->space = part(base, &used, w->space_size);
    return used;
}

bool gm_work_make(struct gm_work *w, struct gm_way *way, struct gm_spgemm_error *error) {
    size_t scan = 0, select = 0;
    *w = (struct gm_work){.way = way,
                          .gpu = &way->gpu,
                          .a = way->gpu.a,
                          .b = way->gpu.b,
                          .rows = way->gpu.a->rows,
                          .shrink = 1,
                          .share = 1};
    if (!gm_cuda(gm_scan(NULL, &scan, NULL, NULL, w->rows), "scan", error) ||
        !gm_cuda(gm_select_above(NULL, &select, NULL, w->rows, NULL, 0, NULL, NULL), "select", error))
        return false;
    w->space_size = scan > select ? scan : select;
    if (!gm_block_make(&w->block, &w->gpu->memory, lay_out(w, NULL), "helpers", error))
        return false;
    lay_out(w, w->block.at);
    w->spill = &w->counters->found.spill;
    return zero(w->bound, ((size_t)w->rows + 1) * sizeof *w->bound, error) &&
           zero(w->size, ((size_t)w->rows + 1) * sizeof *w->size, error) &&
           zero(w->counters, sizeof *w->counters, error) &&
           gm_cuda(gm_launch_bounds(w->a, w->b, w->bound, &w->counters->totals), "bounds", error);
}

bool gm_work_totals(struct gm_work *w, struct gm_spgemm_error *error) {
    return fetch(&w->totals, &w->counters->totals, sizeof w->totals, error);
}

void gm_work_drop(struct gm_work *w) {
    if (!w->gpu)
        return;
    gm_block_drop(&w->cursor, &w->gpu->memory);
    gm_block_drop(&w->block, &w->gpu->memory);
}

/* ---- rows */

/* Into a spread they are counted only, as long as their sizes are not known. */
static bool launch_ranges(struct gm_work *w, const int32_t *list, int32_t rows, const struct gm_target *c, bool exact,
                          cudaStream_t stream, struct gm_spgemm_error *error) {
    struct gm_target target = *c;
    if (!w->cursor.at &&
        !gm_block_make(&w->cursor, &w->gpu->memory, (size_t)w->a->stored * sizeof(int32_t), "cursors", error))
        return false;
    if (c->spread.size && !exact)
        target.values = NULL;
    return gm_cuda(gm_launch_ranges(w->gpu->job->precision, w->a, w->b, list, rows, &target, w->cursor.at, stream),
                   "rows by ranges", error);
}

static bool launch_bin(struct gm_work *w, int bin, const int32_t *list, int32_t rows, const struct gm_target *c,
                       bool exact, cudaStream_t stream, struct gm_spgemm_error *error) {
    if (bin == GM_BIN_RANGES)
        return launch_ranges(w, list, rows, c, exact, stream, error);
    return gm_cuda(gm_launch_table(bin, w->gpu->job->precision, w->a, w->b, list, rows, c, w->overflow,
                                   &w->counters->found.overflowed, stream),
                   "rows by tables", error);
}

/* Side by side, so that rows of a bin are begun while the last of another are formed; the longest rows
 * first. */
static bool launch_bins(struct gm_work *w, const struct gm_binned *b, int slab, const struct gm_target *c,
                        struct gm_spgemm_error *error) {
    const int32_t *count = b->count + slab * GM_BINS, *begin = b->begin + slab * GM_BINS;
    int bins = 0, at = 0;
    bool done = true;
    for (int bin = 0; bin < GM_BINS; bin++)
        bins += count[bin] > 0;
    for (int bin = GM_BINS - 1; done && bin >= 0; bin--)
        if (count[bin])
            done = launch_bin(w, bin, w->binned + begin[bin], count[bin], c, b->exact,
                              bins > 1 ? w->gpu->beside[at++ % GM_STREAMS] : NULL, error);
    return done;
}

/* Further pieces taken from here on lie behind this slab's first ones. */
static bool begin_slab(struct gm_work *w, int slab, struct gm_target *c, struct gm_spgemm_error *error) {
    int64_t behind = (int64_t)(slab + 1) * c->spread.slab;
    c->spread.behind = behind < w->rows ? (int32_t)behind : w->rows;
    return gm_cuda(gm_launch_begin_slab(w->spill, slab), "pieces", error);
}

bool gm_work_bin(struct gm_work *w, const int32_t *list, int32_t rows, int32_t slab, bool exact, float share,
                 struct gm_binned *b, struct gm_spgemm_error *error) {
    struct gm_need need = {.bound = w->bound,
                           .size = exact ? w->size : NULL,
                           .columns = w->b->columns,
                           .share = exact ? 1 : share,
                           .slab = slab};
    *b = (struct gm_binned){.slabs = slab < rows ? (rows - 1) / slab + 1 : 1, .all = !list, .exact = exact};
    int32_t sum = 0;
    size_t size = (size_t)b->slabs * GM_BINS * sizeof *b->begin;
    if (!zero(w->counters->bins, size, error) ||
        !gm_cuda(gm_launch_bin_count(list, rows, &need, w->counters->bins), "bins", error) ||
        !fetch(b->count, w->counters->bins, size, error))
        return false;
    for (int bin = 0; bin < b->slabs * GM_BINS; bin++) {
        b->begin[bin] = sum;
        sum += b->count[bin];
    }
    return gm_cuda(cudaMemcpyAsync(w->counters->bins, b->begin, size, cudaMemcpyHostToDevice, NULL), "bins", error) &&
           gm_cuda(gm_launch_bin_fill(list, rows, &need, w->counters->bins, w->binned), "bins", error) &&
           zero(&w->counters->found.overflowed, sizeof w->counters->found.overflowed, error);
}

bool gm_work_form_slab(struct gm_work *w, const struct gm_binned *b, int slab, const struct gm_target *c,
                       struct gm_spgemm_error *error) {
    struct gm_target target = *c;
    return (!b->all || !c->spread.size || begin_slab(w, slab, &target, error)) &&
           launch_bins(w, b, slab, &target, error);
}

static bool form(struct gm_work *w, const int32_t *list, int32_t rows, const struct gm_target *c, bool exact,
                 float share, struct gm_spgemm_error *error) {
    int32_t slab = c->spread.size && !list ? c->spread.slab : INT32_MAX;
    struct gm_binned b;
    bool done = gm_work_bin(w, list, rows, slab, exact, share, &b, error);
    for (int at = 0; done && at < b.slabs; at++)
        done = gm_work_form_slab(w, &b, at, c, error);
    return done;
}

bool gm_work_form(struct gm_work *w, const int32_t *list, int32_t rows, const struct gm_target *c, bool exact,
                  struct gm_spgemm_error *error) {
    return form(w, list, rows, c, exact, w->share, error);
}

static bool look(struct gm_work *w, const struct gm_target *c, cudaEvent_t formed, struct gm_spgemm_error *error) {
    int32_t slab = c->spread.size ? c->spread.slab : INT32_MAX;
    return gm_cuda(cudaEventRecord(formed, NULL), "event", error) &&
           gm_cuda(gm_scan(w->space, &w->space_size, w->size, w->place, w->rows), "scan", error) &&
           gm_cuda(gm_launch_offsets(w->place, w->size, w->rows, w->gpu->c.offsets.at, slab, &w->counters->found.ends),
                   "offsets of C", error) &&
           fetch(&w->found, &w->counters->found, sizeof w->found, error);
}

bool gm_work_settle(struct gm_work *w, const struct gm_target *c, cudaEvent_t formed, struct gm_spgemm_error *error) {
    if (!look(w, c, formed, error))
        return false;
    /* Tables made for all multiplications hold every row. */
    return !w->found.overflowed ||
           (form(w, w->overflow, w->found.overflowed, c, false, 1, error) && look(w, c, formed, error));
}

bool gm_work_sample(struct gm_work *w, struct gm_histogram *sizes, struct gm_spgemm_error *error) {
    struct gm_target counted = {.size = w->size};
    const int32_t *list = w->way->sample.at;
    int32_t rows = w->way->sample_rows, *size = w->sampled, bound[GM_SAMPLE_ROWS];
    size_t bytes = (size_t)rows * sizeof *size;
    int64_t size_sum = 0, bound_sum = 0;
    if (!gm_work_form(w, list, rows, &counted, false, error) ||
        !gm_cuda(gm_launch_gather(list, rows, w->size, w->counters->gathered[0]), "a sample", error) ||
        !gm_cuda(gm_launch_gather(list, rows, w->bound, w->counters->gathered[1]), "a sample", error) ||
        !fetch(size, w->counters->gathered[0], bytes, error) || !fetch(bound, w->counters->gathered[1], bytes, error))
        return false;
    for (int32_t i = 0; i < rows; i++) {
        size_sum += size[i];
        bound_sum += bound[i];
    }
    w->shrink = bound_sum ? (float)((double)size_sum / (double)bound_sum) : 1;
    w->share = bound_sum ? gm_table_share(bound, size, rows) : 1;
    return !sizes || gm_histogram_make(sizes, size, rows, error);
}

bool gm_work_is_long(const struct gm_work *w) { return w->totals.bound / SHORT_ROWS >= w->rows; }

bool gm_work_sample_if_long(struct gm_work *w, struct gm_spgemm_error *error) {
    return !gm_work_is_long(w) || gm_work_sample(w, NULL, error);
}

/* ---- results */

bool gm_work_offsets(struct gm_work *w, struct gm_spgemm_error *error) {
    struct gm_result *c = &w->gpu->c;
    *c = (struct gm_result){.rows = w->rows, .columns = w->b->columns};
    return gm_block_make(&c->offsets, &w->gpu->memory, ((size_t)w->rows + 1) * sizeof(int32_t), "offsets of C", error);
}

bool gm_work_result(struct gm_work *w, bool arrays, struct gm_spgemm_error *error) {
    struct gm_result *c = &w->gpu->c;
    struct gm_memory *memory = &w->gpu->memory;
    if (w->found.ends.stored > INT32_MAX)
        return gm_spgemm_fail(error, "C has %lld entries, which do not fit 32-bit offsets",
                              (long long)w->found.ends.stored);
    c->stored = w->found.ends.stored;
    size_t count = arrays ? (size_t)c->stored : 0;
    return gm_block_make(&c->indices, memory, count * sizeof(int32_t), "columns of C", error) &&
           gm_block_make(&c->values, memory, count * gm_value_size(w->gpu->job->precision), "values of C", error);
}

bool gm_work_select(struct gm_work *w, const int32_t *list, int32_t rows, int64_t above, int32_t *chosen,
                    int32_t *number, struct gm_spgemm_error *error) {
    return gm_cuda(gm_select_above(w->space, &w->space_size, list, rows, w->size, above, chosen, &w->counters->chosen),
                   "unfinished rows", error) &&
           fetch(number, &w->counters->chosen, sizeof *number, error);
}
