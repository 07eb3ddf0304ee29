/* Threads in the simulated CUDA. A call gives its lock away while a kernel or a host function runs, so that another
 * thread may come between two of its steps. ThreadSanitizer and AddressSanitizer read along (tests/sanitize). */
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <unistd.h>

#include "sim_test.h"

enum { ROUNDS = 2000 };

/* ---- another thread in the middle of a call on a pool: it is let in by a host function, which that call runs */

static struct {
    CUmemoryPool pool;
    CUstream stream;
    CUdeviceptr got;
    CUresult result;
    int entered, left;
} guest;

static void let_in(void *unused) {
    __atomic_store_n(&guest.entered, 1, __ATOMIC_RELEASE);
    for (int ms = 0; ms < 10000 && !__atomic_load_n(&guest.left, __ATOMIC_ACQUIRE); ms++)
        usleep(1000);
}

static void await_entry(void) {
    while (!__atomic_load_n(&guest.entered, __ATOMIC_ACQUIRE))
        usleep(100);
    cuCtxSetCurrent(ctx);
}

static void *allocate(void *unused) {
    await_entry();
    guest.result = cuMemAllocFromPoolAsync(&guest.got, 2 * MIB, guest.pool, guest.stream);
    __atomic_store_n(&guest.left, 1, __ATOMIC_RELEASE);
    return unused;
}

static void *trim(void *unused) {
    await_entry();
    guest.result = cuMemPoolTrimTo(guest.pool, 0);
    __atomic_store_n(&guest.left, 1, __ATOMIC_RELEASE);
    return unused;
}

/* A pool with room for one block, which is allocated in `stream`, and the thread of the guest. */
static CUdeviceptr open_pool(void *(*visit)(void *), CUstream stream, pthread_t *thread) {
    const CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                  .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
                                  .maxSize = 2 * MIB};
    cuuint64_t keep = UINT64_MAX;
    CUdeviceptr block;
    guest.entered = guest.left = 0;
    guest.stream = new_stream();
    OK(cuMemPoolCreate(&guest.pool, &props));
    OK(cuMemPoolSetAttribute(guest.pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
    OK(cuMemAllocFromPoolAsync(&block, 2 * MIB, guest.pool, stream));
    assert_int_equal(pthread_create(thread, NULL, visit, NULL), 0);
    return block;
}

/* The next call that submits work runs the host function, once the flag is set. */
static uint32_t *invite(void) {
    CUstream stream = new_stream();
    void *flags;
    OK(cuMemHostAlloc(&flags, 4096, 0));
    OK(cuStreamWaitValue32(stream, (CUdeviceptr)(uintptr_t)flags, 1, CU_STREAM_WAIT_VALUE_GEQ));
    OK(cuLaunchHostFunc(stream, let_in, NULL));
    return flags;
}

static void set(uint32_t *flag) { __atomic_store_n(flag, 1, __ATOMIC_RELEASE); }

SIM_TEST(one_block_for_one_of_two_threads) {
    pthread_t thread;
    CUdeviceptr block, again;
    CUstream one = new_stream(), two = new_stream();
    uint32_t *busy;
    OK(cuMemHostAlloc((void **)&busy, 4096, 0));
    block = open_pool(allocate, one, &thread);
    OK(cuStreamWaitValue32(one, (CUdeviceptr)(uintptr_t)busy, 1, CU_STREAM_WAIT_VALUE_GEQ));
    OK(cuMemFreeAsync(block, one)); /* it can be had again, behind a wait */
    uint32_t *flag = invite();
    set(flag);
    OK(cuMemAllocFromPoolAsync(&again, 2 * MIB, guest.pool, two));
    pthread_join(thread, NULL);
    assert_int_equal(guest.result, CUDA_ERROR_OUT_OF_MEMORY);
    set(busy);
    OK(cuMemFreeAsync(again, two));
    OK(cuCtxSynchronize());
    OK(cuMemPoolDestroy(guest.pool));
    OK(cuMemFreeHost(flag));
    OK(cuMemFreeHost(busy));
}

SIM_TEST(a_pool_is_trimmed_during_a_free) {
    pthread_t thread;
    CUstream one = new_stream();
    CUdeviceptr block = open_pool(trim, one, &thread);
    uint32_t *flag = invite();
    cuuint64_t reserved = 1;
    set(flag);
    OK(cuMemFreeAsync(block, one));
    pthread_join(thread, NULL);
    OK(guest.result);
    OK(cuMemPoolTrimTo(guest.pool, 0));
    OK(cuMemPoolGetAttribute(guest.pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved));
    assert_int_equal(reserved, 0);
    OK(cuMemPoolDestroy(guest.pool));
    OK(cuMemFreeHost(flag));
}

/* ---- questions and registrations while others work */

static int over;

static void twin(const struct simcuda_launch *l) { (void)l; }

static void *ask(void *unused) {
    uint64_t sum = 0;
    while (!__atomic_load_n(&over, __ATOMIC_RELAXED)) {
        sum += simcuda_violations() + simcuda_used(0) + simcuda_peak(0) + simcuda_check_runs();
        simcuda_set_peers("all");
        simcuda_set_version(13000);
        simcuda_register_kernel("replaced", "p84", twin);
    }
    return sum ? unused : &over;
}

SIM_TEST(questions_beside_work) {
    pthread_t thread;
    CUdeviceptr p;
    CUstream s = new_stream();
    over = 0;
    assert_int_equal(simcuda_register_kernel("replaced", "p84", twin), 0);
    OK(cuMemAlloc(&p, MIB));
    assert_int_equal(pthread_create(&thread, NULL, ask, NULL), 0);
    for (int i = 0; i < ROUNDS; i++) {
        launch("replaced", p, 4096, 1, s);
        launch(SIMCUDA_KERNEL_CHECK, p, 4, 1, s);
    }
    simcuda_set_streams("manual");
    launch(SIMCUDA_KERNEL_FILL, p, 4096, 1, s);
    for (int i = 0; i < ROUNDS; i++)
        assert_int_equal(simcuda_declare_alloc(p, 4096, SIMCUDA_ANY_STREAM), 1);
    simcuda_reset_counters();
    __atomic_store_n(&over, 1, __ATOMIC_RELAXED);
    pthread_join(thread, NULL);
    OK(cuMemFree(p));
}

extern void **__cudaRegisterFatBinary(void *);
extern void __cudaUnregisterFatBinary(void **);
extern void __cudaRegisterFunction(void **, const char *, char *, const char *, int, void *, void *, void *, void *,
                                   int *);
extern void __cudaRegisterVar(void **, char *, char *, const char *, int, size_t, int, int);

static void *search(void *unused) {
    cudaFunction_t function;
    while (!__atomic_load_n(&over, __ATOMIC_RELAXED)) {
        cudaGetFuncBySymbol(&function, &over);
        cudaGetSymbolSize(&(size_t){0}, &over);
    }
    return unused;
}

/* A library with kernels is opened while another thread launches. */
SIM_TEST(kernels_are_registered_beside_launches) {
    pthread_t thread;
    over = 0;
    assert_int_equal(cudaFree(NULL), cudaSuccess);
    void **opened = __cudaRegisterFatBinary(NULL);
    assert_int_equal(pthread_create(&thread, NULL, search, NULL), 0);
    for (int i = 0; i < ROUNDS; i++) {
        __cudaRegisterFunction(opened, (const char *)&guest + i % 8, NULL, "kernel", -1, NULL, NULL, NULL, NULL, NULL);
        __cudaRegisterVar(opened, (char *)&guest, NULL, "variable", 0, 4, 0, 0);
    }
    __atomic_store_n(&over, 1, __ATOMIC_RELAXED);
    pthread_join(thread, NULL);
    __cudaUnregisterFatBinary(opened);
    OK(cuCtxSetCurrent(ctx));
    OK(cuDevicePrimaryCtxRelease(0)); /* of cudaFree */
}

int main(void) { return run_all(NULL, NULL); }
