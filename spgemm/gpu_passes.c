/* Modes upper-bound and precise: the output is allocated once, before the numeric phase.
 *
 * upper-bound: one numeric pass into one slot for each intermediate product; then rows are moved together into arrays
 * of nnz(C) entries, first the columns, then the values. Memory: with p intermediate products, n = nnz(C) and v bytes a
 * value, the peak is max((4 + v) p + 4 n, v p + (4 + v) n).
 *
 * precise: a symbolic pass counts the entries of each row, a scan gives the offsets, a numeric pass writes C where it
 * belongs. Cost: most of the work twice. Memory: C only.
 *
 * Source: the two estimation methods that the thesis compares with (2.2). */
#include "spgemm/gpu_rows.h"

static bool compute_all(struct spg_work *w, const struct spg_target *c, bool exact, struct spg_error *error) {
    const struct spg_job *job = w->gpu->job;
    if (job->kernel == SPG_KERNEL_THESIS)
        return spg_cuda(spg_launch_dots(job->precision, w->a, w->b, &w->method->by_columns, NULL, w->rows, c, NULL,
                                        w->gpu->memory.stream),
                        "rows by threads", error);
    return spg_work_compute(w, NULL, w->rows, c, exact, error);
}

static bool prepare(struct spg_work *w, struct spg_method *method, struct spg_error *error) {
    return spg_gpu_start(&method->gpu, error) && spg_work_make(w, method, error) && spg_work_offsets(w, error) &&
           spg_work_totals(w, true, error);
}

/* Moves one array of C from the slots of the upper bound to its own memory. */
static bool compact(struct spg_work *w, size_t element, struct spg_block *from, struct spg_block *to, const char *what,
                    struct spg_error *error) {
    return spg_block_make(to, &w->gpu->memory, (size_t)w->gpu->c.stored * element, what, error) &&
           spg_cuda(spg_launch_move_rows(element, from->at, to->at, w->start, w->c_offset, w->size, w->rows,
                                         w->gpu->memory.stream),
                    what, error);
}

static bool run_upper_bound(void *pointer, struct spg_run *run, struct spg_error *error) {
    struct spg_method *method = pointer;
    struct spg_gpu *g = &method->gpu;
    struct spg_work w = {0};
    struct spg_block columns = {0}, values = {0};
    size_t value = spg_value_size(g->job->precision);
    *run = (struct spg_run){0};
    bool done = prepare(&w, method, error);
    if (done && (w.totals.row_max == INT32_MAX || w.totals.bound > INT64_MAX / 16))
        done = spg_fail(error, "out of device memory: more slots than a number can count");
    done = done && spg_work_sample_if_long(&w, error) &&
           spg_cuda(spg_scan(w.scratch, &w.scratch_size, w.bound, w.start, w.rows, g->memory.stream), "scan", error) &&
           spg_cuda(cudaEventRecord(g->estimated, g->memory.stream), "event", error) &&
           spg_block_make(&columns, &g->memory, (size_t)w.totals.bound * sizeof(int32_t), "columns by upper bound",
                          error) &&
           spg_block_make(&values, &g->memory, (size_t)w.totals.bound * value, "values by upper bound", error);
    struct spg_target c = {.values = values.at, .columns = columns.at, .start = w.start, .size = w.size};
    /* Without intermediate products there are no slots and no rows to compute. */
    done = done && (!w.totals.bound || compute_all(&w, &c, false, error)) &&
           spg_work_settle(&w, &c, g->computed, error) && spg_work_result(&w, false, error) &&
           compact(&w, sizeof(int32_t), &columns, &g->c.indices, "columns of C", error);
    /* The second array of C fits where the first array of slots was. */
    spg_block_drop(&columns, &g->memory);
    done = done && compact(&w, value, &values, &g->c.values, "values of C", error) &&
           spg_gpu_stop(g, true, true, run, error);
    run->entries = w.totals.bound;
    double trim_start = spg_now_ms();
    spg_block_drop(&values, &g->memory);
    run->trim_ms = spg_now_ms() - trim_start;
    spg_work_drop(&w);
    if (!done)
        spg_result_drop(&g->c, &g->memory);
    return done;
}

static bool run_precise(void *pointer, struct spg_run *run, struct spg_error *error) {
    struct spg_method *method = pointer;
    struct spg_gpu *g = &method->gpu;
    struct spg_work w = {0};
    *run = (struct spg_run){0};
    bool done = prepare(&w, method, error) && spg_work_sample_if_long(&w, error);
    struct spg_target counted = {.size = w.size};
    done = done && compute_all(&w, &counted, false, error) && spg_work_settle(&w, &counted, g->estimated, error) &&
           spg_work_result(&w, true, error);
    struct spg_target c = {.values = g->c.values.at, .columns = g->c.indices.at, .start = w.c_offset, .size = w.size};
    done = done && (!g->c.stored || compute_all(&w, &c, true, error)) && spg_gpu_stop(g, true, false, run, error);
    run->entries = g->c.stored;
    spg_work_drop(&w);
    if (!done)
        spg_result_drop(&g->c, &g->memory);
    return done;
}

const struct spg_mode_ops spg_mode_upper_bound = {spg_method_open, run_upper_bound, spg_method_fetch, spg_method_close,
                                                  NULL};
const struct spg_mode_ops spg_mode_precise = {spg_method_open, run_precise, spg_method_fetch, spg_method_close, NULL};
