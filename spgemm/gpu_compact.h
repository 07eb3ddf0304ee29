/* From the slots of mode rounds to C. */
#ifndef SPG_GPU_COMPACT_H
#define SPG_GPU_COMPACT_H

#include "spgemm/gpu_loop.h"

/* Moves the rows together. All rows must be computed, C's offsets and number of entries set. */
bool spg_loop_compact(struct spg_loop *l, struct spg_error *error);
/* Makes the arrays the result's and returns all slots that C does not need. */
bool spg_loop_trim(struct spg_loop *l, struct spg_error *error);

#endif
