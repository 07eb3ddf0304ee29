/* Compaction: rows of mode rounds become valid CSR. One of three methods:
 *
 * 1. Every row lies in one chunk, in a region: one kernel packs the rows in place, tile by tile (tiles.h).
 * 2. Rows lie in a spread (spread.h), in a region, and every slab of C ends before the slab's first chunk: one kernel
 *    for each slab moves its rows in place, in the order of slabs. Most slabs are moved while the next one is computed
 *    (gpu_move.h).
 * 3. Else, one array after the other: C's columns get memory of their own and are copied there, the slots of columns
 *    are freed, then the same for the values.
 *
 * Cost: every entry is read and written once. Memory beside the slots: 4 bytes a tile for 1, none for 2; 3 needs C a
 * second time, less the slots of columns while the values of C are allocated. */
#include "spgemm/gpu_compact.h"
#include "spgemm/gpu_move.h"

/* Whether every row lies in one chunk. */
static bool packs(const struct spg_loop *l) {
    return l->job->vector == SPG_VECTOR_VMM && l->rounds <= 1 && !l->gap && l->chunk_size <= SPG_TILE;
}

static bool pack(struct spg_loop *l, struct spg_error *error) {
    struct spg_work *w = &l->w;
    struct spg_tiling tiling = {w->rows, l->chunk_size, spg_tile_rows(l->chunk_size), w->gpu->c.offsets.at};
    /* There are at most as many tiles as rows. The list of bins is no longer needed. */
    unsigned *read = (unsigned *)w->binned;
    return spg_cuda(cudaMemsetAsync(&w->chunk_counts->ticket, 0, sizeof w->chunk_counts->ticket, w->gpu->memory.stream),
                    "rows", error) &&
           spg_cuda(cudaMemsetAsync(read, 0, (size_t)spg_tiles(&tiling) * sizeof *read, w->gpu->memory.stream), "rows",
                    error) &&
           spg_cuda(spg_launch_pack(l->value_size, l->columns.at, l->values.at, &tiling, &w->chunk_counts->ticket, read,
                                    w->gpu->memory.stream),
                    "rows moved together", error);
}

/* Whether each slab's rows of C end before the slab's first chunk. */
static bool slabs_are_clear(const struct spg_loop *l) {
    const struct spg_row_results *results = &l->w.results;
    bool clear = l->gap > 0;
    for (int64_t row = 0, slab = 0; clear && row < l->w.rows; row += l->spread.slab, slab++)
        clear = results->c.slab_end[slab] <= (row + results->chunk_counts.shift[slab]) * l->chunk_size;
    return clear;
}

static bool move_slabs(struct spg_loop *l, struct spg_error *error) {
    const struct spg_work *w = &l->w;
    struct spg_array_move columns = {l->columns.at, l->columns.at}, values = {l->values.at, l->values.at};
    bool done = true;
    for (int64_t row = spg_mover_moved(l); done && row < w->rows; row += l->spread.slab) {
        int64_t rows = w->rows - row < l->spread.slab ? w->rows - row : l->spread.slab;
        done = spg_cuda(spg_launch_move_spread(l->value_size, &columns, &values, &l->spread, (int32_t)row,
                                               (int32_t)rows, w->c_offset, w->size, w->gpu->memory.stream),
                        "rows moved together", error);
    }
    return done;
}

/* Copies one array of C into its own memory. */
static bool copy(struct spg_loop *l, size_t element, struct spg_output *from, struct spg_block *to, const char *what,
                 struct spg_error *error) {
    struct spg_work *w = &l->w;
    struct spg_chunks chunks = {l->chunk_size, l->rounds, l->owner.at, l->first.at};
    if (!spg_block_make(to, &w->gpu->memory, (size_t)w->gpu->c.stored * element, what, error))
        return false;
    struct spg_array_move none = {NULL, NULL}, all = {from->at, to->at};
    bool values = from == &l->values;
    if (l->job->kernel == SPG_KERNEL_THESIS)
        return spg_cuda(spg_launch_move_chunks(element, from->at, to->at, &chunks, l->chunks, w->c_offset, w->size,
                                               w->gpu->memory.stream),
                        what, error);
    const struct spg_moves *moves = &w->results.moves;
    int32_t moved = spg_mover_moved(l);
    return spg_cuda(cudaMemcpyAsync(to->at, from->at, (size_t)moves->base[moves->moved] * element,
                                    cudaMemcpyDeviceToDevice, w->gpu->memory.stream),
                    what, error) &&
           spg_cuda(spg_launch_move_spread(l->value_size, values ? &none : &all, values ? &all : &none, &l->spread,
                                           moved, w->rows - moved, w->c_offset, w->size, w->gpu->memory.stream),
                    what, error);
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
    return copy(l, l->value_size, &l->values, &c->values, "values of C", error);
}

bool spg_loop_trim(struct spg_loop *l, struct spg_error *error) {
    if (l->columns.region)
        return spg_loop_arrays_to_result(&l->columns, &l->values, l->value_size, &l->w.gpu->c, error);
    spg_output_release(&l->values);
    return true;
}
