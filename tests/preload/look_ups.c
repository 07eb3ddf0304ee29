/* Threads that look up the same functions of the driver, and call them, at the same moment. Argument "ending": some of
 * them go on while the process ends. */
#include <cuda.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>

#include "program.h"

enum { THREADS = 8, SIZE = 1 << 16 };

static void *driver;
static pthread_barrier_t all_there;

#define D(name) ((__typeof__(&name))dlsym(driver, #name))

static void copy(CUcontext context) {
    unsigned char bytes[64] = {7}, back[64] = {0};
    CUdeviceptr from, to;
    CUevent event;
    CUstream stream;
    MUST(D(cuCtxSetCurrent)(context));
    MUST(D(cuMemAlloc_v2)(&from, SIZE));
    MUST(D(cuMemAlloc_v2)(&to, SIZE));
    MUST(D(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
    MUST(D(cuEventCreate)(&event, 0));
    MUST(D(cuMemcpyHtoD_v2)(from, bytes, sizeof bytes));
    MUST(D(cuMemcpyDtoDAsync_v2)(to, from, sizeof bytes, stream));
    MUST(D(cuEventRecord)(event, stream));
    MUST(D(cuStreamSynchronize)(stream));
    EXPECT(D(cuEventQuery)(event) == CUDA_SUCCESS);
    EXPECT(D(cuStreamQuery)(stream) == CUDA_SUCCESS);
    MUST(D(cuMemcpyDtoH_v2)(back, to, sizeof back));
    EXPECT(!memcmp(bytes, back, sizeof back));
    MUST(D(cuEventDestroy_v2)(event));
    MUST(D(cuStreamDestroy_v2)(stream));
    MUST(D(cuMemFree_v2)(to));
    MUST(D(cuMemFree_v2)(from));
}

static void *use(void *forever) {
    CUcontext context;
    pthread_barrier_wait(&all_there);
    MUST(D(cuInit)(0));
    MUST(D(cuDevicePrimaryCtxRetain)(&context, 0));
    do
        copy(context);
    while (forever);
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t threads[THREADS];
    bool ending = argc > 1 && !strcmp(argv[1], "ending");
    EXPECT((driver = dlopen("libcuda.so.1", RTLD_NOW)));
    EXPECT(D(cuDevicePrimaryCtxRetain)); /* gpumem starts here */
    pthread_barrier_init(&all_there, NULL, THREADS);
    for (int i = 0; i < THREADS; i++)
        EXPECT(pthread_create(&threads[i], NULL, use, ending && i ? &all_there : NULL) == 0);
    for (int i = 0; i < (ending ? 1 : THREADS); i++)
        pthread_join(threads[i], NULL);
    printf("ok look_ups\n");
    return 0;
}
