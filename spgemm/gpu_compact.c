/* C of the places that rows were formed in: in the same memory where that is a region and rows lie in their
 * order, else in memory of its own. */
#include "spgemm/gpu_rounds.h"

/* Every row in one piece. */
static bool packs(const struct spg_loop *l) {
    return l->job->vector == SPG_VECTOR_VMM && l->rounds <= 1 && !l->gap && l->size <= SPG_TILE;
}

static bool pack(struct spg_loop *l, struct spg_error *error) {
    struct spg_work *w = &l->w;
    struct spg_padded padded = {w->rows, l->size, spg_tile_rows(l->size), w->gpu->c.offsets.at};
    /* There are at most as many tiles as rows; what bins held is not needed now. */
    unsigned *read = (unsigned *)w->binned;
    return spg_cuda(cudaMemsetAsync(&w->spill->ticket, 0, sizeof w->spill->ticket, NULL), "rows", error) &&
           spg_cuda(cudaMemsetAsync(read, 0, (size_t)spg_tiles(&padded) * sizeof *read, NULL), "rows", error) &&
           spg_cuda(spg_launch_pack(l->value, l->columns.at, l->values.at, &padded, &w->spill->ticket, read),
                    "rows moved together", error);
}

/* Whether each slab's rows of C end before its first piece. */
static bool slabs_are_clear(const struct spg_loop *l) {
    const struct spg_found *found = &l->w.found;
    bool clear = l->gap > 0;
    for (int64_t row = 0, slab = 0; clear && row < l->w.rows; row += l->spread.slab, slab++)
        clear = found->ends.slab[slab] <= (row + found->spill.shift[slab]) * l->size;
    return clear;
}

static bool move_slabs(struct spg_loop *l, struct spg_error *error) {
    const struct spg_work *w = &l->w;
    struct spg_moved columns = {l->columns.at, l->columns.at}, values = {l->values.at, l->values.at};
    bool done = true;
    for (int64_t row = 0; done && row < w->rows; row += l->spread.slab) {
        int64_t rows = w->rows - row < l->spread.slab ? w->rows - row : l->spread.slab;
        done = spg_cuda(spg_launch_move_spread(l->value, &columns, &values, &l->spread, (int32_t)row, (int32_t)rows,
                                               w->place, w->size),
                        "rows moved together", error);
    }
    return done;
}

/* One array after the other, so that there is room for the second where the first was. */
static bool copy(struct spg_loop *l, size_t element, struct spg_output *from, struct spg_block *to, const char *what,
                 struct spg_error *error) {
    struct spg_work *w = &l->w;
    struct spg_pieces pieces = {l->size, l->rounds, l->owner.at, l->first.at};
    if (!spg_block_make(to, &w->gpu->memory, (size_t)w->gpu->c.stored * element, what, error))
        return false;
    struct spg_moved none = {NULL, NULL}, all = {from->at, to->at};
    bool values = from == &l->values;
    cudaError_t status = l->job->kernel == SPG_KERNEL_THESIS
                             ? spg_launch_move_pieces(element, from->at, to->at, &pieces, l->pieces, w->place, w->size)
                             : spg_launch_move_spread(l->value, values ? &none : &all, values ? &all : &none,
                                                      &l->spread, 0, w->rows, w->place, w->size);
    return spg_cuda(status, what, error);
}

bool spg_loop_compact(struct spg_loop *l, struct spg_error *error) {
    struct spg_result *c = &l->w.gpu->c;
    if (packs(l))
        return pack(l, error);
    if (slabs_are_clear(l))
        return move_slabs(l, error);
    if (!copy(l, sizeof(int32_t), &l->columns, &c->indices, "columns of C", error))
        return false;
    spg_output_release(&l->columns);
    return copy(l, l->value, &l->values, &c->values, "values of C", error);
}

bool spg_loop_trim(struct spg_loop *l, struct spg_error *error) {
    struct spg_result *c = &l->w.gpu->c;
    if (l->columns.region)
        return spg_output_keep(&l->columns, (size_t)c->stored * sizeof(int32_t), &c->indices, error) &&
               spg_output_keep(&l->values, (size_t)c->stored * l->value, &c->values, error);
    spg_output_release(&l->values);
    return true;
}
