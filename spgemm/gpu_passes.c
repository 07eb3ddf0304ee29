/* Modes upper-bound and precise: C in memory that is allocated once, of the size that was estimated or
 * counted before. */
#include "spgemm/gpu_rows.h"

static bool form_all(struct gm_work *w, const struct gm_target *c, bool exact, struct gm_spgemm_error *error) {
    const struct gm_job *job = w->gpu->job;
    if (job->kernel == GM_KERNEL_THESIS)
        return gm_cuda(gm_launch_dots(job->precision, w->a, w->b, &w->way->by_columns, NULL, w->rows, c, NULL),
                       "rows by threads", error);
    return gm_work_form(w, NULL, w->rows, c, exact, error);
}

static bool begin(struct gm_work *w, struct gm_way *way, struct gm_spgemm_error *error) {
    return gm_gpu_begin(&way->gpu, error) && gm_work_make(w, way, error) && gm_work_offsets(w, error) &&
           gm_work_totals(w, error);
}

/* One array of C, from the upper bound's places to its own. */
static bool compact(struct gm_work *w, size_t element, struct gm_block *from, struct gm_block *to, const char *what,
                    struct gm_spgemm_error *error) {
    return gm_block_make(to, &w->gpu->memory, (size_t)w->gpu->c.stored * element, what, error) &&
           gm_cuda(gm_launch_move_rows(element, from->at, to->at, w->start, w->place, w->size, w->rows), what, error);
}

static bool run_upper_bound(void *pointer, struct gm_run *run, struct gm_spgemm_error *error) {
    struct gm_way *way = pointer;
    struct gm_gpu *g = &way->gpu;
    struct gm_work w = {0};
    struct gm_block columns = {0}, values = {0};
    size_t value = gm_value_size(g->job->precision);
    *run = (struct gm_run){0};
    bool done = begin(&w, way, error);
    if (done && (w.totals.most == INT32_MAX || w.totals.bound > INT64_MAX / 16))
        done = gm_spgemm_fail(error, "out of device memory: more places than numbers hold");
    done = done && gm_work_sample_if_long(&w, error) &&
           gm_cuda(gm_scan(w.space, &w.space_size, w.bound, w.start, w.rows), "scan", error) &&
           gm_cuda(cudaEventRecord(g->estimated, NULL), "event", error) &&
           gm_block_make(&columns, &g->memory, (size_t)w.totals.bound * sizeof(int32_t), "columns by upper bound",
                         error) &&
           gm_block_make(&values, &g->memory, (size_t)w.totals.bound * value, "values by upper bound", error);
    struct gm_target c = {.values = values.at, .columns = columns.at, .start = w.start, .size = w.size};
    /* Without multiplications there are no places, and no rows to form. */
    done = done && (!w.totals.bound || form_all(&w, &c, false, error)) && gm_work_settle(&w, &c, g->formed, error) &&
           gm_work_result(&w, false, error) &&
           compact(&w, sizeof(int32_t), &columns, &g->c.indices, "columns of C", error);
    /* There is room for the second array of C where the first of the places was. */
    gm_block_drop(&columns, &g->memory);
    done = done && compact(&w, value, &values, &g->c.values, "values of C", error) &&
           gm_gpu_end(g, true, true, run, error);
    run->entries = w.totals.bound;
    double end = gm_now_ms();
    gm_block_drop(&values, &g->memory);
    run->trim_ms = gm_now_ms() - end;
    gm_work_drop(&w);
    if (!done)
        gm_result_drop(&g->c, &g->memory);
    return done;
}

static bool run_precise(void *pointer, struct gm_run *run, struct gm_spgemm_error *error) {
    struct gm_way *way = pointer;
    struct gm_gpu *g = &way->gpu;
    struct gm_work w = {0};
    *run = (struct gm_run){0};
    bool done = begin(&w, way, error) && gm_work_sample_if_long(&w, error);
    struct gm_target counted = {.size = w.size};
    done = done && form_all(&w, &counted, false, error) && gm_work_settle(&w, &counted, g->estimated, error) &&
           gm_work_result(&w, true, error);
    struct gm_target c = {.values = g->c.values.at, .columns = g->c.indices.at, .start = w.place, .size = w.size};
    done = done && (!g->c.stored || form_all(&w, &c, true, error)) && gm_gpu_end(g, true, false, run, error);
    run->entries = g->c.stored;
    gm_work_drop(&w);
    if (!done)
        gm_result_drop(&g->c, &g->memory);
    return done;
}

const struct gm_mode_functions gm_mode_upper_bound = {gm_way_open, run_upper_bound, gm_way_fetch, gm_way_close, NULL};
const struct gm_mode_functions gm_mode_precise = {gm_way_open, run_precise, gm_way_fetch, gm_way_close, NULL};
