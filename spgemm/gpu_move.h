/* Compaction of slabs (spread.h) while later slabs are computed.
 *
 * The kernels that compute rows leave most of the bandwidth of device memory unused, and moving rows needs nothing
 * else. A stream of higher priority moves slab k by few blocks while slab k + 1 is computed. Nothing waits on the host:
 *
 * 1. Rows of slab k that overflowed their tables are computed again, by tables for the longest row of all.
 * 2. A scan of their sizes gives the offsets of the slab's rows.
 * 3. The slab is moved if all of its rows are complete, all slabs before it were moved, and C's rows end before the
 *    slab's first chunk. Otherwise it stays, and so do all later slabs: gpu_compact.c moves them in the end.
 *
 * The last slab is never moved here. Only large slabs behind a gap are moved: where each row has one chunk, tiles are
 * packed in the end (tiles.h), because packing beside the kernels gains nothing. Memory: none. */
#ifndef SPG_GPU_MOVE_H
#define SPG_GPU_MOVE_H

#include "spgemm/gpu_loop.h"

/* At most so many overflowed rows of a slab are computed again before it is moved. Only tests change it. */
extern int32_t spg_mover_most;

/* Call it before the first slab is started. */
bool spg_mover_start(struct spg_loop *l, struct spg_error *error);
/* Most overflowed rows of a slab that are computed again before it is moved; 0 where slabs are not moved. */
int32_t spg_mover_rows(const struct spg_loop *l);
/* Lets the next slab start when all overflowed rows that are computed again have their chunks. */
bool spg_mover_wait(struct spg_loop *l, struct spg_error *error);
/* Moves a slab. Call it between the start of the next slab and the computation of its rows. `c`: of the next slab. */
bool spg_mover_move(struct spg_loop *l, int slab, const struct spg_target *c, struct spg_error *error);
/* Lets the default stream wait until all slabs are moved. Must be called before anything else uses C. */
bool spg_mover_join(struct spg_loop *l, struct spg_error *error);
/* Rows that were moved. */
int32_t spg_mover_moved(const struct spg_loop *l);

#endif
