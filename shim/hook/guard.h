/* Guarded blocks (GPUMEM_GUARD): what the program's calls of the driver do to them. While blocks are guarded, the
 * entries of all calls that submit work or wait pass here before they go on (gm_called), and those whose result can be
 * a fault of the device come back with it. */
#ifndef GM_HOOK_GUARD_H
#define GM_HOOK_GUARD_H

#include "shim/hook/arguments.h"

/* Reads the option, before the first call of the driver. `by_policy`: the policy may guard blocks itself. True: blocks
 * are guarded, and call sites have to be known. */
GM_INTERNAL bool gm_guard_start(bool by_policy);
/* A call of the program, before it is made. `next` is where its entry would continue. Returns where it continues. */
GM_INTERNAL void *gm_guard_observe(const struct gm_called *call, void *next);
/* A hook returns this error of the device to the program. `caller` and `frame`: as gm_site_find takes them. */
GM_INTERNAL void gm_guard_faulted(CUresult error, const char *call, uintptr_t caller, uintptr_t frame);
/* The result of a call that exports the memory at the address, or marks it. Explained if a guard is the reason for an
 * error. Returns the result. */
GM_INTERNAL CUresult gm_guard_shared(CUresult result, const char *call, CUdeviceptr address, uintptr_t caller,
                                     uintptr_t frame);
/* Code is about to be unloaded: the handles of its kernels may come again. */
GM_INTERNAL void gm_guard_forget_kernels(void);
/* The program is about to free a block in the order of a stream. */
GM_INTERNAL void gm_guard_frees_in_order(uint64_t address, CUstream stream, uint32_t site);
/* The program made an instance of the graph. */
GM_INTERNAL void gm_guard_instantiated(const CUgraphExec *instance, CUgraph graph);
/* The program is about to change a node of the instance. */
GM_INTERNAL void gm_guard_graph_changes(CUgraphExec instance);
GM_INTERNAL void gm_guard_after_fork(void);

#endif
