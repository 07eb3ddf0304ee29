/* A model of 16 layers on a device that holds 12: each pass uses all layers in their order.
 *
 *     layers               the residency knows nothing of what comes: it evicts each layer before its next use
 *     layers announce      it is told the layers of this pass and the next, and keeps what is used soonest
 *     layers prefetch      as well, and the next layer is on its way while this one works */
#include <cuda.h>
#include <stdio.h>
#include <string.h>

#include "shim/gpumem_residency.h"

enum { LAYERS = 16, BUDGET = 12, PASSES = 20, BYTES = 1 << 20 };

#define OK(call)                                                               \
    do {                                                                       \
        if (call)                                                              \
            return fprintf(stderr, "%s: %s\n", #call, gpumem_last_error()), 1; \
    } while (0)

/* The work of a layer: its weights, copied to `result`. */
static int work(CUdeviceptr result, const struct gpumem_use *layer, CUstream stream) {
    return (int)cuMemcpyDtoDAsync(result, (CUdeviceptr)layer->address, BYTES, stream);
}

int main(int argc, char **argv) {
    const int prefetches = argc > 1 && !strcmp(argv[1], "prefetch"), announces = argc > 1;
    struct gpumem_residency_options options = {.struct_size = sizeof options, .budget = (size_t)BUDGET * BYTES};
    struct gpumem_residency_stats stats = {.struct_size = sizeof stats};
    struct gpumem_residency *layers;
    uint64_t order[2 * LAYERS], waits = 0, before = 0;
    unsigned char *weights, last = 0;
    CUdeviceptr result;
    CUcontext context;
    CUstream stream;
    if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context) ||
        cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) || cuMemAlloc(&result, BYTES) ||
        cuMemHostAlloc((void **)&weights, (size_t)LAYERS * BYTES, 0))
        return fprintf(stderr, "there is no CUDA device\n"), 1;
    OK(gpumem_residency_create(&options, &layers));
    for (int i = 0; i < LAYERS; i++) {
        struct gpumem_object_options layer = {
            .struct_size = sizeof layer, .address = weights + (size_t)i * BYTES, .bytes = BYTES};
        memset(layer.address, i, BYTES);
        OK(gpumem_residency_register(layers, &layer, &order[i]));
        order[i + LAYERS] = order[i];
    }
    for (int pass = 0; pass < PASSES; pass++) {
        if (announces)
            OK(gpumem_residency_announce(layers, order, pass + 1 < PASSES ? 2 * LAYERS : LAYERS));
        for (int i = 0; i < LAYERS; i++) {
            struct gpumem_use use = {order[i], GPUMEM_READ, NULL};
            OK(gpumem_residency_get_stats(layers, &stats));
            before = stats.transfers_to_device;
            OK(gpumem_residency_acquire(layers, &use, 1, stream));
            OK(gpumem_residency_get_stats(layers, &stats));
            waits += stats.transfers_to_device - before; /* the work waits for this transfer */
            if (prefetches)
                OK(gpumem_residency_prefetch(layers, &order[i + 1], pass + 1 < PASSES || i + 1 < LAYERS, NULL));
            OK(work(result, &use, stream));
            OK(gpumem_residency_release(layers, &use, 1, stream, 0));
        }
    }
    OK(cuStreamSynchronize(stream));
    OK(cuMemcpyDtoH(&last, result + BYTES - 1, 1));
    printf("%llu transfers, %llu waits in %d uses, result %s\n", (unsigned long long)stats.transfers_to_device,
           (unsigned long long)waits, LAYERS * PASSES, last == LAYERS - 1 ? "right" : "wrong");
    OK(gpumem_residency_destroy(layers));
    return last != LAYERS - 1;
}
