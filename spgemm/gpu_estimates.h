/* Both estimates of nnz(C) on the device, each with its own time. */
#ifndef SPG_GPU_ESTIMATES_H
#define SPG_GPU_ESTIMATES_H

#include "spgemm/mode.h"

/* Operation of struct spg_mode_ops; `method` is a struct spg_method. */
bool spg_method_estimate(void *method, struct spg_estimates *e, struct spg_error *error);

#endif
