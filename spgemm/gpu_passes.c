/* Modes upper-bound and precise: C in memory that is allocated once, of the size that was estimated or
 * counted before. */
#include "spgemm/gpu_rows.h"

static bool form_all(struct spg_work *w, const struct spg_target *c, bool exact, struct spg_error *error) {
    const struct spg_job *job = w->gpu->job;
    if (job->kernel == SPG_KERNEL_THESIS)
        return spg_cuda(spg_launch_dots(job->precision, w->a, w->b, &w->way->by_columns, NULL, w->rows, c, NULL),
                        "rows by threads", error);
    return spg_work_form(w, NULL, w->rows, c, exact, error);
}

static bool begin(struct spg_work *w, struct spg_way *way, struct spg_error *error) {
    return spg_gpu_begin(&way->gpu, error) && spg_work_make(w, way, error) && spg_work_offsets(w, error) &&
           spg_work_totals(w, error);
}

/* One array of C, from the upper bound's places to its own. */
static bool compact(struct spg_work *w, size_t element, struct spg_block *from, struct spg_block *to, const char *what,
                    struct spg_error *error) {
    return spg_block_make(to, &w->gpu->memory, (size_t)w->gpu->c.stored * element, what, error) &&
           spg_cuda(spg_launch_move_rows(element, from->at, to->at, w->start, w->place, w->size, w->rows), what, error);
}

static bool run_upper_bound(void *pointer, struct spg_run *run, struct spg_error *error) {
    struct spg_way *way = pointer;
    struct spg_gpu *g = &way->gpu;
    struct spg_work w = {0};
    struct spg_block columns = {0}, values = {0};
    size_t value = spg_value_size(g->job->precision);
    *run = (struct spg_run){0};
    bool done = begin(&w, way, error);
    if (done && (w.totals.most == INT32_MAX || w.totals.bound > INT64_MAX / 16))
        done = spg_fail(error, "out of device memory: more places than numbers hold");
    done = done && spg_work_sample_if_long(&w, error) &&
           spg_cuda(spg_scan(w.space, &w.space_size, w.bound, w.start, w.rows), "scan", error) &&
           spg_cuda(cudaEventRecord(g->estimated, NULL), "event", error) &&
           spg_block_make(&columns, &g->memory, (size_t)w.totals.bound * sizeof(int32_t), "columns by upper bound",
                          error) &&
           spg_block_make(&values, &g->memory, (size_t)w.totals.bound * value, "values by upper bound", error);
    struct spg_target c = {.values = values.at, .columns = columns.at, .start = w.start, .size = w.size};
    /* Without multiplications there are no places, and no rows to form. */
    done = done && (!w.totals.bound || form_all(&w, &c, false, error)) && spg_work_settle(&w, &c, g->formed, error) &&
           spg_work_result(&w, false, error) &&
           compact(&w, sizeof(int32_t), &columns, &g->c.indices, "columns of C", error);
    /* There is room for the second array of C where the first of the places was. */
    spg_block_drop(&columns, &g->memory);
    done = done && compact(&w, value, &values, &g->c.values, "values of C", error) &&
           spg_gpu_end(g, true, true, run, error);
    run->entries = w.totals.bound;
    double end = spg_now_ms();
    spg_block_drop(&values, &g->memory);
    run->trim_ms = spg_now_ms() - end;
    spg_work_drop(&w);
    if (!done)
        spg_result_drop(&g->c, &g->memory);
    return done;
}

static bool run_precise(void *pointer, struct spg_run *run, struct spg_error *error) {
    struct spg_way *way = pointer;
    struct spg_gpu *g = &way->gpu;
    struct spg_work w = {0};
    *run = (struct spg_run){0};
    bool done = begin(&w, way, error) && spg_work_sample_if_long(&w, error);
    struct spg_target counted = {.size = w.size};
    done = done && form_all(&w, &counted, false, error) && spg_work_settle(&w, &counted, g->estimated, error) &&
           spg_work_result(&w, true, error);
    struct spg_target c = {.values = g->c.values.at, .columns = g->c.indices.at, .start = w.place, .size = w.size};
    done = done && (!g->c.stored || form_all(&w, &c, true, error)) && spg_gpu_end(g, true, false, run, error);
    run->entries = g->c.stored;
    spg_work_drop(&w);
    if (!done)
        spg_result_drop(&g->c, &g->memory);
    return done;
}

const struct spg_mode_functions spg_mode_upper_bound = {spg_way_open, run_upper_bound, spg_way_fetch, spg_way_close,
                                                        NULL};
const struct spg_mode_functions spg_mode_precise = {spg_way_open, run_precise, spg_way_fetch, spg_way_close, NULL};
