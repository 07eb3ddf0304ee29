/* Times pairs of driver calls the way the CUDA runtime makes them: through pointers from cuGetProcAddress. Prints one
 * line a measurement: name, calls a sample, nanoseconds a pair as min, median and max over the samples. "deep": from
 * the end of a stack of 20 frames, all of which a trace may record. `startup [BYTES]` times how long the process takes
 * from main to the first allocation done. */
#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef CUresult (*resolver)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);
static resolver resolve;

static void *find(const char *name, int version) {
    void *function = NULL;
    if (resolve(name, &function, version, 0, NULL) != CUDA_SUCCESS || !function) {
        fprintf(stderr, "calls: the driver has no %s\n", name);
        exit(1);
    }
    return function;
}

static void check(CUresult result, const char *what) {
    if (result != CUDA_SUCCESS) {
        fprintf(stderr, "calls: %s gives error %d\n", what, (int)result);
        exit(1);
    }
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static int ascending(const void *a, const void *b) {
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

enum { SAMPLES = 31 };

#define MEASURE(name, calls, body)                                                                             \
    do {                                                                                                       \
        double samples[SAMPLES];                                                                               \
        for (int sample = -2; sample < SAMPLES; sample++) {                                                    \
            double begin = now();                                                                              \
            for (int i = 0; i < (calls); i++) {                                                                \
                body;                                                                                          \
            }                                                                                                  \
            if (sample >= 0)                                                                                   \
                samples[sample] = (now() - begin) / (calls);                                                   \
        }                                                                                                      \
        qsort(samples, SAMPLES, sizeof(*samples), ascending);                                                  \
        printf("%s %d %.1f %.1f %.1f\n", name, calls, samples[0], samples[SAMPLES / 2], samples[SAMPLES - 1]); \
    } while (0)

static CUresult (*alloc_async)(CUdeviceptr *, size_t, CUstream);
static CUresult (*free_async)(CUdeviceptr, CUstream);

__attribute__((noinline)) static void measure_deep(int depth) {
    CUdeviceptr address;
    if (depth)
        measure_deep(depth - 1);
    else
        MEASURE("alloc_async+free_async_deep", 20000, {
            check(alloc_async(&address, 1 << 20, 0), "cuMemAllocAsync");
            check(free_async(address, 0), "cuMemFreeAsync");
        });
    __asm__ volatile("" ::: "memory"); /* no tail call */
}

int main(int argc, char **argv) {
    double begin = now();
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    CUdevice device;
    CUcontext context;
    CUdeviceptr address;

    if (!driver || !(resolve = (resolver)dlsym(driver, "cuGetProcAddress_v2"))) {
        fprintf(stderr, "calls: no CUDA driver\n");
        return 77;
    }
    CUresult (*init)(unsigned) = find("cuInit", 2000);
    CUresult (*device_get)(CUdevice *, int) = find("cuDeviceGet", 2000);
    CUresult (*retain)(CUcontext *, CUdevice) = find("cuDevicePrimaryCtxRetain", 7000);
    CUresult (*set)(CUcontext) = find("cuCtxSetCurrent", 4000);
    CUresult (*alloc)(CUdeviceptr *, size_t) = find("cuMemAlloc", 3020);
    CUresult (*release)(CUdeviceptr) = find("cuMemFree", 3020);
    alloc_async = find("cuMemAllocAsync", 11020);
    free_async = find("cuMemFreeAsync", 11020);
    CUresult (*alloc_managed)(CUdeviceptr *, size_t, unsigned) = find("cuMemAllocManaged", 6000);
    CUresult (*get_attribute)(void *, CUpointer_attribute, CUdeviceptr) = find("cuPointerGetAttribute", 4000);
    CUresult (*synchronize)(void) = find("cuCtxSynchronize", 2000);

    double initialise = now();
    CUresult result = init(0);
    if (result == CUDA_ERROR_NO_DEVICE || result == CUDA_ERROR_SYSTEM_DRIVER_MISMATCH)
        return 77;
    check(result, "cuInit");
    check(device_get(&device, 0), "cuDeviceGet");
    check(retain(&context, device), "cuDevicePrimaryCtxRetain");
    check(set(context), "cuCtxSetCurrent");
    initialise = now() - initialise;
    check(alloc(&address, argc > 2 ? strtoull(argv[2], NULL, 10) : 1 << 20), "cuMemAlloc");
    /* The driver's own initialisation, which is long and varies, is left out. */
    double startup = now() - begin - initialise;
    check(release(address), "cuMemFree");
    if (argc > 1 && strcmp(argv[1], "startup") == 0) {
        printf("startup 1 %.1f %.1f %.1f\n", startup, startup, startup);
        return 0;
    }

    MEASURE("alloc_async+free_async", 20000, {
        check(alloc_async(&address, 1 << 20, 0), "cuMemAllocAsync");
        check(free_async(address, 0), "cuMemFreeAsync");
    });
    measure_deep(20);
    check(synchronize(), "cuCtxSynchronize");
    MEASURE("alloc+free", 200, {
        check(alloc(&address, 1 << 20), "cuMemAlloc");
        check(release(address), "cuMemFree");
    });
    MEASURE("alloc_managed+free", 200, {
        check(alloc_managed(&address, 1 << 20, CU_MEM_ATTACH_GLOBAL), "cuMemAllocManaged");
        check(release(address), "cuMemFree");
    });
    check(alloc(&address, 1 << 20), "cuMemAlloc");
    MEASURE("pointer_attribute", 50000, {
        unsigned type;
        check(get_attribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address), "cuPointerGetAttribute");
    });
    return 0;
}
