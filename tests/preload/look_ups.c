/* Threads that look up the same functions of the driver, and call them, at the same moment. Argument "ending": some of
 * them go on while the process ends. */
#include <cuda.h>
#include <pthread.h>
#include <stdbool.h>

#include "by_name.h"

enum { THREADS = 8, SIZE = 1 << 16 };

static pthread_barrier_t all_there;

static void copy(CUcontext context) {
    unsigned char bytes[64] = {7}, back[64] = {0};
    CUdeviceptr from, to;
    CUevent event;
    CUstream stream;
    MUST(CALL(cuCtxSetCurrent, context));
    MUST(CALL(cuMemAlloc_v2, &from, SIZE));
    MUST(CALL(cuMemAlloc_v2, &to, SIZE));
    MUST(CALL(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING));
    MUST(CALL(cuEventCreate, &event, 0));
    MUST(CALL(cuMemcpyHtoD_v2, from, bytes, sizeof bytes));
    MUST(CALL(cuMemcpyDtoDAsync_v2, to, from, sizeof bytes, stream));
    MUST(CALL(cuEventRecord, event, stream));
    MUST(CALL(cuStreamSynchronize, stream));
    EXPECT(CALL(cuEventQuery, event) == CUDA_SUCCESS);
    EXPECT(CALL(cuStreamQuery, stream) == CUDA_SUCCESS);
    MUST(CALL(cuMemcpyDtoH_v2, back, to, sizeof back));
    EXPECT(!memcmp(bytes, back, sizeof back));
    MUST(CALL(cuEventDestroy_v2, event));
    MUST(CALL(cuStreamDestroy_v2, stream));
    MUST(CALL(cuMemFree_v2, to));
    MUST(CALL(cuMemFree_v2, from));
}

static void *use(void *forever) {
    CUcontext context;
    pthread_barrier_wait(&all_there);
    MUST(CALL(cuInit, 0));
    MUST(CALL(cuDevicePrimaryCtxRetain, &context, 0));
    do
        copy(context);
    while (forever);
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t threads[THREADS];
    bool ending = argc > 1 && !strcmp(argv[1], "ending");
    EXPECT((driver = dlopen("libcuda.so.1", RTLD_NOW)));
    EXPECT(dlsym(driver, "cuDevicePrimaryCtxRetain")); /* gpumem starts here */
    pthread_barrier_init(&all_there, NULL, THREADS);
    for (int i = 0; i < THREADS; i++)
        EXPECT(pthread_create(&threads[i], NULL, use, ending && i ? &all_there : NULL) == 0);
    for (int i = 0; i < (ending ? 1 : THREADS); i++)
        pthread_join(threads[i], NULL);
    printf("ok look_ups\n");
    return 0;
}
