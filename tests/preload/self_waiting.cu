/* Programs whose threads or streams wait for each other and that end natively: reuse of freed memory must not add an
 * order that makes the wait circular. Argument:
 *
 *   collective        thread one's kernel waits for thread two's kernel; both free and allocate around it; thread two
 *                     allocated its blocks before
 *   collective_alloc  the same, but thread two allocates while thread one's kernel waits and thread one may be inside a
 *                     free
 *   value_stream      a stream waits for a value that another stream writes, from a second thread that allocates and
 *                     frees first
 *   value_host        the same, written by the host
 *   alone             one thread: a stream waits for a value; blocks are allocated and used, and only then the value
 *                     is written
 *   persistent        the same with a kernel that runs until the host ends it
 *
 * Work on freed blocks checks its own memory. Exit status 3: the program does not end in time; it prints where it
 * stands. 77: that happens natively, because the driver's own locks close the circle; then a library above the
 * driver cannot do better. */
#include <cuda.h>
#include <cuda_runtime.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include "program.h"

enum { TIME_LIMIT_S = 30, ROUNDS = 4, BLOCKS = 5, TOUCHED = 1 << 14 };
static const long long GIVE_UP_CYCLES = 5000000000; /* about 3 s: a kernel that waits in vain ends after this time */

static const char *stage = "start";
static int judged; /* a library is preloaded: it is at fault if the program does not end, else the driver is */

/* A kernel that waits in vain ends by itself and is counted. */
extern "C" __global__ void wait_for(volatile unsigned *flag, unsigned value, long long cycles, unsigned *in_vain) {
    long long until = clock64() + cycles;
    while (*flag < value)
        if (clock64() > until) {
            *in_vain = 1;
            return;
        }
}

extern "C" __global__ void set_flag(volatile unsigned *flag, unsigned value) {
    *flag = value;
    __threadfence_system();
}

extern "C" __global__ void fill(unsigned *block, int count, unsigned pattern) {
    for (int i = threadIdx.x; i < count; i += blockDim.x)
        block[i] = pattern + (unsigned)i;
}

extern "C" __global__ void verify(const unsigned *block, int count, unsigned pattern, unsigned *wrong) {
    for (int i = threadIdx.x; i < count; i += blockDim.x)
        if (block[i] != pattern + (unsigned)i)
            atomicAdd(wrong, 1u);
}

#ifdef SIM_TWINS
#include "simcuda.h"

static void fill_on_host(const struct simcuda_launch *launch) {
    int count = *(int *)launch->args[1];
    unsigned *block = (unsigned *)launch->touch(*(void **)launch->args[0], (size_t)count * 4, 1);
    for (int i = 0; block && i < count; i++)
        block[i] = *(unsigned *)launch->args[2] + (unsigned)i;
}

static void verify_on_host(const struct simcuda_launch *launch) {
    int count = *(int *)launch->args[1];
    const unsigned *block = (const unsigned *)launch->touch(*(void **)launch->args[0], (size_t)count * 4, 0);
    unsigned *wrong = (unsigned *)launch->touch(*(void **)launch->args[3], 4, 1);
    for (int i = 0; block && wrong && i < count; i++)
        *wrong += block[i] != *(unsigned *)launch->args[2] + (unsigned)i;
}

SIMCUDA_TWIN(fill, "p44", fill_on_host);
SIMCUDA_TWIN(verify, "p44p", verify_on_host);
#endif

static struct {
    unsigned *flag;      /* device address */
    unsigned *host_flag; /* host address; NULL when it is device memory */
    unsigned *results;   /* number of wrong words, number of waits in vain */
    cudaStream_t one, two, three;
    int by_value, by_host, late_alloc;
    unsigned value;
    size_t size;
    int step;
    void *of_two[3];
} shared;

static void out_of_time(int number) {
    static const char text[] = "does not end: ";
    (void)number;
    if (write(STDERR_FILENO, text, sizeof text - 1) < 0 || write(STDERR_FILENO, stage, strlen(stage)) < 0 ||
        write(STDERR_FILENO, "\n", 1) < 0)
        _exit(4);
    _exit(judged ? 3 : 77);
}

static void begin_use(cudaStream_t stream, void *block, unsigned pattern) {
    fill<<<1, 256, 0, stream>>>((unsigned *)block, TOUCHED, pattern);
    MUST(cudaGetLastError());
}

static void end_use(cudaStream_t stream, void *block, unsigned pattern) {
    verify<<<1, 256, 0, stream>>>((const unsigned *)block, TOUCHED, pattern, shared.results);
    MUST(cudaGetLastError());
}

static void use(cudaStream_t stream, void *block, unsigned pattern) {
    begin_use(stream, block, pattern);
    end_use(stream, block, pattern);
}

/* The simulated driver runs kernels in the calling thread. There a stream waits instead of a kernel. */
static void stream_waits(cudaStream_t stream, int by_value) {
#ifdef SIM_TWINS
    by_value = 1;
#endif
    if (by_value)
        MUST(cuStreamWaitValue32((CUstream)stream, (CUdeviceptr)(uintptr_t)shared.flag, shared.value,
                                 CU_STREAM_WAIT_VALUE_GEQ));
    else
        wait_for<<<1, 1, 0, stream>>>(shared.flag, shared.value, GIVE_UP_CYCLES, shared.results + 1);
    MUST(cudaGetLastError());
}

static void answer(cudaStream_t stream, int by_value, int by_host) {
#ifdef SIM_TWINS
    by_value = !by_host;
#endif
    if (by_host)
        __atomic_store_n(shared.host_flag, shared.value, __ATOMIC_RELEASE);
    else if (by_value)
        MUST(cuStreamWriteValue32((CUstream)stream, (CUdeviceptr)(uintptr_t)shared.flag, shared.value, 0));
    else
        set_flag<<<1, 1, 0, stream>>>(shared.flag, shared.value);
    MUST(cudaGetLastError());
}

static void await_step(int step) {
    while (__atomic_load_n(&shared.step, __ATOMIC_ACQUIRE) < step)
        sched_yield();
}

static void reach_step(int step) { __atomic_store_n(&shared.step, step, __ATOMIC_RELEASE); }

/* The other rank. */
static void *second_thread(void *argument) {
    void *more;
    (void)argument;
    for (int i = 0; !shared.late_alloc && i < 3; i++)
        shared.of_two[i] = device_alloc(shared.size);
    reach_step(1);
    await_step(2);
    for (int i = 0; shared.late_alloc && i < 3; i++)
        shared.of_two[i] = device_alloc(shared.size);
    for (int i = 0; i < 3; i++)
        use(shared.two, shared.of_two[i], shared.value * 1000u + (unsigned)i);
    usleep(2000); /* thread one is inside its frees by now */
    answer(shared.two, shared.by_value, shared.by_host);
    for (int i = 0; i < 3; i++)
        device_free(shared.of_two[i]);
    more = device_alloc(shared.size);
    use(shared.two, more, shared.value * 1000u + 9);
    device_free(more);
    return NULL;
}

static void two_threads(size_t size) {
    void *blocks[BLOCKS], *more;
    pthread_t thread;
    shared.size = size;
    shared.value++;
    shared.step = 0;
    stage = "thread one allocates";
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = device_alloc(size);
    EXPECT(pthread_create(&thread, NULL, second_thread, NULL) == 0);
    await_step(1);
    for (int i = 0; i < BLOCKS; i++)
        begin_use(shared.one, blocks[i], shared.value * 1000u + 100u + (unsigned)i);
    stream_waits(shared.one, shared.by_value);
    for (int i = 0; i < BLOCKS; i++)
        end_use(shared.one, blocks[i], shared.value * 1000u + 100u + (unsigned)i);
    reach_step(2);
    stage = "thread one frees behind work that waits for thread two";
    for (int i = 0; i < BLOCKS; i++)
        device_free(blocks[i]);
    stage = "thread one allocates again";
    more = device_alloc(size);
    use(shared.three, more, shared.value * 1000u + 200u); /* at once, unless it waits behind the first */
    device_free(more);
    stage = "thread one waits for thread two";
    EXPECT(pthread_join(thread, NULL) == 0);
    stage = "the device ends its work";
    MUST(cudaStreamSynchronize(shared.one));
    MUST(cudaStreamSynchronize(shared.two));
    MUST(cudaStreamSynchronize(shared.three));
}

static void one_thread(size_t size, int by_value) {
    void *blocks[BLOCKS], *held;
    shared.value++;
    stage = "blocks that will be kept";
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = device_alloc(size);
    for (int i = 0; i < BLOCKS; i++)
        use(shared.two, blocks[i], (unsigned)i);
    held = device_alloc(size);
    for (int i = 0; i < BLOCKS; i++)
        device_free(blocks[i]);
    stage = "allocations beside work that waits for the host";
    stream_waits(shared.one, by_value);
    use(shared.one, held, shared.value);
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = device_alloc(size);
        use(shared.two, blocks[i], shared.value * 100u + (unsigned)i);
    }
    stage = "another stream ends its work beside work that waits for the host";
    MUST(cudaStreamSynchronize(shared.two));
    answer(shared.two, 1, 1);
    stage = "the device ends its work";
    MUST(cudaStreamSynchronize(shared.one));
    for (int i = 0; i < BLOCKS; i++)
        device_free(blocks[i]);
    device_free(held);
}

int main(int count, char **argument) {
    static const size_t sizes[] = {65536, (size_t)20 << 20, (size_t)40 << 20};
    unsigned results[2];
    EXPECT(count == 2);
    const char *what = argument[1];
    int alone = strcmp(what, "alone") == 0, persistent = strcmp(what, "persistent") == 0;
    shared.late_alloc = strcmp(what, "collective_alloc") == 0;
    shared.by_value = strcmp(what, "value_stream") == 0 || strcmp(what, "value_host") == 0;
    shared.by_host = strcmp(what, "value_host") == 0;
    judged = getenv("LD_PRELOAD") != NULL;
    signal(SIGALRM, out_of_time);
    alarm(getenv("SELF_WAITING_SECONDS") ? (unsigned)atoi(getenv("SELF_WAITING_SECONDS")) : TIME_LIMIT_S);
    MUST(cudaFree(NULL));
    if (shared.by_host || alone || persistent) {
        MUST(cudaHostAlloc((void **)&shared.host_flag, sizeof(unsigned), cudaHostAllocMapped));
        note_alloc("cuMemHostAlloc", sizeof(unsigned), shared.host_flag);
        *shared.host_flag = 0;
        MUST(cudaHostGetDevicePointer((void **)&shared.flag, shared.host_flag, 0));
    } else {
        shared.flag = (unsigned *)device_alloc(sizeof(unsigned));
        MUST(cudaMemset(shared.flag, 0, sizeof(unsigned)));
    }
    shared.results = (unsigned *)device_alloc(sizeof results);
    MUST(cudaMemset(shared.results, 0, sizeof results));
    MUST(cudaStreamCreateWithFlags(&shared.one, cudaStreamNonBlocking));
    MUST(cudaStreamCreateWithFlags(&shared.two, cudaStreamNonBlocking));
    MUST(cudaStreamCreateWithFlags(&shared.three, cudaStreamNonBlocking));
    /* Loading a kernel may wait for the device, so each kernel has run once before anything waits. */
    void *first = device_alloc(TOUCHED * sizeof(unsigned));
    use(shared.one, first, 0);
#ifndef SIM_TWINS
    wait_for<<<1, 1, 0, shared.one>>>(shared.flag, 0, 0, shared.results + 1);
    set_flag<<<1, 1, 0, shared.one>>>(shared.flag, 0);
#endif
    MUST(cudaDeviceSynchronize());
    device_free(first);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int round = 0; round < ROUNDS; round++) {
            if (alone || persistent)
                one_thread(sizes[i], alone);
            else
                two_threads(sizes[i]);
        }
    alarm(0);
    MUST(cudaMemcpy(results, shared.results, sizeof results, cudaMemcpyDeviceToHost));
    if (results[1] && !judged) {
        fprintf(stderr, "natively a kernel waits in vain: the driver itself waits here\n");
        return 77;
    }
    if (results[1])
        fail("a kernel waited in vain: the program closed a circle", __LINE__, (int)results[1]);
    if (results[0])
        fail("words were wrong: memory came again before its work was done", __LINE__, (int)results[0]);
    MUST(cudaStreamDestroy(shared.one));
    MUST(cudaStreamDestroy(shared.two));
    MUST(cudaStreamDestroy(shared.three));
    device_free(shared.results);
    if (shared.host_flag) {
        note_free("cuMemFreeHost", shared.host_flag);
        MUST(cudaFreeHost(shared.host_flag));
    } else {
        device_free(shared.flag);
    }
    printf("ok self_waiting %s\n", what);
    return 0;
}
