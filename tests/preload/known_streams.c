/* A driver that cannot record a context (SIMCUDA_HIDE=cuCtxRecordEvent): freed memory is reused as long as gpumem
 * knows all streams. The program reaches the driver by look-ups only, as a CUDA runtime does. Arguments: an action
 * after which streams may be unknown; "kept" when memory is expected to be reused before it. */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include "by_name.h"
#include "cases.h"
#include "simcuda.h"

enum { SIZE = 3 << 20, OTHER_SIZE = 2 * SIZE };

CUresult cuLaunchKernel_ptsz(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                             unsigned shared, CUstream stream, void **parameters, void **extra);
CUresult cuMemcpyDtoD_v2_ptds(CUdeviceptr to, CUdeviceptr from, size_t size);

static CUcontext context;
static CUfunction fill, verify;
static CUdeviceptr block;
static CUstream streams[3];

static void *parameters[3];
static void set_parameters(CUdeviceptr *address, uint64_t *bytes, uint32_t *pattern) {
    parameters[0] = address, parameters[1] = bytes, parameters[2] = pattern;
}

/* Work on one stream, a free, and work of the next block on another stream that runs first: the result is wrong when
 * the fence omitted the first stream. */
static void reuse_is_right(CUstream first, CUstream second) {
    CUdeviceptr one, two;
    uint64_t bytes = 65536;
    uint32_t pattern = 0x11111111, other = 0x22222222;
    uint64_t mismatches = CALL(simcuda_check_mismatches);
    MUST(CALL(cuMemAlloc_v2, &one, SIZE));
    MUST(CALL(simcuda_set_streams, "manual"));
    set_parameters(&one, &bytes, &pattern);
    MUST(CALL(cuLaunchKernel, fill, 1, 1, 1, 1, 1, 1, 0, first, parameters, NULL));
    MUST(CALL(cuLaunchKernel, verify, 1, 1, 1, 1, 1, 1, 0, first, parameters, NULL));
    MUST(CALL(cuMemFree_v2, one));
    MUST(CALL(cuMemAlloc_v2, &two, SIZE));
    set_parameters(&two, &bytes, &other);
    MUST(CALL(cuLaunchKernel, fill, 1, 1, 1, 1, 1, 1, 0, second, parameters, NULL));
    while (CALL(simcuda_step, second))
        ;
    CALL(simcuda_run_all);
    MUST(CALL(simcuda_set_streams, "immediate"));
    MUST(CALL(cuMemFree_v2, two));
    MUST(CALL(cuCtxSynchronize));
    EXPECT(CALL(simcuda_check_mismatches) == mismatches && CALL(simcuda_violations) == 0);
}

static int keeps(void) {
    CUdeviceptr address, again;
    MUST(CALL(cuMemAlloc_v2, &address, OTHER_SIZE));
    uint64_t frees = CALL(simcuda_calls, "cuMemFree_v2");
    MUST(CALL(cuMemFree_v2, address));
    int kept = CALL(simcuda_calls, "cuMemFree_v2") == frees;
    MUST(CALL(cuMemAlloc_v2, &again, OTHER_SIZE));
    MUST(CALL(cuMemFree_v2, again));
    return kept && again == address;
}

CASE(none) {}
CASE(twin) {
    uint64_t bytes = 4096;
    uint32_t pattern = 1;
    set_parameters(&block, &bytes, &pattern);
    MUST(CALL(cuLaunchKernel_ptsz, fill, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL));
}
CASE(twin_copy) { MUST(CALL(cuMemcpyDtoD_v2_ptds, block, block + 8192, 4096)); }
CASE(handle) {
    uint64_t bytes = 4096;
    uint32_t pattern = 1;
    set_parameters(&block, &bytes, &pattern);
    MUST(CALL(cuLaunchKernel, fill, 1, 1, 1, 1, 1, 1, 0, CU_STREAM_PER_THREAD, parameters, NULL));
}
CASE(handle_config) {
    CUlaunchConfig config = {1, 1, 1, 1, 1, 1, 0, CU_STREAM_PER_THREAD, NULL, 0};
    uint64_t bytes = 4096;
    uint32_t pattern = 1;
    set_parameters(&block, &bytes, &pattern);
    MUST(CALL(cuLaunchKernelEx, &config, fill, parameters, NULL));
}
CASE(handle_set) { MUST(CALL(cuMemsetD8Async, block, 1, 4096, CU_STREAM_PER_THREAD)); }
CASE(handle_set_2d) { MUST(CALL(cuMemsetD2D8Async, block, 512, 1, 16, 2, CU_STREAM_PER_THREAD)); }
CASE(handle_copy) { MUST(CALL(cuMemcpyAsync, block, block + 8192, 4096, CU_STREAM_PER_THREAD)); }
CASE(green) {
    CUdevResource whole;
    CUdevResourceDesc resources;
    CUgreenCtx part;
    MUST(CALL(cuDeviceGetDevResource, 0, &whole, CU_DEV_RESOURCE_TYPE_SM));
    MUST(CALL(cuDevResourceGenerateDesc, &resources, &whole, 1));
    MUST(CALL(cuGreenCtxCreate, &part, resources, 0, CU_GREEN_CTX_DEFAULT_STREAM));
}
CASE(many) {
    CUstream stream;
    for (int i = 0; i < 20; i++)
        MUST(CALL(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING));
}

/* No doubt: its calls are seen. */
CASE(linked) { EXPECT(dlopen("libneeds_driver.so", RTLD_NOW) != NULL); }

int main(int count, char **words) {
    int kept = count > 2 && strcmp(words[2], "kept") == 0;
    const struct program_case *doubt = case_named(count > 1 ? words[1] : NULL);
    CUmodule module;
    EXPECT((driver = dlopen("libcuda.so.1", RTLD_NOW)) != NULL);
    MUST(CALL(cuInit, 0));
    MUST(CALL(cuDevicePrimaryCtxRetain, &context, 0));
    MUST(CALL(cuCtxSetCurrent, context));
    MUST(CALL(cuModuleLoadData, &module, "kernels of the simulated driver"));
    MUST(CALL(cuModuleGetFunction, &fill, module, SIMCUDA_KERNEL_FILL));
    MUST(CALL(cuModuleGetFunction, &verify, module, SIMCUDA_KERNEL_CHECK));
    MUST(CALL(cuMemAlloc_v2, &block, SIZE));
    MUST(CALL(cuStreamCreate, &streams[0], CU_STREAM_NON_BLOCKING));
    reuse_is_right(NULL, streams[0]); /* while no blocking stream of the program waits for the default stream */
    MUST(CALL(cuStreamCreate, &streams[1], CU_STREAM_DEFAULT));
    MUST(CALL(cuStreamCreateWithPriority, &streams[2], CU_STREAM_NON_BLOCKING, 0));
    for (int again = 0; again < 2; again++) {
        for (int i = 0; i < 9; i++)
            if (i % 3 != i / 3)
                reuse_is_right(streams[i % 3], streams[i / 3]);
        reuse_is_right(NULL, streams[0]);
        reuse_is_right(streams[0], NULL);
        EXPECT(keeps() == (kept && (!again || doubt->run == none || doubt->run == linked)));
        if (!again)
            doubt->run();
    }
    CALL(cuStreamDestroy_v2, streams[0]);
    reuse_is_right(streams[1], streams[2]);
    printf("ok known_streams %s\n", words[1]);
    return 0;
}
