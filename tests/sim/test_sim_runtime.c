/* The simulated runtime: how it reaches the driver, its own answers, per-thread default streams, versions. */
#include <cuda_runtime_api.h>
#include <pthread.h>

#include "tests/test.h"

#include "simcuda.h"

#define OK(call) assert_int_equal((call), cudaSuccess)

extern cudaError_t cudaMemsetAsync_ptsz(void *p, int value, size_t n, cudaStream_t s);
extern cudaError_t cudaStreamSynchronize_ptsz(cudaStream_t s);

TEST(one_entry_then_look_ups) {
    void *p;
    assert_int_equal(simcuda_calls(NULL), 0);
    OK(cudaFree(NULL));
    assert_true(simcuda_calls("cuGetProcAddress_v2") > 100);
    assert_int_equal(simcuda_calls("cuInit"), 1);
    assert_int_equal(simcuda_calls("cuDevicePrimaryCtxRetain"), 1);
    uint64_t before = simcuda_calls("cuGetProcAddress_v2");
    OK(cudaMalloc(&p, 100));
    OK(cudaFree(p));
    assert_int_equal(simcuda_calls("cuMemAlloc_v2"), 1);
    assert_int_equal(simcuda_calls("cuMemFree_v2"), 1);
    assert_int_equal(simcuda_calls("cuGetProcAddress_v2"), before);
}

TEST(own_answers) {
    void *p = &p;
    int version;
    OK(cudaMalloc(&p, 0));
    assert_null(p);
    assert_int_equal(cudaMalloc(&p, (size_t)1 << 45), cudaErrorMemoryAllocation);
    assert_int_equal(cudaPeekAtLastError(), cudaErrorMemoryAllocation);
    assert_int_equal(cudaGetLastError(), cudaErrorMemoryAllocation);
    OK(cudaGetLastError());
    assert_string_equal(cudaGetErrorName(cudaErrorMemoryAllocation), "cudaErrorMemoryAllocation");
    OK(cudaRuntimeGetVersion(&version));
    assert_int_equal(version, CUDART_VERSION);
    OK(cudaDriverGetVersion(&version));
    assert_int_equal(version, 13000);
    assert_int_equal(cudaSetDevice(7), cudaErrorInvalidDevice);
    cudaGetLastError();
}

TEST(pitched_copies) {
    unsigned char in[8][10], out[8][10];
    size_t pitch;
    void *p;
    for (unsigned i = 0; i < sizeof in; i++)
        ((unsigned char *)in)[i] = (unsigned char)(i * 7);
    OK(cudaMallocPitch(&p, &pitch, 10, 8));
    assert_true(pitch >= 10 && pitch % 256 == 0);
    OK(cudaMemcpy2D(p, pitch, in, 10, 10, 8, cudaMemcpyHostToDevice));
    OK(cudaMemcpy2D(out, 10, p, pitch, 10, 8, cudaMemcpyDeviceToHost));
    assert_memory_equal(in, out, sizeof in);
    struct cudaChannelFormatDesc desc = cudaCreateChannelDesc(8, 0, 0, 0, cudaChannelFormatKindUnsigned);
    cudaArray_t array;
    OK(cudaMallocArray(&array, &desc, 10, 8, 0));
    OK(cudaMemcpy2DToArray(array, 0, 0, p, pitch, 10, 8, cudaMemcpyDeviceToDevice));
    memset(out, 0, sizeof out);
    OK(cudaMemcpy2DFromArray(out, 10, array, 0, 0, 10, 8, cudaMemcpyDeviceToHost));
    assert_memory_equal(in, out, sizeof in);
    OK(cudaFreeArray(array));
    OK(cudaFree(p));
}

static void *other_thread(void *p) {
    /* Its default stream is empty: nothing here waits for the main thread's. */
    int pending = simcuda_pending();
    cudaError_t e = cudaStreamSynchronize_ptsz(0);
    return (void *)(intptr_t)(e == cudaSuccess && simcuda_pending() == pending && pending > 0 && p != NULL);
}

TEST(per_thread_streams) {
    void *p, *good;
    pthread_t t;
    OK(cudaMalloc(&p, 4096));
    OK(cudaDeviceSynchronize());
    simcuda_set_streams("manual");
    OK(cudaMemsetAsync_ptsz(p, 1, 4096, 0));
    assert_int_equal(simcuda_calls("cuMemsetD8Async_ptsz"), 1);
    pthread_create(&t, NULL, other_thread, p);
    pthread_join(t, &good);
    assert_non_null(good);
    OK(cudaStreamSynchronize_ptsz(0));
    assert_int_equal(simcuda_pending(), 0);
    simcuda_set_streams("immediate");
    OK(cudaFree(p));
}

TEST(entry_points) {
    enum cudaDriverEntryPointQueryResult found;
    void *fn;
    OK(cudaGetDriverEntryPointByVersion("cuMemAlloc", &fn, 12000, cudaEnableDefault, &found));
    assert_int_equal(found, cudaDriverEntryPointSuccess);
    assert_non_null(fn);
    OK(cudaGetDriverEntryPointByVersion("cuNothing", &fn, 12000, cudaEnableDefault, &found));
    assert_int_equal(found, cudaDriverEntryPointSymbolNotFound);
}

TEST(reset_frees) {
    size_t free, total;
    void *p;
    OK(cudaMalloc(&p, 64 << 20));
    OK(cudaDeviceReset());
    OK(cudaMemGetInfo(&free, &total));
    assert_int_equal(free, total);
    assert_int_equal(cudaFree(p), cudaErrorInvalidValue);
    cudaGetLastError();
}

int main(void) { return run_all(NULL, NULL); }
