/* The driver interface without linking: dlopen, then dlsym of suffixed names as cuFFT does, then versioned look-ups
 * as the runtime does. Both return working functions. */
#include <cuda.h>
#include <dlfcn.h>

#include "program.h"

#undef cuGetProcAddress

static void *find(void *driver, const char *name) {
    void *function = dlsym(driver, name);
    EXPECT(function != NULL);
    return function;
}

typedef CUresult look_up(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);

static void *find_version(void *driver, const char *name, int version) {
    look_up *resolve = (look_up *)find(driver, "cuGetProcAddress_v2");
    void *function = NULL;
    MUST(resolve(name, &function, version, CU_GET_PROC_ADDRESS_DEFAULT, NULL));
    EXPECT(function != NULL);
    return function;
}

static void use(CUresult (*alloc)(CUdeviceptr *, size_t), CUresult (*set)(CUdeviceptr, unsigned char, size_t),
                CUresult (*copy)(void *, CUdeviceptr, size_t), CUresult (*release)(CUdeviceptr)) {
    enum { SIZE = 300000 };
    static unsigned char host[SIZE];
    CUdeviceptr memory = 0;
    MUST(alloc(&memory, SIZE));
    note_alloc("cuMemAlloc", SIZE, (void *)memory);
    MUST(set(memory, 0x77, SIZE));
    MUST(copy(host, memory, SIZE));
    EXPECT(all_bytes_are(host, 0x77, SIZE));
    note_free("cuMemFree", (void *)memory);
    MUST(release(memory));
}

int main(void) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    EXPECT(driver != NULL);
    CUcontext context;
    MUST(((CUresult(*)(unsigned int))find(driver, "cuInit"))(0));
    MUST(((CUresult(*)(CUcontext *, CUdevice))find(driver, "cuDevicePrimaryCtxRetain"))(&context, 0));
    MUST(((CUresult(*)(CUcontext))find(driver, "cuCtxSetCurrent"))(context));
    use((CUresult(*)(CUdeviceptr *, size_t))find(driver, "cuMemAlloc_v2"),
        (CUresult(*)(CUdeviceptr, unsigned char, size_t))find(driver, "cuMemsetD8_v2"),
        (CUresult(*)(void *, CUdeviceptr, size_t))find(driver, "cuMemcpyDtoH_v2"),
        (CUresult(*)(CUdeviceptr))find(driver, "cuMemFree_v2"));
    use((CUresult(*)(CUdeviceptr *, size_t))find_version(driver, "cuMemAlloc", 3020),
        (CUresult(*)(CUdeviceptr, unsigned char, size_t))find_version(driver, "cuMemsetD8", 3020),
        (CUresult(*)(void *, CUdeviceptr, size_t))find_version(driver, "cuMemcpyDtoH", 3020),
        (CUresult(*)(CUdeviceptr))find_version(driver, "cuMemFree", 3020));
    printf("ok driver_dlopened 2 blocks\n");
    return 0;
}
