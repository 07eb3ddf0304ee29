/* Contexts that end by cuCtxDetach, in a row: with memory that was freed and with memory that ends with them. Without
 * its last reference a context lives on. No call makes an ended context current, also where a thread's stack has it
 * twice. */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <stdint.h>

#include "program.h"
#include "simcuda.h"

enum { CONTEXTS = 12, MIB = 1 << 20 };

static CUdeviceptr take(void) {
    CUdeviceptr block;
    MUST(cuMemAlloc_v2(&block, MIB));
    note_alloc("cuMemAlloc", MIB, (void *)(uintptr_t)block);
    MUST(cuMemsetD8_v2(block, 1, MIB));
    return block;
}

static void give(CUdeviceptr block) {
    note_free("cuMemFree", (void *)(uintptr_t)block);
    MUST(cuMemFree_v2(block));
}

static void lose(CUdeviceptr block) { note("gone", "cuMemAlloc", MIB, (void *)(uintptr_t)block); }

static CUcontext current(void) {
    CUcontext context;
    MUST(cuCtxGetCurrent(&context));
    return context;
}

static CUcontext create(void) {
    CUcontext context;
    MUST(cuCtxCreate_v2(&context, 0, 0));
    return context;
}

static void in_a_row(void) {
    for (int i = 0; i < CONTEXTS; i++) {
        CUcontext context = create();
        give(take());
        lose(take());
        MUST(cuCtxDetach(context));
        EXPECT(current() == NULL);
    }
}

static void attached(void) {
    CUcontext context = create(), same;
    MUST(cuCtxAttach(&same, 0));
    EXPECT(same == context);
    CUdeviceptr block = take();
    MUST(cuCtxDetach(context));
    EXPECT(current() == context);
    give(block);
    give(take());
    MUST(cuCtxDetach(context));
    EXPECT(current() == NULL);
}

static void refused(void) {
    CUcontext below = create(), context = create();
    CUdeviceptr block = take();
    EXPECT(cuCtxDetach(below) == CUDA_ERROR_INVALID_CONTEXT);
    give(block);
    MUST(cuCtxDetach(context));
    EXPECT(current() == below);
    MUST(cuCtxDetach(below));
}

static void twice_on_the_stack(void) {
    CUcontext context = create(), popped;
    give(take());
    MUST(cuCtxPushCurrent_v2(context));
    MUST(cuCtxDetach(context));
    EXPECT(cuCtxSynchronize() == CUDA_ERROR_CONTEXT_IS_DESTROYED);
    MUST(cuCtxPopCurrent_v2(&popped));
    EXPECT(popped == context && current() == NULL);
}

static void primary(void) {
    CUcontext context = start_driver();
    CUdeviceptr block = take();
    MUST(cuCtxDetach(context));
    EXPECT(current() == context);
    give(block);
    give(take());
    MUST(cuDevicePrimaryCtxRelease_v2(0));
}

/* What ended with its context is free again. */
static size_t free_bytes(void) {
    size_t bytes, total;
    CUcontext context = create();
    MUST(cuMemGetInfo_v2(&bytes, &total));
    MUST(cuCtxDetach(context));
    return bytes;
}

int main(void) {
    MUST(cuInit(0));
    size_t before = free_bytes();
    in_a_row();
    EXPECT(free_bytes() == before);
    twice_on_the_stack();
    refused();
    attached();
    in_a_row();
    primary();
    EXPECT(simcuda_violations() == 0);
    printf("ok detached\n");
    return 0;
}
