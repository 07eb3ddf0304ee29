/* Programs that rely on the wait of a cudaFree, and others that do not, for GPUMEM_CHECK_ORDER: check_order CASE.
 * With SIMCUDA_STREAMS=manual, work never begins unless something waits for it, so each free finds its work in
 * flight. The program relies on the free in guilty_free and not on the free in innocent_free. LINKED: it calls the
 * driver for its copies, by the names that the linker bound. */
#ifdef LINKED
#include <cuda.h>
#endif
#include <cuda_runtime_api.h>
#include <pthread.h>

#include "program.h"

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

static void by_stream(void) {
    guilty_free(compute(one));
    use(two);
    end_round();
}

static void by_default(void) {
    guilty_free(compute(one));
    MUST(cudaMemset(table, 2, BYTES));
    end_round();
}

static void by_event_of_earlier_work(void) {
    MUST(cudaEventRecord(event, one));
    guilty_free(compute(one));
    MUST(cudaStreamWaitEvent(two, event, 0));
    use(two);
    end_round();
}

static void by_free_async(void) {
    void *pooled;
    MUST(cudaMallocAsync(&pooled, BYTES, one));
    guilty_free(compute(one));
    MUST(cudaFreeAsync(pooled, two));
    end_round();
}

static void of_destroyed(void) {
    cudaStream_t late;
    MUST(cudaStreamCreateWithFlags(&late, cudaStreamNonBlocking));
    void *scratch = compute(late);
    MUST(cudaStreamDestroy(late));
    guilty_free(scratch);
    use(two);
    end_round();
}

static void two_sites(void) {
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

static void by_thread(void) {
    pthread_t threads[4];
    ready = 0;
    for (int i = 0; i < 4; i++)
        EXPECT(pthread_create(&threads[i], NULL, needs_table, NULL) == 0);
    for (int i = 0; i < 4; i++)
        EXPECT(pthread_join(threads[i], NULL) == 0);
    end_round();
}

static void threads_that_synchronise(void) {
    synchronises = 1;
    by_thread();
}

/* ---- the host */

static void *copy_down(unsigned char *to) {
    void *scratch = compute(one);
    MUST(cudaMemcpyAsync(to, table, BYTES, cudaMemcpyDeviceToHost, one));
    return scratch;
}

static void by_host(void) {
    guilty_free(copy_down(pinned));
    EXPECT(all_bytes_are(pinned, 1, BYTES));
    use(one);
    end_round();
}

/* Nothing follows the last round. */
static void by_host_at_end(void) {
    guilty_free(copy_down(pinned));
    EXPECT(all_bytes_are(pinned, 1, BYTES));
}

static void by_host_in_rows(void) {
    void *scratch = compute(one);
    MUST(cudaMemcpy2DAsync(pinned, 256, table, 256, 256, BYTES / 256, cudaMemcpyDeviceToHost, one));
    guilty_free(scratch);
    EXPECT(all_bytes_are(pinned, 1, BYTES));
    use(one);
    end_round();
}

static int called;

static void call(void *unused) { __atomic_add_fetch(&called, 1, __ATOMIC_RELEASE); }

static void by_host_function(void) {
    int before = called;
    void *scratch = compute(one);
    MUST(cudaLaunchHostFunc(one, call, NULL));
    guilty_free(scratch);
    EXPECT(__atomic_load_n(&called, __ATOMIC_ACQUIRE) == before + 1);
    use(one);
    end_round();
}

/* ---- programs that do not rely on a free */

static void with_event(void) {
    void *scratch = compute(one);
    MUST(cudaEventRecord(event, one));
    guilty_free(scratch);
    MUST(cudaStreamWaitEvent(two, event, 0));
    use(two);
    end_round();
}

static void with_stream_synchronised(void) {
    guilty_free(copy_down(pinned));
    MUST(cudaStreamSynchronize(one));
    use(two);
    use(one);
    end_round();
}

static void with_device_synchronised(void) {
    guilty_free(copy_down(pinned));
    MUST(cudaDeviceSynchronize());
    use(two);
    use(one);
    end_round();
}

static void with_event_synchronised(void) {
    void *scratch = copy_down(pinned);
    MUST(cudaEventRecord(event, one));
    guilty_free(scratch);
    MUST(cudaEventSynchronize(event));
    use(two);
    use(one);
    end_round();
}

static void with_questions(void) {
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

static void with_copy(void) {
    static unsigned char read_back[BYTES];
    guilty_free(compute(0));
    MUST(cudaMemcpy(read_back, table, BYTES, cudaMemcpyDeviceToHost));
    use(two);
    end_round();
}

static void with_pageable_copy(void) {
    static unsigned char read_back[BYTES];
    guilty_free(copy_down(read_back));
    use(one);
    end_round();
}

static void one_stream(void) {
    guilty_free(compute(one));
    use(one);
    guilty_free(compute(one));
    use(one);
    end_round();
}

static void default_stream(void) {
    guilty_free(compute(0));
    MUST(cudaMemset(table, 2, BYTES));
    use(0);
    end_round();
}

/* These streams wait for the default stream, and it waits for them. */
static void blocking_streams(void) {
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

static void idle(void) {
    void *scratch = copy_down(pinned);
    MUST(cudaDeviceSynchronize());
    guilty_free(scratch);
    use(two);
    use(one);
    end_round();
}

static void captured(void) {
    cudaGraph_t graph;
    MUST(cudaStreamBeginCapture(two, cudaStreamCaptureModeRelaxed));
    void *scratch = compute(one);
    guilty_free(scratch);
    use(two);
    MUST(cudaStreamEndCapture(two, &graph));
    MUST(cudaGraphDestroy(graph));
    end_round();
}

static void wrong_address(void) {
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

static void many_threads(void) {
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

static void many_sites(void) {
    void *scratch;
    SITES_5 SITES_5 SITES_5 SITES_5 SITES_5
}

static const struct {
    const char *name;
    void (*round)(void);
} rows[] = {
#define ROW(name) \
    { #name, name }
    ROW(by_stream),
    ROW(by_default),
    ROW(by_event_of_earlier_work),
    ROW(by_free_async),
    ROW(of_destroyed),
    ROW(two_sites),
    ROW(by_thread),
    ROW(threads_that_synchronise),
    ROW(by_host),
    ROW(by_host_at_end),
    ROW(by_host_in_rows),
    ROW(by_host_function),
    ROW(with_event),
    ROW(with_stream_synchronised),
    ROW(with_device_synchronised),
    ROW(with_event_synchronised),
    ROW(with_questions),
    ROW(with_copy),
    ROW(with_pageable_copy),
    ROW(one_stream),
    ROW(default_stream),
    ROW(blocking_streams),
    ROW(idle),
    ROW(captured),
    ROW(wrong_address),
    ROW(many_sites),
    ROW(many_threads),
};

int main(int count, char **word) {
    MUST(cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking));
    MUST(cudaStreamCreateWithFlags(&two, cudaStreamNonBlocking));
    MUST(cudaEventCreate(&event));
    table = device_alloc(BYTES);
    result = device_alloc(BYTES);
    MUST(cudaMallocHost((void **)&pinned, BYTES));
    for (size_t i = 0; i < sizeof rows / sizeof *rows && count > 1; i++)
        for (int round = 0; strcmp(rows[i].name, word[1]) == 0 && round < ROUNDS; round++)
            rows[i].round();
    printf("ok check_order\n");
    return 0;
}
