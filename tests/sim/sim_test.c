#include "sim_test.h"

CUcontext ctx;
CUmodule module;

int set_up(void **state) {
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxReset(0));
    OK(cuDevicePrimaryCtxRetain(&ctx, 0));
    OK(cuCtxSetCurrent(ctx));
    OK(cuModuleLoadData(&module, "any image"));
    simcuda_reset_counters();
    return 0;
}

int tear_down(void **state) {
    simcuda_set_failures(NULL);
    simcuda_set_hidden(NULL);
    simcuda_set_version(13000);
    simcuda_set_streams("immediate");
    OK(cuModuleUnload(module));
    cuDevicePrimaryCtxRelease(0);
    cuCtxSetCurrent(NULL);
    assert_int_equal(simcuda_used(0), 0);
    return 0;
}

void launch(const char *name, CUdeviceptr p, uint64_t bytes, uint32_t value, CUstream s) {
    CUfunction f;
    void *args[] = {&p, &bytes, &value};
    OK(cuModuleGetFunction(&f, module, name));
    OK(cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, s, args, NULL));
}

CUstream new_stream(void) {
    CUstream s;
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    return s;
}
