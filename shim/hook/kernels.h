/* What is known of kernels that were launched: name, parameters; and the launches that may not have ended. */
#ifndef GM_HOOK_KERNELS_H
#define GM_HOOK_KERNELS_H

#include "shim/driver/driver.h"
#include "shim/explain/access.h"

/* Fills in the kernel's name and the pointers among its arguments, and whether it closes blocks. `parameters` and
 * `extra` are those of cuLaunchKernel. `all`: also of a launch without a pointer to a guarded block; else such a one
 * only has its counts set to 0. */
GM_INTERNAL void gm_kernel_read(CUfunction function, void *const *parameters, void *const *extra, bool all,
                                struct gm_launch *launch);
/* Adds a pointer to a guarded block. Where there is no room, it takes the place of one to a block that lives if its own
 * block is freed. */
GM_INTERNAL void gm_launch_add_pointer(struct gm_launch *launch, const struct gm_launch_pointer *pointer);
/* Before the launch: explains the pointers that are whole arguments and lead to freed memory, and notes this. */
GM_INTERNAL void gm_kernel_look(struct gm_launch *launch);
/* Forgets what is known of kernels. */
GM_INTERNAL void gm_kernels_forget(void);

/* The launch was made. `stream`: the handle of its stream, and of the per-thread default stream CU_STREAM_PER_THREAD.
 */
GM_INTERNAL void gm_launches_add(const struct gm_launch *launch, CUstream stream);
/* Finds a launch that may not have ended, in another stream, made while gm_guard_order was `order`, with a pointer into
 * the block. */
GM_INTERNAL bool gm_launches_find(const struct gm_guard_block *block, CUstream stream, uint64_t order,
                                  struct gm_launch *launch);
/* The work of the stream has ended because gpumem waited for it. So it is at no fault, but the program does not know
 * that it has ended. */
GM_INTERNAL void gm_launches_waited(CUstream stream);
/* The work of the stream has ended, or (all) of every stream. */
GM_INTERNAL void gm_launches_ended(CUstream stream, bool all);
/* Copies the launches that may not have ended, the latest first, and how often each was made in a row with others.
 * Returns their number, at most GM_LAUNCHES. *more: earlier ones that were not kept. */
GM_INTERNAL unsigned gm_launches_copy(struct gm_launch launches[GM_LAUNCHES], unsigned times[GM_LAUNCHES],
                                      uint64_t *more);
GM_INTERNAL void gm_kernels_after_fork(void);

#endif
