/* Contexts, kernels and events of a plan's world. */
#include "perform.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "simcuda.h"

enum { WARM_UPS = 20 };

static void must(CUresult result, const char *what) {
    if (result == CUDA_SUCCESS)
        return;
    fprintf(stderr, "%s: %d\n", what, (int)result);
    _exit(result == CUDA_ERROR_NO_DEVICE || result == CUDA_ERROR_NOT_SUPPORTED ? 77 : 1);
}
#define MUST(call) must(call, #call)

/* ---- kernels on the simulated driver */

static void mix_as_kernel(const struct simcuda_launch *launch) {
    uint32_t *to = launch->touch(*(void **)launch->args[0], BYTES, 1);
    const uint32_t *from = launch->touch(*(void **)launch->args[1], BYTES, 0);
    if (to && from)
        mix_words(to, from, *(uint32_t *)launch->args[2]);
}

static void spin_as_kernel(const struct simcuda_launch *launch) { (void)launch; }

/* As a kernel does: the address is known to nobody else. */
static uint32_t *variable;

static void publish_as_kernel(const struct simcuda_launch *launch) {
    const uint32_t *from = launch->touch(*(void **)launch->args[0], BYTES, 0);
    uint32_t *to = launch->touch(variable, BYTES, 1);
    if (to && from)
        mix_words(to, from, *(uint32_t *)launch->args[1]);
}

static void add_twins(void) {
    __typeof__(&simcuda_register_kernel) add =
        (__typeof__(&simcuda_register_kernel))(uintptr_t)driver_symbol("simcuda_register_kernel");
    if (!add || add("fuzz_mix", "pp4", mix_as_kernel) || add("fuzz_spin", "8", spin_as_kernel) ||
        add("fuzz_publish", "p4", publish_as_kernel)) {
        fprintf(stderr, "not the simulated driver: name the file with the kernels\n");
        _exit(1);
    }
}

static CUresult load(const char *file, const char *text, CUmodule *module, uint32_t variant) {
    char path[4096];
    if (!world.place->kernels)
        return CALL(cuModuleLoadData, module, text);
    snprintf(path, sizeof path, "%s/%s", world.place->kernels, file);
    return CALL(cuModuleLoad, module, path);
}

static CUresult load_variable(uint32_t variant) {
    TRY(load("variable.cubin", "#simcuda\nglobal fuzz_variable 256 managed\n", &world.variable, variant));
    TRY(CALL(cuModuleGetFunction, &world.publish, world.variable, "fuzz_publish"));
    if (world.place->kernels)
        return CUDA_SUCCESS;
    __typeof__(&simcuda_global) global = (__typeof__(&simcuda_global))(uintptr_t)driver_symbol("simcuda_global");
    variable = global(world.variable, "fuzz_variable");
    return CUDA_SUCCESS;
}

static CUresult load_kernels(int context, uint32_t variant) {
    CUmodule *module = &world.modules[context];
    TRY(load("kernels.cubin", "kernels of the simulated driver", module, variant));
    TRY(CALL(cuModuleGetFunction, &world.mix[context], *module, "fuzz_mix"));
    return CALL(cuModuleGetFunction, &world.spin[context], *module, "fuzz_spin");
}

static CUresult new_context(int context, uint32_t variant) {
    if (context == SECOND)
        return CALL(cuCtxCreate_v2, &world.contexts[context], 0, 0);
    TRY(CALL(cuDevicePrimaryCtxRetain, &world.contexts[context], context == OTHER_DEVICE));
    return CALL(cuCtxSetCurrent, world.contexts[context]);
}

static bool is_for_others(int context, int number) { return context == MAIN && number == EVENTS - 1; }

CUresult add_context_to_world(int context, uint32_t variant) {
    TRY(new_context(context, variant));
    TRY(load_kernels(context, variant));
    for (int i = 0; i < EVENTS; i++)
        TRY(CALL(cuEventCreate, &world.events[(context - 1) * EVENTS + 1 + i],
                 is_for_others(context, i) ? CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING : CU_EVENT_DEFAULT));
    if (context == OTHER_DEVICE && variant & 16) {
        CALL(cuCtxEnablePeerAccess, world.contexts[MAIN], 0);
        TRY(CALL(cuCtxSetCurrent, world.contexts[MAIN]));
        CALL(cuCtxEnablePeerAccess, world.contexts[context], 0);
    }
    return CUDA_SUCCESS;
}

void set_up_world(const struct plan *plan, const struct place *place) {
    static const size_t sizes[] = {4096, (size_t)1 << 20, (size_t)24 << 20};
    uint32_t variant = 0;
    world.plan = plan;
    world.place = place;
    setenv("CUDA_MODULE_LOADING", "EAGER", 1); /* no first launch that waits */
    open_doors();
    MUST(CALL(cuInit, 0));
    if (!place->kernels)
        add_twins();
    MUST(add_context_to_world(MAIN, 0));
    if (plan->publishes)
        MUST(load_variable(0));
    MUST(CALL(cuMemAlloc_v2, &world.own, 4096));
    if (plan->closes_gates) { /* not every kind of memory can be waited for */
        CUmemGenericAllocationHandle handle;
        MUST(map_memory(&world.gate, &handle, 0));
        MUST(CALL(cuMemsetD32_v2, world.gate, 0, STEPS));
        MUST(CALL(cuCtxSynchronize));
    }
    /* After this, sizes are known to the policy. */
    for (int i = 0; i < WARM_UPS * 3; i++) {
        CUdeviceptr address;
        MUST(CALL(cuMemAlloc_v2, &address, sizes[i % 3]));
        MUST(CALL(cuMemFree_v2, address));
    }
}
