/* Mode rounds: the output grows while rows are computed, instead of being sized before.
 *
 * 1. The host maps memory for the output, in units of size_per_row slots for each row. The size is an option, or it is
 *    chosen from sampled rows (estimate.h).
 * 2. Rows are computed into the slots: by hash tables (gpu_spread.c) or by the kernel of the thesis (gpu_dots.c).
 * 3. Rows have holes between them. They are moved together (gpu_compact.c), and C is valid CSR.
 *
 * The time and the memory of all three steps are counted. Memory that C does not need is returned after the clock has
 * stopped; that time is reported as trim_ms.
 *
 * Source: thesis, algorithm 3 and section 3.2. The thesis has no third step. */
#include "spgemm/gpu_compact.h"
#include "spgemm/gpu_dots.h"
#include "spgemm/gpu_estimates.h"
#include "spgemm/gpu_spread.h"

static bool compute_rows(struct spg_loop *l, struct spg_error *error) {
    return l->job->kernel == SPG_KERNEL_THESIS ? spg_loop_dots(l, error) : spg_loop_spread(l, error);
}

static bool run_rounds(void *pointer, struct spg_run *run, struct spg_error *error) {
    struct spg_method *method = pointer;
    struct spg_gpu *g = &method->gpu;
    struct spg_loop l;
    *run = (struct spg_run){0};
    if (!spg_gpu_start(g, error))
        return false;
    bool done = spg_loop_make(&l, method, true, error) && compute_rows(&l, error);
    bool spread = l.spread.size != 0;
    int64_t slots = spread ? l.chunks * l.chunk_size : (int64_t)(l.columns.size / sizeof(int32_t));
    done = done && spg_work_result(&l.w, false, error) && spg_loop_compact(&l, error) &&
           spg_gpu_stop(g, true, true, run, error);
    double trim_start = spg_now_ms();
    done = done && spg_loop_trim(&l, error);
    run->trim_ms = spg_now_ms() - trim_start;
    run->entries = slots;
    run->grow_ms = l.grow_ms;
    run->rounds = l.rounds;
    run->size_per_row = l.chunk_size;
    spg_loop_drop(&l);
    if (!done)
        spg_result_drop(&g->c, &g->memory);
    return done;
}

const struct spg_mode_ops spg_mode_rounds = {spg_method_open, run_rounds, spg_method_fetch, spg_method_close,
                                             spg_method_estimate};
