/* A context with streams and kernels (world.h). */
#include "world.h"

#include <stdlib.h>
#include <string.h>

#include "shim/driver/internal_stream.h"
#include "shim/driver/streams.h"

static void make_current(const struct origin *origin) { cuCtxSetCurrent((CUcontext)(uintptr_t)origin->context); }

void world_open(struct world *world) {
    struct gm_context context;
    CUmodule module;
    memset(world, 0, sizeof *world);
    CU(cuInit(0));
    CU(cuCtxCreate_v2(&world->context, 0, 0));
    assert_true(gm_driver_ready(true));
    gm_context_note_primary(0, world->context);
    if (getenv("WATCH_STREAMS")) {
        gm_streams_observe();
        gm_streams_context(world->context);
    }
    assert_true(gm_context_current(&context));
    world->origin = (struct origin){(uint64_t)(uintptr_t)context.handle, context.id, context.device, make_current};
    CU(cuStreamCreate(&world->one, CU_STREAM_NON_BLOCKING));
    CU(cuStreamCreate(&world->two, CU_STREAM_NON_BLOCKING));
    gm_streams_made(world->one);
    gm_streams_made(world->two);
    CU(cuModuleLoadData(&module, "kernels of the simulated driver"));
    CU(cuModuleGetFunction(&world->fill, module, SIMCUDA_KERNEL_FILL));
    CU(cuModuleGetFunction(&world->check, module, SIMCUDA_KERNEL_CHECK));
    simcuda_reset_counters();
}

void world_close(struct world *world, struct gm_resource *resource) {
    uint64_t id = 0;
    simcuda_set_streams("immediate");
    simcuda_run_all();
    if (resource->properties & GM_PROP_OUTLIVES_CONTEXT)
        gm_stack_trim(resource, SIZE_MAX);
    gm_context_note_primary(0, NULL);
    gm_streams_context_destroyed(world->context);
    CU(cuCtxDestroy_v2(world->context));
    assert_true(gm_context_end(world->context, &id));
    assert_true(id == world->origin.context_id);
    GM_TELL(resource, context_destroyed, id);
    gm_internal_forget(id);
}

static void launch(CUfunction kernel, CUstream stream, const struct gm_block *block, uint32_t pattern) {
    CUdeviceptr address = block->address;
    uint64_t bytes = block->size / 4 * 4;
    void *arguments[] = {&address, &bytes, &pattern};
    CU(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL));
}

void world_fill(const struct world *world, CUstream stream, const struct gm_block *block, uint32_t pattern) {
    launch(world->fill, stream, block, pattern);
}

void world_check(const struct world *world, CUstream stream, const struct gm_block *block, uint32_t pattern) {
    launch(world->check, stream, block, pattern);
}

uint64_t world_differing(const struct world *world, const struct gm_block *block, uint32_t pattern) {
    CU(cuCtxSynchronize());
    uint64_t before = simcuda_check_mismatches();
    world_check(world, world->one, block, pattern);
    CU(cuCtxSynchronize());
    return simcuda_check_mismatches() - before;
}
