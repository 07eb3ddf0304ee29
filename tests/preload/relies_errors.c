/* Errors of the driver that programs rely on: what natively fails, fails (relies.h). Argument: the case. */
#include "relies.h"

static void finish(void) { MUST(CALL(cuCtxSynchronize)); }
static void fails(CUresult result, CUresult wanted) { note_wrong(result != wanted); }

/* ---- a kernel has used an address that is no memory: all that follows fails */

static void launch_broken(void) { MUST(CALL(cuLaunchKernel, break_it, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL)); }

/* simcuda_violations counts what the kernel does, and here it is meant to. */
static void end_broken(void) { CALL(simcuda_reset_counters); }

/* The free waits for the kernel. */
RELIES(fault_ahead, NULL, 1) {
    CUdeviceptr scratch = allocate(SCRATCH), next;
    launch_broken();
    fails(CALL(cuMemFree_v2, scratch), CUDA_ERROR_ILLEGAL_ADDRESS);
    fails(CALL(cuMemAlloc_v2, &next, SCRATCH), CUDA_ERROR_ILLEGAL_ADDRESS);
    end_broken();
}

/* The kernel has run. */
RELIES(fault_behind, NULL, 1) {
    CUdeviceptr scratch = allocate(SCRATCH), next;
    launch_broken();
    CALL(simcuda_run_all);
    fails(CALL(cuMemFree_v2, scratch), CUDA_ERROR_ILLEGAL_ADDRESS);
    fails(CALL(cuMemAlloc_v2, &next, SCRATCH), CUDA_ERROR_ILLEGAL_ADDRESS);
    end_broken();
}

/* A free may learn of it by the next call that gpumem makes for a free; at the latest when the program is told. */
RELIES(fault_known, NULL, 1) {
    CUdeviceptr first = allocate(SCRATCH), second = allocate(SCRATCH), next;
    launch_broken();
    fails(CALL(cuCtxSynchronize), CUDA_ERROR_ILLEGAL_ADDRESS);
    fails(CALL(cuMemFree_v2, first), CUDA_ERROR_ILLEGAL_ADDRESS);
    fails(CALL(cuMemFree_v2, second), CUDA_ERROR_ILLEGAL_ADDRESS);
    fails(CALL(cuMemAlloc_v2, &next, SCRATCH), CUDA_ERROR_ILLEGAL_ADDRESS);
    end_broken();
}

/* A submission behind the free fails; then so do frees and allocations. */
RELIES(fault_by_launch, NULL, 1) {
    CUdeviceptr scratch = allocate(SCRATCH), second = allocate(SCRATCH), next;
    void *arguments[] = {&table, &salt};
    launch_broken();
    CALL(cuMemFree_v2, scratch);
    CALL(simcuda_run_all);
    fails(CALL(cuLaunchKernel, check, 1, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL), CUDA_ERROR_ILLEGAL_ADDRESS);
    fails(CALL(cuMemFree_v2, second), CUDA_ERROR_ILLEGAL_ADDRESS);
    fails(CALL(cuMemAlloc_v2, &next, SCRATCH), CUDA_ERROR_ILLEGAL_ADDRESS);
    end_broken();
}

/* A loop of pairs ends when the work before it fails. */
RELIES(fault_pairs, start_device, 1) {
    CUdeviceptr block = allocate(SCRATCH);
    CUresult seen = CUDA_SUCCESS;
    launch_broken();
    for (int i = 0; i < 5000 && !seen; i++) {
        seen = CALL(cuMemFree_v2, block);
        seen = seen ? seen : CALL(cuMemAlloc_v2, &block, SCRATCH);
        usleep(i < 40 ? 0 : 1000);
    }
    fails(seen, CUDA_ERROR_ILLEGAL_ADDRESS);
    end_broken();
}

/* ---- arguments and contexts */

RELIES(launch_nothing, NULL, 2) {
    void *arguments[] = {&table, &salt};
    note_wrong(CALL(cuLaunchKernelEx, NULL, check, arguments, NULL) == CUDA_SUCCESS);
    note_wrong(CALL(cuLaunchKernelEx_ptsz, NULL, check, arguments, NULL) == CUDA_SUCCESS);
    compute(NULL, salt); /* behind a free, too */
    note_wrong(CALL(cuLaunchKernelEx, NULL, check, arguments, NULL) == CUDA_SUCCESS);
    finish();
}

/* What a submission or a query names does not exist. */
RELIES(no_such_handle, NULL, 2) {
    compute(NULL, salt);
    note_wrong(CALL(cuGraphLaunch, NULL, NULL) == CUDA_SUCCESS);
    compute(NULL, salt);
    note_wrong(CALL(cuEventQuery, NULL) == CUDA_SUCCESS);
    compute(NULL, salt);
    note_wrong(CALL(cuEventRecord, NULL, NULL) == CUDA_SUCCESS);
    compute(NULL, salt);
    note_wrong(CALL(cuMemUnmap, 0, 0) == CUDA_SUCCESS);
    compute(NULL, salt);
    note_wrong(CALL(cuStreamBeginCapture_v2, NULL, CU_STREAM_CAPTURE_MODE_RELAXED) == CUDA_SUCCESS);
    finish();
}

static void *free_without_context(void *block) {
    fails(CALL(cuMemFree_v2, (CUdeviceptr)(uintptr_t)block), CUDA_ERROR_INVALID_CONTEXT);
    fails(CALL(cuMemFree_v2, 0), CUDA_SUCCESS);
    return NULL;
}

/* A thread without a context cannot free; the block lives on. */
RELIES(without_context, NULL, 2) {
    CUdeviceptr block = allocate(SCRATCH), next;
    launch(make, NULL, block, salt);
    finish();
    EXPECT(pthread_join(start_thread(free_without_context, (void *)(uintptr_t)block), NULL) == 0);
    next = allocate(SCRATCH);
    note_wrong(next == block);
    launch(check, NULL, block, salt);
    finish();
    release(next);
    MUST(CALL(cuCtxSetCurrent, NULL));
    fails(CALL(cuMemFree_v2, block), CUDA_ERROR_INVALID_CONTEXT);
    MUST(CALL(cuCtxSetCurrent, context));
    fails(CALL(cuMemFree_v2, block), CUDA_SUCCESS);
}

int main(int count, char **words) { return RUN_CASE("relies_errors"); }
