/* Programs that rely on the wait of a cudaFree, and others that do not, for GPUMEM_CHECK_ORDER: check_order CASE.
 * With SIMCUDA_STREAMS=manual, work never begins unless something waits for it, so each free finds its work in
 * flight. The program relies on the free in guilty_free and not on the free in innocent_free. LINKED: it calls the
 * driver for its copies, by the names that the linker bound. */
#ifdef LINKED
#include <cuda.h>
#endif
#include <cuda_runtime_api.h>
#include <pthread.h>

#include "cases.h"

enum { ROUNDS = 3, BYTES = 1 << 16 };

static cudaStream_t one, two;
static unsigned char *table, *result, *pinned;
static cudaEvent_t event;

#define APART __attribute__((noinline))

/* The free is not the last call of the function: a tail call would leave no frame. */
APART static void guilty_free(void *memory) {
    MUST(cudaFree(memory));
    __asm__ volatile("");
}

APART static void innocent_free(void *memory) {
    MUST(cudaFree(memory));
    __asm__ volatile("");
}

static void copy(unsigned char *to, const void *from, cudaStream_t stream) {
#ifdef LINKED
    MUST(cudaFree(NULL)); /* the thread has a context */
    MUST(cuMemcpyDtoDAsync((CUdeviceptr)(uintptr_t)to, (CUdeviceptr)(uintptr_t)from, BYTES, stream));
#else
    MUST(cudaMemcpyAsync(to, from, BYTES, cudaMemcpyDeviceToDevice, stream));
#endif
}

/* Scratch memory whose free finds the stream busy with the table. */
static void *compute(cudaStream_t stream) {
    void *scratch = device_alloc(1 << 20);
    MUST(cudaMemsetAsync(scratch, 1, BYTES, stream));
    copy(table, scratch, stream);
    return scratch;
}

static void use(cudaStream_t stream) { copy(result, table, stream); }

static void end_round(void) { MUST(cudaDeviceSynchronize()); }

/* ---- another stream */

CASE(by_stream) {
    guilty_free(compute(one));
    use(two);
    end_round();
}

CASE(by_default) {
    guilty_free(compute(one));
    MUST(cudaMemset(table, 2, BYTES));
    end_round();
}

CASE(by_event_of_earlier_work) {
    MUST(cudaEventRecord(event, one));
    guilty_free(compute(one));
    MUST(cudaStreamWaitEvent(two, event, 0));
    use(two);
    end_round();
}

CASE(by_free_async) {
    void *pooled;
    MUST(cudaMallocAsync(&pooled, BYTES, one));
    guilty_free(compute(one));
    MUST(cudaFreeAsync(pooled, two));
    end_round();
}

CASE(of_destroyed) {
    cudaStream_t late;
    MUST(cudaStreamCreateWithFlags(&late, cudaStreamNonBlocking));
    void *scratch = compute(late);
    MUST(cudaStreamDestroy(late));
    guilty_free(scratch);
    use(two);
    end_round();
}

CASE(two_sites) {
    innocent_free(compute(one));
    MUST(cudaStreamSynchronize(one));
    use(two);
    end_round();
    guilty_free(compute(one));
    use(two);
    end_round();
    innocent_free(compute(one));
    use(one);
    end_round();
}

/* ---- threads with a stream each */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int ready, synchronises;

static void *needs_table(void *unused) {
    pthread_mutex_lock(&lock);
    int computes = !ready;
    if (computes) {
        void *scratch = compute(cudaStreamPerThread);
        if (synchronises)
            MUST(cudaStreamSynchronize(cudaStreamPerThread));
        guilty_free(scratch);
    }
    ready = 1;
    pthread_mutex_unlock(&lock);
    use(cudaStreamPerThread);
    if (!computes) /* the computing thread leaves the work running */
        MUST(cudaStreamSynchronize(cudaStreamPerThread));
    return unused;
}

CASE(by_thread) {
    pthread_t threads[4];
    ready = 0;
    for (int i = 0; i < 4; i++)
        EXPECT(pthread_create(&threads[i], NULL, needs_table, NULL) == 0);
    for (int i = 0; i < 4; i++)
        EXPECT(pthread_join(threads[i], NULL) == 0);
    end_round();
}

CASE(threads_that_synchronise) {
    synchronises = 1;
    by_thread();
}

/* ---- the host */

static void *copy_down(unsigned char *to) {
    void *scratch = compute(one);
    MUST(cudaMemcpyAsync(to, table, BYTES, cudaMemcpyDeviceToHost, one));
    return scratch;
}

CASE(by_host) {
    guilty_free(copy_down(pinned));
    EXPECT(all_bytes_are(pinned, 1, BYTES));
    use(one);
    end_round();
}

/* Nothing follows the last round. */
CASE(by_host_at_end) {
    guilty_free(copy_down(pinned));
    EXPECT(all_bytes_are(pinned, 1, BYTES));
}

CASE(by_host_in_rows) {
    void *scratch = compute(one);
    MUST(cudaMemcpy2DAsync(pinned, 256, table, 256, 256, BYTES / 256, cudaMemcpyDeviceToHost, one));
    guilty_free(scratch);
    EXPECT(all_bytes_are(pinned, 1, BYTES));
    use(one);
    end_round();
}

static int called;

static void call(void *unused) { __atomic_add_fetch(&called, 1, __ATOMIC_RELEASE); }

CASE(by_host_function) {
    int before = called;
    void *scratch = compute(one);
    MUST(cudaLaunchHostFunc(one, call, NULL));
    guilty_free(scratch);
    EXPECT(__atomic_load_n(&called, __ATOMIC_ACQUIRE) == before + 1);
    use(one);
    end_round();
}

/* ---- programs that do not rely on a free */

CASE(with_event) {
    void *scratch = compute(one);
    MUST(cudaEventRecord(event, one));
    guilty_free(scratch);
    MUST(cudaStreamWaitEvent(two, event, 0));
    use(two);
    end_round();
}

CASE(with_stream_synchronised) {
    guilty_free(copy_down(pinned));
    MUST(cudaStreamSynchronize(one));
    use(two);
    use(one);
    end_round();
}

CASE(with_device_synchronised) {
    guilty_free(copy_down(pinned));
    MUST(cudaDeviceSynchronize());
    use(two);
    use(one);
    end_round();
}

CASE(with_event_synchronised) {
    void *scratch = copy_down(pinned);
    MUST(cudaEventRecord(event, one));
    guilty_free(scratch);
    MUST(cudaEventSynchronize(event));
    use(two);
    use(one);
    end_round();
}

CASE(with_questions) {
    void *scratch = copy_down(pinned);
    MUST(cudaEventRecord(event, one));
    guilty_free(scratch);
    while (cudaEventQuery(event) != cudaSuccess)
        ;
    use(two);
    end_round();
    guilty_free(copy_down(pinned));
    while (cudaStreamQuery(one) != cudaSuccess)
        ;
    use(two);
    use(one);
    end_round();
}

CASE(with_copy) {
    static unsigned char read_back[BYTES];
    guilty_free(compute(0));
    MUST(cudaMemcpy(read_back, table, BYTES, cudaMemcpyDeviceToHost));
    use(two);
    end_round();
}

CASE(with_pageable_copy) {
    static unsigned char read_back[BYTES];
    guilty_free(copy_down(read_back));
    use(one);
    end_round();
}

CASE(one_stream) {
    guilty_free(compute(one));
    use(one);
    guilty_free(compute(one));
    use(one);
    end_round();
}

CASE(default_stream) {
    guilty_free(compute(0));
    MUST(cudaMemset(table, 2, BYTES));
    use(0);
    end_round();
}

/* These streams wait for the default stream, and it waits for them. */
CASE(blocking_streams) {
    cudaStream_t first, second;
    MUST(cudaStreamCreate(&first));
    MUST(cudaStreamCreate(&second));
    guilty_free(compute(first));
    use(0);
    use(second);
    end_round();
    MUST(cudaStreamDestroy(first));
    MUST(cudaStreamDestroy(second));
}

CASE(idle) {
    void *scratch = copy_down(pinned);
    MUST(cudaDeviceSynchronize());
    guilty_free(scratch);
    use(two);
    use(one);
    end_round();
}

CASE(captured) {
    cudaGraph_t graph;
    MUST(cudaStreamBeginCapture(two, cudaStreamCaptureModeRelaxed));
    void *scratch = compute(one);
    guilty_free(scratch);
    use(two);
    MUST(cudaStreamEndCapture(two, &graph));
    MUST(cudaGraphDestroy(graph));
    end_round();
}

CASE(wrong_address) {
    void *scratch = compute(one);
    EXPECT(cudaFree((char *)scratch + 256) != cudaSuccess);
    MUST(cudaFree(NULL));
    use(two);
    end_round();
    MUST(cudaFree(scratch));
}

/* ---- streams that are created and destroyed while others free */

static void *comes_and_goes(void *unused) {
    cudaStream_t last = cudaStreamPerThread;
    for (int i = 0; i < 150; i++) {
        cudaStream_t stream;
        void *scratch = device_alloc(BYTES);
        MUST(cudaStreamCreateWithFlags(&stream, i % 2 ? cudaStreamNonBlocking : cudaStreamDefault));
        MUST(cudaMemsetAsync(scratch, i, BYTES, stream));
        MUST(cudaMemsetAsync(scratch, i, BYTES, last));
        if (i % 3 == 0) {
            MUST(cudaEventRecord(event, stream));
            MUST(cudaStreamWaitEvent(one, event, 0));
        }
        if (i % 5 == 0)
            MUST(cudaStreamSynchronize(stream));
        MUST(cudaFree(scratch));
        if (last != cudaStreamPerThread)
            MUST(cudaStreamDestroy(last));
        last = stream;
    }
    MUST(cudaStreamDestroy(last));
    return unused;
}

CASE(many_threads) {
    pthread_t threads[6];
    for (int i = 0; i < 6; i++)
        EXPECT(pthread_create(&threads[i], NULL, comes_and_goes, NULL) == 0);
    for (int i = 0; i < 6; i++)
        EXPECT(pthread_join(threads[i], NULL) == 0);
    end_round();
}

/* ---- more call sites than lines of the report */

#define SITE                 \
    scratch = compute(one);  \
    MUST(cudaFree(scratch)); \
    use(two);                \
    end_round();
#define SITES_5 SITE SITE SITE SITE SITE

CASE(many_sites) {
    void *scratch;
    SITES_5 SITES_5 SITES_5 SITES_5 SITES_5
}

int main(int count, char **word) {
    const struct program_case *chosen = case_named(count > 1 ? word[1] : NULL);
    MUST(cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking));
    MUST(cudaStreamCreateWithFlags(&two, cudaStreamNonBlocking));
    MUST(cudaEventCreate(&event));
    table = device_alloc(BYTES);
    result = device_alloc(BYTES);
    MUST(cudaMallocHost((void **)&pinned, BYTES));
#pragma GCC unroll 1 /* one call site */
    for (int round = 0; round < ROUNDS; round++)
        chosen->run();
    printf("ok check_order\n");
    return 0;
}
