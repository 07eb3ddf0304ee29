/* What the tests of workspaces share: whether the device has pools in this run, and counters of driver calls. */
#ifndef WORKSPACE_BENCH_H
#define WORKSPACE_BENCH_H

#include "tests/contract/region/bench.h"

#include "shim/gpumem_workspace.h"

#define KIB   ((size_t)1024)
#define OK(c) assert_int_equal((c), GPUMEM_WORKSPACE_SUCCESS)

static inline bool has_pools(void) {
    const char *hidden = getenv("SIMCUDA_HIDE");
    return !hidden || !strstr(hidden, "cuMemAllocAsync");
}

static inline uint64_t allocations(void) { return simcuda_calls("cuMemAllocAsync") + simcuda_calls("cuMemAlloc_v2"); }
static inline uint64_t frees(void) { return simcuda_calls("cuMemFreeAsync") + simcuda_calls("cuMemFree_v2"); }

/* Calls by which the host waits for work. */
static inline uint64_t waits(void) {
    return simcuda_calls("cuMemFree_v2") + simcuda_calls("cuCtxSynchronize") + simcuda_calls("cuStreamSynchronize") +
           simcuda_calls("cuEventSynchronize");
}

/* A workspace of the bench's stream: managed, or of `size` bytes. */
static inline struct gpumem_workspace *workspace_of(size_t size) {
    struct gpumem_workspace_options options = {.struct_size = sizeof options, .stream = bench.stream, .size = size};
    struct gpumem_workspace *workspace = NULL;
    OK(gpumem_workspace_create(&options, &workspace));
    return workspace;
}

static inline size_t size_of(const struct gpumem_workspace *workspace) {
    size_t size = 12345;
    OK(gpumem_workspace_get_size(workspace, &size));
    return size;
}

/* Frees and allocations in the order of streams take effect, and the pool's free memory returns to the device. */
static inline int close_workspace(void **state) {
    CUmemoryPool pool;
    CU(cuCtxSynchronize());
    if (has_pools()) {
        CU(cuDeviceGetDefaultMemPool(&pool, 0));
        CU(cuMemPoolTrimTo(pool, 0));
    }
    return bench_close(state);
}

/* Submits a kernel that writes, or compares, the words of a buffer. */
static inline void launch_in(CUfunction kernel, CUstream stream, const void *address, size_t size, uint32_t pattern) {
    uint64_t bytes = size / 4 * 4;
    void *arguments[] = {&address, &bytes, &pattern};
    CU(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL));
}

#endif
