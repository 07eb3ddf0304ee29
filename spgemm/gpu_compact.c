/* C of the places that rows were formed in: in the same memory where that is a region and rows lie in their
 * order, else in memory of its own. */
#include "spgemm/gpu_rounds.h"

/* Every row in one piece. */
static bool packs(const struct gm_loop *l) {
    return l->job->vector == GM_VECTOR_VMM && l->rounds <= 1 && !l->gap && l->size <= GM_TILE;
}

static bool pack(struct gm_loop *l, struct gm_spgemm_error *error) {
    struct gm_work *w = &l->w;
    struct gm_padded padded = {w->rows, l->size, gm_tile_rows(l->size), w->gpu->c.offsets.at};
    /* There are at most as many tiles as rows; what bins held is not needed now. */
    unsigned *read = (unsigned *)w->binned;
    return gm_cuda(cudaMemsetAsync(&w->spill->ticket, 0, sizeof w->spill->ticket, NULL), "rows", error) &&
           gm_cuda(cudaMemsetAsync(read, 0, (size_t)gm_tiles(&padded) * sizeof *read, NULL), "rows", error) &&
           gm_cuda(gm_launch_pack(l->value, l->columns.at, l->values.at, &padded, &w->spill->ticket, read),
                   "rows moved together", error);
}

/* Whether each slab's rows of C end before its first piece. */
static bool slabs_are_clear(const struct gm_loop *l) {
    const struct gm_found *found = &l->w.found;
    bool clear = l->gap > 0;
    for (int64_t row = 0, slab = 0; clear && row < l->w.rows; row += l->spread.slab, slab++)
        clear = found->ends.slab[slab] <= (row + found->spill.shift[slab]) * l->size;
    return clear;
}

static bool move_slabs(struct gm_loop *l, struct gm_spgemm_error *error) {
    const struct gm_work *w = &l->w;
    struct gm_moved columns = {l->columns.at, l->columns.at}, values = {l->values.at, l->values.at};
    bool done = true;
    for (int64_t row = 0; done && row < w->rows; row += l->spread.slab) {
        int64_t rows = w->rows - row < l->spread.slab ? w->rows - row : l->spread.slab;
        done = gm_cuda(gm_launch_move_spread(l->value, &columns, &values, &l->spread, (int32_t)row, (int32_t)rows,
                                             w->place, w->size),
                       "rows moved together", error);
    }
    return done;
}

/* One array after the other, so that there is room for the second where the first was. */
static bool copy(struct gm_loop *l, size_t element, struct gm_output *from, struct gm_block *to, const char *what,
                 struct gm_spgemm_error *error) {
    struct gm_work *w = &l->w;
    struct gm_pieces pieces = {l->size, l->rounds, l->owner.at, l->first.at};
    if (!gm_block_make(to, &w->gpu->memory, (size_t)w->gpu->c.stored * element, what, error))
        return false;
    struct gm_moved none = {NULL, NULL}, all = {from->at, to->at};
    bool values = from == &l->values;
    cudaError_t status = l->job->kernel == GM_KERNEL_THESIS
                             ? gm_launch_move_pieces(element, from->at, to->at, &pieces, l->pieces, w->place, w->size)
                             : gm_launch_move_spread(l->value, values ? &none : &all, values ? &all : &none, &l->spread,
                                                     0, w->rows, w->place, w->size);
    return gm_cuda(status, what, error);
}

bool gm_loop_compact(struct gm_loop *l, struct gm_spgemm_error *error) {
    struct gm_result *c = &l->w.gpu->c;
    if (packs(l))
        return pack(l, error);
    if (slabs_are_clear(l))
        return move_slabs(l, error);
    if (!copy(l, sizeof(int32_t), &l->columns, &c->indices, "columns of C", error))
        return false;
    gm_output_release(&l->columns);
    return copy(l, l->value, &l->values, &c->values, "values of C", error);
}

bool gm_loop_trim(struct gm_loop *l, struct gm_spgemm_error *error) {
    struct gm_result *c = &l->w.gpu->c;
    if (l->columns.region)
        return gm_output_keep(&l->columns, (size_t)c->stored * sizeof(int32_t), &c->indices, error) &&
               gm_output_keep(&l->values, (size_t)c->stored * l->value, &c->values, error);
    gm_output_release(&l->values);
    return true;
}
