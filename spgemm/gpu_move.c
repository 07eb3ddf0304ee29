#include "spgemm/gpu_move.h"

int32_t spg_mover_most = 512;

#define BLOCK_BIN SPG_WARP_BINS /* from here on a block computes a row */

/* Bin for rows of as many entries as the longest row may have; SPG_TABLES if there is none. */
static int bin_of_longest(const struct spg_work *w) {
    int bin = spg_bin_of(w->totals.row_max);
    return bin < BLOCK_BIN ? BLOCK_BIN : bin;
}

int32_t spg_mover_rows(const struct spg_loop *l) {
    if (!l->moves || bin_of_longest(&l->w) >= SPG_TABLES)
        return 0;
    int32_t most = spg_mover_most;
    return l->spread.slab < most ? l->spread.slab : most;
}

bool spg_mover_start(struct spg_loop *l, struct spg_error *error) {
    return !l->moves || spg_gpu_mover(l->w.gpu, error);
}

bool spg_mover_wait(struct spg_loop *l, struct spg_error *error) {
    return !l->moves ||
           spg_cuda(cudaStreamWaitEvent(l->w.gpu->memory.stream, l->w.gpu->placed_slab, 0), "event", error);
}

/* The host does not know how many rows these are: a block without a row ends at once. */
static bool repeat_overflowed(struct spg_loop *l, const struct spg_target *c, struct spg_error *error) {
    const struct spg_work *w = &l->w;
    int32_t rows = spg_mover_rows(l);
    return !rows || spg_cuda(spg_launch_table(bin_of_longest(w), l->job->precision, w->a, w->b, NULL, rows, NULL, NULL,
                                              c, w->overflow, w->overflows, w->gpu->mover),
                             "rows by tables", error);
}

bool spg_mover_move(struct spg_loop *l, int slab, const struct spg_target *c, struct spg_error *error) {
    struct spg_work *w = &l->w;
    struct spg_gpu *g = w->gpu;
    int32_t *offsets = g->c.offsets.at;
    return !l->moves || (spg_cuda(cudaEventRecord(g->started_slab, g->memory.stream), "event", error) &&
                         spg_cuda(cudaStreamWaitEvent(g->mover, g->started_slab, 0), "event", error) &&
                         repeat_overflowed(l, c, error) &&
                         spg_cuda(spg_launch_place_slab(&c->spread, w->overflows, slab, w->size, offsets, w->sections,
                                                        w->moves, g->mover),
                                  "place of a slab", error) &&
                         spg_cuda(cudaEventRecord(g->placed_slab, g->mover), "event", error) &&
                         spg_cuda(spg_launch_move_slab(l->value_size, l->columns.at, l->values.at, &c->spread, slab,
                                                       offsets, w->size, w->moves, g->mover),
                                  "rows moved together", error));
}

bool spg_mover_join(struct spg_loop *l, struct spg_error *error) {
    struct spg_gpu *g = l->w.gpu;
    return !l->moves || (spg_cuda(cudaEventRecord(g->moved_slab, g->mover), "event", error) &&
                         spg_cuda(cudaStreamWaitEvent(g->memory.stream, g->moved_slab, 0), "event", error));
}

int32_t spg_mover_moved(const struct spg_loop *l) {
    int64_t rows = (int64_t)l->w.results.moves.moved * l->spread.slab;
    return rows < l->w.rows ? (int32_t)rows : l->w.rows;
}
