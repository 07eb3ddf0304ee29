/* Mode rounds with the kernel of the thesis. */
#ifndef SPG_GPU_DOTS_H
#define SPG_GPU_DOTS_H

#include "spgemm/gpu_loop.h"

/* Computes all rows; sets chunk_size, rounds and chunks. */
bool spg_loop_dots(struct spg_loop *l, struct spg_error *error);

#endif
