/* One thread captures in each of the three modes while another allocates and frees at full speed. Calls that the
 * driver allows must keep working. For each pair of modes the program prints whether the capture survived and
 * whether calls were refused; the runner compares with the native results. A resulting graph is replayed and its
 * result checked. Then many short captures end beside such a thread. Argument: "runtime" or "driver", the interface to
 * use. */
#include <cuda.h>
#include <cuda_runtime.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>

#include "program.h"

enum { COUNT = 1 << 16, LAUNCHES = 40, REPLAYS = 3, BLOCK = 256, ENDS = 600 };

extern "C" __global__ void add_one(int *values, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        values[i]++;
}

#ifdef SIM_TWINS
#include "simcuda.h"

static void add_one_on_host(const struct simcuda_launch *launch) {
    int count = *(int *)launch->args[1];
    int *values = (int *)launch->touch(*(void **)launch->args[0], (size_t)count * sizeof(int), 1);
    for (int i = 0; values && i < count; i++)
        values[i]++;
}

SIMCUDA_TWIN(add_one, "p4", add_one_on_host);
#endif

static int use_driver;

static int get(void **block, size_t size) {
    return use_driver ? (int)cuMemAlloc((CUdeviceptr *)block, size) : (int)cudaMalloc(block, size);
}

static int give(void *block) {
    return use_driver ? (int)cuMemFree((CUdeviceptr)(uintptr_t)block) : (int)cudaFree(block);
}

static int begin_capture(cudaStream_t stream, int mode) {
    return use_driver ? (int)cuStreamBeginCapture((CUstream)stream, (CUstreamCaptureMode)mode)
                      : (int)cudaStreamBeginCapture(stream, (enum cudaStreamCaptureMode)mode);
}

static int end_capture(cudaStream_t stream, cudaGraph_t *graph) {
    return use_driver ? (int)cuStreamEndCapture((CUstream)stream, (CUgraph *)graph)
                      : (int)cudaStreamEndCapture(stream, graph);
}

static void be_relaxed(void) {
    if (use_driver) {
        CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
        MUST(cuThreadExchangeStreamCaptureMode(&mode));
    } else {
        enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
        MUST(cudaThreadExchangeStreamCaptureMode(&mode));
    }
}

struct churner {
    cudaStream_t stream;
    int relaxed;
    unsigned pause_us; /* after each 8 blocks */
    int running, stop;
    long calls, refused;
};

static long churner_calls(struct churner *self) { return __atomic_load_n(&self->calls, __ATOMIC_RELAXED); }

/* Blocks whose free was refused are freed once nothing captures any more. */
static void *churn(void *argument) {
    struct churner *self = (struct churner *)argument;
    static void *left[1 << 16];
    size_t count = 0;
    prctl(PR_SET_TIMERSLACK, 1); /* short pauses */
    MUST(cudaFree(NULL));        /* the driver's calls need a current context */
    if (self->relaxed)
        be_relaxed();
    for (unsigned i = 0; !__atomic_load_n(&self->stop, __ATOMIC_ACQUIRE) && count < sizeof left / sizeof *left; i++) {
        void *block = NULL;
        __atomic_add_fetch(&self->calls, 2, __ATOMIC_RELAXED);
        if (get(&block, (size_t)65536 << i % 3) != 0) {
            self->refused++;
            cudaGetLastError();
            usleep(100);
        } else {
            add_one<<<1, BLOCK, 0, self->stream>>>((int *)block, BLOCK);
            if (give(block) != 0) {
                self->refused++;
                left[count++] = block;
                cudaGetLastError();
            }
        }
        __atomic_store_n(&self->running, 1, __ATOMIC_RELEASE);
        if (self->pause_us && i % 8 == 7)
            usleep(self->pause_us);
    }
    while (count)
        MUST(give(left[--count]));
    return NULL;
}

/* Returns once the thread has allocated and freed. */
static pthread_t start_churning(struct churner *churner) {
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, churn, churner) == 0);
    while (!__atomic_load_n(&churner->running, __ATOMIC_ACQUIRE))
        usleep(50);
    return thread;
}

static void stop_churning(struct churner *churner, pthread_t thread) {
    __atomic_store_n(&churner->stop, 1, __ATOMIC_RELEASE);
    EXPECT(pthread_join(thread, NULL) == 0);
}

static void one_pair(int mode, int relaxed) {
    static const char *const names[] = {"global", "thread_local", "relaxed"};
    static int host[COUNT];
    struct churner churner = {0};
    pthread_t thread;
    cudaStream_t stream;
    cudaGraph_t graph = NULL;
    cudaGraphExec_t executable;
    void *values;
    int broken = 0, wrong = 0;
    churner.relaxed = relaxed;
    churner.pause_us = 5;
    MUST(get(&values, sizeof host));
    MUST(cudaMemset(values, 0, sizeof host));
    MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    MUST(cudaStreamCreateWithFlags(&churner.stream, cudaStreamNonBlocking));
    add_one<<<COUNT / BLOCK, BLOCK, 0, stream>>>((int *)values, 0); /* the kernel is loaded */
    MUST(cudaDeviceSynchronize());
    thread = start_churning(&churner);

    MUST(begin_capture(stream, mode));
    for (int i = 0; i < LAUNCHES; i++) {
        add_one<<<COUNT / BLOCK, BLOCK, 0, stream>>>((int *)values, COUNT);
        broken |= cudaGetLastError() != cudaSuccess;
        usleep(200);
    }
    broken |= end_capture(stream, &graph) != 0;
    cudaGetLastError();
    stop_churning(&churner, thread);
    MUST(cudaDeviceSynchronize());

    if (!broken) {
        MUST(cudaGraphInstantiate(&executable, graph, 0));
        for (int i = 0; i < REPLAYS; i++) {
            void *beside;
            MUST(get(&beside, sizeof host)); /* allocations and frees between replays */
            MUST(cudaGraphLaunch(executable, stream));
            add_one<<<COUNT / BLOCK, BLOCK, 0, churner.stream>>>((int *)beside, COUNT);
            MUST(give(beside));
        }
        MUST(cudaStreamSynchronize(stream));
        MUST(cudaMemcpy(host, values, sizeof host, cudaMemcpyDeviceToHost));
        for (int i = 0; i < COUNT; i++)
            wrong += host[i] != LAUNCHES * REPLAYS;
        MUST(cudaGraphExecDestroy(executable));
    }
    if (graph)
        MUST(cudaGraphDestroy(graph));
    MUST(give(values));
    MUST(cudaStreamDestroy(churner.stream));
    MUST(cudaStreamDestroy(stream));
    printf("%s capture, other thread %s: %s %s wrong %d\n", names[mode], relaxed ? "relaxed" : "global",
           broken ? "invalidated" : "survived", churner.refused ? "refused" : "accepted", wrong);
    fprintf(stderr, "%ld calls, %ld refused\n", churner.calls, churner.refused);
    EXPECT(wrong == 0);
}

/* Many captures end on one processor, in a thread that the churning thread interrupts anywhere whenever it wakes. */
static void many_ends(void) {
    struct churner churner = {.relaxed = 1, .pause_us = 30};
    cpu_set_t one;
    pthread_t thread;
    cudaStream_t stream;
    cudaGraph_t graph;
    MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    MUST(cudaStreamCreateWithFlags(&churner.stream, cudaStreamNonBlocking));
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    EXPECT(sched_setaffinity(0, sizeof one, &one) == 0); /* of the churning thread, too */
    thread = start_churning(&churner);
    errno = 0;
    EXPECT(nice(10) >= 0 || !errno);
    for (int i = 0; i < ENDS; i++) {
        MUST(begin_capture(stream, cudaStreamCaptureModeRelaxed));
        for (long begun = churner_calls(&churner); churner_calls(&churner) == begun;)
            ;
        for (volatile int spins = rand() % 10000; spins > 0; spins--)
            ;
        MUST(end_capture(stream, &graph));
        MUST(cudaGraphDestroy(graph));
    }
    stop_churning(&churner, thread);
    MUST(cudaStreamDestroy(churner.stream));
    MUST(cudaStreamDestroy(stream));
    printf("%d captures: %s\n", ENDS, churner.refused ? "refused" : "accepted");
}

int main(int count, char **argument) {
    EXPECT(count == 2);
    use_driver = strcmp(argument[1], "driver") == 0;
    MUST(cudaFree(NULL));
    for (int mode = 0; mode < 3; mode++)
        for (int relaxed = 0; relaxed < 2; relaxed++)
            one_pair(mode, relaxed);
    many_ends();
    printf("ok capture_modes\n");
    return 0;
}
