/* A small handle-based library: triangular solves on cuBLAS that borrow their temporary memory from a workspace of
 * gpumem_workspace.h. No function has a parameter for temporary memory. */
#ifndef WORKSPACE_TRSM_H
#define WORKSPACE_TRSM_H

#include <cuda_runtime_api.h>

#include "shim/gpumem_workspace.h"

struct trsm_handle;

/* INTERNAL_ERROR: CUDA or cuBLAS failed. */
enum gpumem_workspace_status trsm_create(cudaStream_t stream, struct trsm_handle **handle);
void trsm_destroy(struct trsm_handle *handle);

/* For sizes, queries and the pointer mode of alpha. */
struct gpumem_workspace *trsm_workspace(struct trsm_handle *handle);

/* Solves A X = alpha B, and writes X over B. A is m x m and lower triangular, B is m x n; both lie in device memory,
 * column by column. The work is done in the handle's stream; the call does not wait for it while alpha lies on the
 * host. PERF_DEGRADED: done, column by column, for lack of memory. MEMORY_ERROR: not done, B is as it was. */
enum gpumem_workspace_status trsm_solve(struct trsm_handle *handle, int m, int n, const float *alpha, const float *a,
                                        int lda, float *b, int ldb);

#endif
