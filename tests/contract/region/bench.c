/* The common setup of the region tests on the simulated driver (bench.h). */
#include "bench.h"

#include <stdio.h>

struct bench bench;

static size_t reservations, handles, used;
static uint64_t calls_wanted, calls_before;

int bench_open(void **state) {
    CUmodule module;
    CU(cuInit(0));
    CU(cuCtxCreate_v2(&bench.context, 0, 0));
    assert_true(gm_driver_ready(true));
    CU(cuStreamCreate(&bench.stream, CU_STREAM_NON_BLOCKING));
    CU(cuModuleLoadData(&module, "kernels of the simulated driver"));
    CU(cuModuleGetFunction(&bench.fill, module, SIMCUDA_KERNEL_FILL));
    CU(cuModuleGetFunction(&bench.check, module, SIMCUDA_KERNEL_CHECK));
    simcuda_reset_counters();
    reservations = simcuda_live_reservations();
    handles = simcuda_live_handles();
    used = simcuda_used(0);
    return 0;
}

int bench_close(void **state) {
    uint64_t id;
    simcuda_set_failures(NULL);
    assert_int_equal(simcuda_live_reservations(), reservations);
    assert_int_equal(simcuda_live_handles(), handles);
    assert_int_equal(simcuda_used(0), used);
    assert_string_equal(simcuda_last_violation(), "");
    gm_context_end(bench.context, &id);
    CU(cuCtxDestroy_v2(bench.context));
    return 0;
}

static void launch(CUfunction kernel, const void *address, size_t size, uint32_t pattern) {
    uint64_t bytes = size / 4 * 4;
    void *arguments[] = {&address, &bytes, &pattern};
    CU(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, bench.stream, arguments, NULL));
}

void bench_fill(const void *address, size_t size, uint32_t pattern) { launch(bench.fill, address, size, pattern); }
void bench_check(const void *address, size_t size, uint32_t pattern) { launch(bench.check, address, size, pattern); }

uint64_t bench_differing(void) {
    static uint64_t before;
    CU(cuStreamSynchronize(bench.stream));
    uint64_t now = simcuda_check_mismatches(), since = now - (now < before ? 0 : before);
    before = now;
    return since;
}

void bench_fail_call(unsigned n) {
    char script[160];
    calls_wanted = n;
    calls_before = simcuda_calls(NULL);
    snprintf(script, sizeof script, "cu*:%u:2", n);
    assert_int_equal(simcuda_set_failures(script), 0);
}

bool bench_failed(void) {
    simcuda_set_failures(NULL);
    return simcuda_calls(NULL) - calls_before >= calls_wanted;
}
