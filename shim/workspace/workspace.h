/* A workspace of gpumem_workspace.h, as its own files see it. */
#ifndef GM_WORKSPACE_WORKSPACE_H
#define GM_WORKSPACE_WORKSPACE_H

#include "shim/driver/driver.h"
#include "shim/gpumem_workspace.h"

/* LOANS: places for loans, taken in turn. The pages of those behind are dropped every so often: they read as zero. */
enum { GM_WORKSPACE_LOANS = 1 << 20, GM_WORKSPACE_LOANS_HELD = 4096 };

struct gpumem_workspace {
    struct gm_context context;
    CUstream stream;
    bool managed, has_pools;
    struct gpumem_workspace_options options; /* for `allocate`, `release` and `user` */
    bool foreign;                            /* the memory is the caller's, and is not freed */
    char *address;                           /* NULL: no memory */
    size_t size;
    CUevent order; /* orders a new stream behind the former; NULL until needed */

    bool lent;        /* the latest loan is alive */
    const char *site; /* who borrowed it */
    /* The number of a loan is its place. So a second return of an earlier one is not taken for that of the latest. */
    struct gpumem_loan *loans;
    uint64_t borrowed; /* loans so far */

    bool query;
    size_t optimal; /* largest size of the query */
    enum gpumem_pointer_mode pointer_mode;
};

/* Makes `workspace` hold `size` bytes, all of them new; 0: none. What it held is freed first. On failure it holds
 * nothing. The context must be current. */
GM_INTERNAL gm_status gm_workspace_renew(struct gpumem_workspace *workspace, size_t size);
GM_INTERNAL void gm_workspace_probe_pools(struct gpumem_workspace *workspace);
/* Lets later work of `stream` wait for the work of the workspace's stream. The context must be current. */
GM_INTERNAL gm_status gm_workspace_order(struct gpumem_workspace *workspace, CUstream stream);

/* No device has so many bytes. */
#define GM_WORKSPACE_TOO_LARGE (SIZE_MAX / 256)
/* Sum of the rounded sizes; above GM_WORKSPACE_TOO_LARGE when it would overflow. */
GM_INTERNAL size_t gm_workspace_sum(size_t count, const size_t *sizes);

/* Store the error text and return the status of their name. */
GM_INTERNAL enum gpumem_workspace_status gm_workspace_invalid_pointer(const char *what);
GM_INTERNAL enum gpumem_workspace_status gm_workspace_internal_error(const char *what);

#endif
