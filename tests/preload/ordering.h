/* What the programs ordering_*.cu share. Each program is correct natively because cudaFree waits for all earlier
 * work of the context, and it has no other order where it needs one. Work that must not be overtaken follows a
 * kernel that runs long, so a call that does not wait is early each time. On the simulated CUDA
 * (SIMCUDA_STREAMS=manual), work never begins unless something waits for it. Exit status 9: a round was wrong. 77:
 * the device cannot show the case. ORDERING_MS: how long the kernel runs. */
#ifndef PRELOAD_ORDERING_H
#define PRELOAD_ORDERING_H

#include <cuda.h>
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include "cases.h"

enum { ROUNDS = 4, WORDS = 1 << 14, BYTES = WORDS * 4, WARM_UPS = 20, TIME_LIMIT_S = 80 };
/* Scratch memory that is freed: less than one batch of frees, and more than a batch may hold. */
static const size_t scratch_sizes[] = {(size_t)1 << 20, (size_t)24 << 20};

extern "C" __global__ void linger(unsigned long long ns) {
    unsigned long long begin, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
    do
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    while (now - begin < ns);
}

extern "C" __global__ void make_table(unsigned *table, unsigned salt) {
    for (int i = threadIdx.x; i < WORDS; i += blockDim.x)
        table[i] = salt * 2654435761u + (unsigned)i;
}

extern "C" __global__ void read_table(const unsigned *table, unsigned salt, unsigned *wrong) {
    for (int i = threadIdx.x; i < WORDS; i += blockDim.x)
        if (table[i] != salt * 2654435761u + (unsigned)i)
            atomicAdd(wrong, 1u);
}

#ifdef SIM_TWINS
#include "simcuda.h"

static void linger_on_host(const struct simcuda_launch *launch) { (void)launch; }

static void make_on_host(const struct simcuda_launch *launch) {
    unsigned *table = (unsigned *)launch->touch(*(void **)launch->args[0], BYTES, 1);
    for (int i = 0; table && i < WORDS; i++)
        table[i] = *(unsigned *)launch->args[1] * 2654435761u + (unsigned)i;
}

static void read_on_host(const struct simcuda_launch *launch) {
    const unsigned *table = (const unsigned *)launch->touch(*(void **)launch->args[0], BYTES, 0);
    unsigned *wrong = (unsigned *)launch->touch(*(void **)launch->args[2], 4, 1);
    for (int i = 0; table && wrong && i < WORDS; i++)
        *wrong += table[i] != *(unsigned *)launch->args[1] * 2654435761u + (unsigned)i;
}

SIMCUDA_TWIN(linger, "8", linger_on_host);
SIMCUDA_TWIN(make_table, "p4", make_on_host);
SIMCUDA_TWIN(read_table, "p4p", read_on_host);
#endif

static inline int holds(const unsigned *table, unsigned salt) {
    for (int i = 0; i < WORDS; i++)
        if (__atomic_load_n(&table[i], __ATOMIC_RELAXED) != salt * 2654435761u + (unsigned)i)
            return 0;
    return 1;
}

/* A function of the driver: the program is not linked with it, as most are not. */
static inline void *driver_function(const char *name) {
    static void *driver;
    if (!driver)
        driver = dlopen("libcuda.so.1", RTLD_NOW);
    void *found = driver ? dlsym(driver, name) : NULL;
    if (!found) {
        fprintf(stderr, "the driver has no %s\n", name);
        _exit(77);
    }
    return found;
}
#define DRIVER(name) ((__typeof__(&name))driver_function(#name))

/* The program uses one stream only, a created one or (ORDERING_STREAM=default) the default stream, until a case
 * creates another. */
static struct {
    cudaStream_t one;
    unsigned *table, *wrong; /* device memory */
    size_t scratch_size;
    unsigned salt; /* of this round */
    unsigned long long linger_ns;
    int step;
} shared;

static inline void await_step(int step) {
    while (__atomic_load_n(&shared.step, __ATOMIC_ACQUIRE) < step)
        sched_yield();
}

static inline void reach_step(int step) { __atomic_store_n(&shared.step, step, __ATOMIC_RELEASE); }

static inline cudaStream_t new_stream(void) {
    cudaStream_t stream;
    MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return stream;
}

static inline void launch_linger(cudaStream_t stream) {
    linger<<<1, 1, 0, stream>>>(shared.linger_ns);
    MUST(cudaGetLastError());
}

static inline void launch_make(cudaStream_t stream, void *table, unsigned salt) {
    make_table<<<1, 256, 0, stream>>>((unsigned *)table, salt);
    MUST(cudaGetLastError());
}

static inline void launch_read(cudaStream_t stream, const void *table, unsigned salt) {
    read_table<<<1, 256, 0, stream>>>((const unsigned *)table, salt, shared.wrong);
    MUST(cudaGetLastError());
}

static inline void read_now(cudaStream_t stream, const void *table, unsigned salt) {
    launch_read(stream, table, salt);
    MUST(cudaStreamSynchronize(stream));
}

/* Computes a table with the help of scratch memory, which the caller frees. */
static inline void *start(cudaStream_t stream, void *table) {
    void *scratch = device_alloc(shared.scratch_size);
    launch_linger(stream);
    launch_make(stream, scratch, shared.salt);
    MUST(cudaMemcpyAsync(table, scratch, BYTES, cudaMemcpyDeviceToDevice, stream));
    return scratch;
}

/* The same. The table is complete when this returns, as far as a native program can tell. */
static inline void compute(cudaStream_t stream, void *table) { device_free(start(stream, table)); }

static inline void out_of_time(int number) {
    static const char text[] = "does not end\n";
    if (write(STDERR_FILENO, text, sizeof text - 1) < 0)
        _exit(4);
    _exit(3);
}

/* After this, sizes are known to the policy and kernels are loaded. */
static inline void set_up(void) {
    const char *ms = getenv("ORDERING_MS");
    signal(SIGALRM, out_of_time);
    alarm(TIME_LIMIT_S);
    shared.linger_ns = (unsigned long long)(ms ? atoi(ms) : 30) * 1000000;
    shared.one = getenv("ORDERING_STREAM") ? 0 : new_stream();
    shared.table = (unsigned *)device_alloc(BYTES);
    shared.wrong = (unsigned *)device_alloc(4);
    for (int i = 0; i < WARM_UPS * 2; i++)
        device_free(device_alloc(scratch_sizes[i % 2]));
    linger<<<1, 1, 0, shared.one>>>(0);
    launch_make(shared.one, shared.table, 0);
    launch_read(shared.one, shared.table, 0);
    MUST(cudaStreamSynchronize(shared.one));
}

static inline void begin_round(unsigned round) {
    shared.salt = round + 1;
    shared.step = 0;
    shared.scratch_size = scratch_sizes[round % 2];
    MUST(cudaMemsetAsync(shared.table, 0xff, BYTES, shared.one));
    MUST(cudaMemsetAsync(shared.wrong, 0, 4, shared.one));
    MUST(cudaStreamSynchronize(shared.one));
}

/* Whether the device found an error. All work is done after this. */
static inline int end_round(void) {
    unsigned wrong;
    MUST(cudaDeviceSynchronize());
    MUST(cudaMemcpyAsync(&wrong, shared.wrong, sizeof wrong, cudaMemcpyDeviceToHost, shared.one));
    MUST(cudaStreamSynchronize(shared.one));
    return wrong != 0;
}

struct ordering_case {
    const char *name;
    void (*prepare)(void); /* may be NULL */
    int (*round)(void);    /* was the host wrong? */
};
#define ORDERING_ROW(name, prepare, round) LIST_CASE(struct ordering_case, name, prepare, round)
#define ORDERING(name, prepare)        \
    static int name(void);             \
    ORDERING_ROW(name, prepare, name); \
    static int name(void)

static inline int run_rounds(const char *program, const char *name) {
    const struct ordering_case *row = (const struct ordering_case *)case_named(name);
    int wrong = 0;
    set_up();
    if (row->prepare)
        row->prepare();
    for (unsigned round = 0; round < ROUNDS; round++) {
        begin_round(round);
        int host = row->round();
        wrong += end_round() | host;
    }
    alarm(0);
    printf("%s %s %s: %d of %d rounds wrong\n", wrong ? "not ok" : "ok", program, name, wrong, (int)ROUNDS);
    return wrong ? 9 : 0;
}

#endif
