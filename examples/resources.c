/* Resources of memory: a function asks for what it needs of memory, its caller chooses the memory.
 *
 *     resources                                        the default: async with what the adaptors add
 *     resources "track(fallback(async,host-numa))"     any other composition; libgpumem(7) lists the names */
#include <cuda.h>
#include <stdio.h>

#include "shim/gpumem_resource.h"

enum { BLOCKS = 100, BYTES = 1 << 20 };

static int failed(const char *what) {
    fprintf(stderr, "%s: %s\n", what, gpumem_last_error());
    return 1;
}

/* Works with memory of every kind that the device can access. */
static int use_on_device(struct gpumem_resource *resource, CUstream stream) {
    struct gpumem_resource_view view;
    void *memory;
    if (gpumem_resource_view_of(resource, GPUMEM_DEVICE_ACCESSIBLE | GPUMEM_STREAM_ORDERED, &view))
        return failed("the resource does not fit");
    for (int i = 0; i < BLOCKS; i++) {
        if (gpumem_resource_allocate_async(view.resource, BYTES, gpumem_stream(stream), &memory))
            return failed("allocation");
        if (cuMemsetD8Async((CUdeviceptr)memory, (unsigned char)i, BYTES, stream))
            return fprintf(stderr, "cuMemsetD8Async\n"), 1;
        if (gpumem_resource_deallocate_async(view.resource, memory, BYTES, gpumem_stream(stream)))
            return failed("free");
    }
    return 0;
}

static int report(const struct gpumem_resource *resource) {
    struct gpumem_statistics counts = {.struct_size = sizeof counts};
    printf("%s\n", gpumem_resource_text(resource));
    if (gpumem_resource_get_statistics(resource, &counts) == GPUMEM_OK)
        printf("%llu allocations, %llu bytes at most at one time\n", (unsigned long long)counts.allocations,
               (unsigned long long)counts.peak_bytes);
    return 0;
}

int main(int argc, char **argv) {
    struct gpumem_resource *memory, *resource;
    CUcontext context;
    CUstream stream;
    CUdevice device;
    if (cuInit(0) || cuDeviceGet(&device, 0) || cuDevicePrimaryCtxRetain(&context, device) ||
        cuCtxSetCurrent(context) || cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING))
        return fprintf(stderr, "there is no CUDA device\n"), 1;
    if (gpumem_resource_create(argc > 1 ? argv[1] : "limit(2GiB,async)", &memory))
        return failed("the text");
    if (gpumem_resource_compose("statistics($1)", &memory, 1, &resource))
        return failed("composition");
    int status = use_on_device(resource, stream) || report(resource);
    cuStreamSynchronize(stream);
    if (gpumem_resource_destroy(resource) || gpumem_resource_destroy(memory))
        return failed("destruction");
    cuStreamDestroy(stream);
    cuDevicePrimaryCtxRelease(device);
    return status;
}
