/* Times of the calls by which the platform allocator of JAX makes and frees each array: cuMemCreate,
 * cuMemAddressReserve, cuMemMap, cuMemSetAccess, cuMemUnmap, cuMemRelease, cuMemAddressFree. Natively and under a
 * policy.
 *
 * usage: mapped [REPETITIONS]   prints "row repetitions min median max", times in nanoseconds of a whole sequence */
#include <cuda.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { HELD = 16 };

struct buffer {
    CUdeviceptr address;
    CUmemGenericAllocationHandle handle;
    size_t size;
};

static void must(CUresult result, const char *text) {
    if (result == CUDA_SUCCESS)
        return;
    fprintf(stderr, "%s: error %d\n", text, (int)result);
    exit(1);
}
#define MUST(call) must(call, #call)

static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static struct buffer make(size_t size) {
    CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUmemAccessDesc access = {.location = properties.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    struct buffer buffer = {.size = size};
    MUST(cuMemCreate(&buffer.handle, size, &properties, 0));
    MUST(cuMemAddressReserve(&buffer.address, size, 0, 0, 0));
    MUST(cuMemMap(buffer.address, size, 0, buffer.handle, 0));
    MUST(cuMemSetAccess(buffer.address, size, &access, 1));
    return buffer;
}

static void drop(const struct buffer *buffer) {
    MUST(cuMemUnmap(buffer->address, buffer->size));
    MUST(cuMemRelease(buffer->handle));
    MUST(cuMemAddressFree(buffer->address, buffer->size));
}

static int by_value(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void row(const char *name, uint64_t *times, int count) {
    qsort(times, (size_t)count, sizeof *times, by_value);
    printf("%s %d %llu %llu %llu\n", name, count, (unsigned long long)times[0], (unsigned long long)times[count / 2],
           (unsigned long long)times[count - 1]);
}

/* One buffer at a time; or `held` at once, filled by the device, freed when it is done. */
static void run(const char *name, size_t size, int held, int repetitions, uint64_t *times) {
    struct buffer buffers[HELD];
    for (int i = 0; i < repetitions; i++) {
        uint64_t begin = now(), spent = 0;
        for (int k = 0; k < held; k++)
            buffers[k] = make(size);
        spent += now() - begin;
        for (int k = 0; k < held; k++)
            MUST(cuMemsetD8Async(buffers[k].address, (unsigned char)i, size, NULL));
        MUST(cuStreamSynchronize(NULL));
        begin = now();
        for (int k = 0; k < held; k++)
            drop(&buffers[k]);
        times[i] = (spent + now() - begin) / (uint64_t)held;
    }
    row(name, times, repetitions);
}

int main(int count, char **arguments) {
    int repetitions = count > 1 ? atoi(arguments[1]) : 1000;
    CUcontext context;
    if (repetitions < 1) {
        fprintf(stderr, "\"%s\" is no number of repetitions; accepted: 1 and more\n", arguments[1]);
        return 2;
    }
    uint64_t *times = malloc((size_t)repetitions * sizeof *times);
    if (!times)
        return 1;
    MUST(cuInit(0));
    MUST(cuDevicePrimaryCtxRetain(&context, 0));
    MUST(cuCtxSetCurrent(context));
    run("mapped-2MiB", (size_t)2 << 20, 1, repetitions, times);
    run("mapped-16x2MiB", (size_t)2 << 20, HELD, repetitions, times);
    run("mapped-64MiB", (size_t)64 << 20, 1, repetitions, times);
    free(times);
    return 0;
}
