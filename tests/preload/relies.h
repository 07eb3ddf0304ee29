/* What the programs relies_*.c share. Each case is correct natively because cuMemFree waits for all earlier work of
 * the block's context, and it has no other order or wait where it needs one. On the simulated CUDA
 * (SIMCUDA_STREAMS=manual) work never begins unless something waits for it, so whatever does not wait is early each
 * time. Exit status 9: something was wrong, or did not end in time. 77: not here.
 *
 * The programs reach the driver by look-ups, as a CUDA runtime does. With -DLINKED only their context comes from
 * there, and they are linked with the driver for the rest. */
#ifndef PRELOAD_RELIES_H
#define PRELOAD_RELIES_H

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <time.h>

#include "cases.h"
#include "simcuda.h"

enum { MIB = 1 << 20, WORDS = 1024, BYTES = WORDS * 4, SCRATCH = MIB, ROUNDS = 4, WARM_UPS = 20 };
enum { SOON_S = 4, AT_LAST_S = 80 }; /* a call that natively returns at once; a whole program */

static void *driver;
#define LOOK_UP(name, ...)                                                   \
    ({                                                                       \
        __typeof__(&name) called_ = (__typeof__(&name))dlsym(driver, #name); \
        if (!called_)                                                        \
            fail(#name, __LINE__, 0);                                        \
        called_(__VA_ARGS__);                                                \
    })
#ifdef LINKED
#define CALL(name, ...) name(__VA_ARGS__)
#else
#define CALL LOOK_UP
#endif

static CUcontext context;                      /* the primary one of device 0 */
static CUfunction make, check, hold, break_it; /* kernels, below */
static CUdeviceptr table;
static unsigned wrong; /* words that kernels found wrong, and what the host found */
static unsigned made;  /* runs of `make`: stands for whoever looks without a call of the driver */

/* ---- kernels */

static unsigned word_of(unsigned salt, unsigned i) { return salt * 2654435761u + i; }

/* make(table, salt) */
static void make_on_host(const struct simcuda_launch *launch) {
    unsigned *words = (unsigned *)launch->touch(*(void **)launch->args[0], BYTES, 1);
    for (unsigned i = 0; words && i < WORDS; i++)
        __atomic_store_n(&words[i], word_of(*(unsigned *)launch->args[1], i), __ATOMIC_RELAXED);
    __atomic_add_fetch(&made, 1, __ATOMIC_RELEASE);
}

/* check(table, salt) */
static void check_on_host(const struct simcuda_launch *launch) {
    const unsigned *words = (const unsigned *)launch->touch(*(void **)launch->args[0], BYTES, 0);
    unsigned bad = !words;
    for (unsigned i = 0; words && i < WORDS; i++)
        bad += words[i] != word_of(*(unsigned *)launch->args[1], i);
    __atomic_add_fetch(&wrong, bad, __ATOMIC_RELAXED);
}

struct gate {
    int begun, open;
};

/* hold(gate): runs until the gate opens. */
static void hold_on_host(const struct simcuda_launch *launch) {
    struct gate *gate = *(struct gate **)launch->args[0];
    __atomic_store_n(&gate->begun, 1, __ATOMIC_RELEASE);
    while (!__atomic_load_n(&gate->open, __ATOMIC_ACQUIRE))
        usleep(1000);
}

/* break_it(): writes where there is no memory. */
static void break_on_host(const struct simcuda_launch *launch) { launch->touch((void *)0x10, 4, 1); }

static inline void launch(CUfunction kernel, CUstream stream, CUdeviceptr address, unsigned salt) {
    void *arguments[] = {&address, &salt};
    MUST(CALL(cuLaunchKernel, kernel, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL));
}

static inline void launch_hold(CUstream stream, struct gate *gate) {
    void *arguments[] = {&gate};
    MUST(CALL(cuLaunchKernel, hold, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL));
}

static inline CUfunction kernel_of(CUmodule module, const char *name) {
    CUfunction kernel;
    MUST(CALL(cuModuleGetFunction, &kernel, module, name));
    return kernel;
}

/* ---- memory */

static inline CUdeviceptr allocate(size_t size) {
    CUdeviceptr address;
    MUST(CALL(cuMemAlloc_v2, &address, size));
    return address;
}

static inline void release(CUdeviceptr address) { MUST(CALL(cuMemFree_v2, address)); }

/* The free that the cases rely on. */
static inline void free_some(void) { release(allocate(SCRATCH)); }

static inline void compute(CUstream stream, unsigned salt) {
    CUdeviceptr scratch = allocate(SCRATCH);
    launch(make, stream, table, salt);
    release(scratch);
}

static inline bool holds(const void *words, unsigned salt) {
    for (unsigned i = 0; i < WORDS; i++)
        if (__atomic_load_n((const unsigned *)words + i, __ATOMIC_RELAXED) != word_of(salt, i))
            return false;
    return true;
}

static inline void note_wrong(bool is_wrong) {
    if (is_wrong)
        __atomic_add_fetch(&wrong, 1, __ATOMIC_RELAXED);
}

/* Memory mapped by the program; as the second half of its range, which gpumem does not take over as a whole. */
struct mapping {
    CUdeviceptr address;
    CUmemGenericAllocationHandle handle;
};

static inline struct mapping map(unsigned long long handle_type) {
    CUmemAllocationProp kind = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location.type = CU_MEM_LOCATION_TYPE_DEVICE,
                                .requestedHandleTypes = (CUmemAllocationHandleType)handle_type};
    CUmemAccessDesc access = {kind.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    struct mapping made_one;
    MUST(CALL(cuMemCreate, &made_one.handle, 2 * MIB, &kind, 0));
    MUST(CALL(cuMemAddressReserve, &made_one.address, 4 * MIB, 0, 0, 0));
    MUST(CALL(cuMemMap, made_one.address, 2 * MIB, 0, made_one.handle, 0));
    MUST(CALL(cuMemSetAccess, made_one.address, 2 * MIB, &access, 1));
    return made_one;
}

/* ---- streams, threads, time */

static inline CUstream new_stream(void) {
    CUstream stream;
    MUST(CALL(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING));
    return stream;
}

static inline pthread_t start_thread(void *(*run)(void *), void *argument) {
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, run, argument) == 0);
    return thread;
}

static inline void await(const int *flag) {
    while (!__atomic_load_n(flag, __ATOMIC_ACQUIRE))
        sched_yield();
}

static inline void set(int *flag) { __atomic_store_n(flag, 1, __ATOMIC_RELEASE); }

static inline void out_of_time(int number) {
    static const char text[] = "not ok: does not end in time\n";
    if (write(STDOUT_FILENO, text, sizeof text - 1) < 0)
        _exit(4);
    _exit(9);
}

/* What follows natively returns at once, until at_last. */
static inline void soon(void) { alarm(SOON_S); }
static inline void at_last(void) { alarm(AT_LAST_S); }

/* A thread that runs what is submitted, as a device does, for kernels that hold. */
static inline void *run_device(void *unused) {
    for (;;) {
        CALL(simcuda_run_all);
        usleep(500);
    }
    return unused;
}

static inline void start_device(void) { pthread_detach(start_thread(run_device, NULL)); }

static inline void *open_gate(void *gate) {
    const char *ms = getenv("RELIES_HOLD_MS");
    usleep((useconds_t)(ms ? atoi(ms) : 30) * 1000);
    set(&((struct gate *)gate)->open);
    return NULL;
}

/* ---- the program */

struct relies_case {
    const char *name;
    void (*prepare)(void); /* may be NULL */
    void (*round)(unsigned salt);
    unsigned rounds; /* 0: ROUNDS */
};
#define RELIES_ROW(name, prepare, round, rounds) LIST_CASE(struct relies_case, name, prepare, round, rounds)
#define RELIES(name, prepare, rounds)        \
    static void name(unsigned salt);         \
    RELIES_ROW(name, prepare, name, rounds); \
    static void name(unsigned salt)

static inline void set_up(void) {
    CUmodule module;
    signal(SIGALRM, out_of_time);
    at_last();
    EXPECT((driver = dlopen("libcuda.so.1", RTLD_NOW)) != NULL);
    MUST(LOOK_UP(cuInit, 0));
    MUST(LOOK_UP(cuDevicePrimaryCtxRetain, &context, 0));
    MUST(LOOK_UP(cuCtxSetCurrent, context));
    EXPECT(CALL(simcuda_register_kernel, "make", "p4", make_on_host) == 0);
    EXPECT(CALL(simcuda_register_kernel, "check", "p4", check_on_host) == 0);
    EXPECT(CALL(simcuda_register_kernel, "hold", "q", hold_on_host) == 0);
    EXPECT(CALL(simcuda_register_kernel, "break_it", "", break_on_host) == 0);
    MUST(CALL(cuModuleLoadData, &module, "kernels of the simulated driver"));
    make = kernel_of(module, "make");
    check = kernel_of(module, "check");
    hold = kernel_of(module, "hold");
    break_it = kernel_of(module, "break_it");
    table = allocate(BYTES);
    MUST(CALL(cuMemsetD8_v2, table, 0, BYTES));
    for (int i = 0; i < WARM_UPS; i++) /* after this, the size is known to the policy */
        free_some();
    MUST(CALL(cuCtxSynchronize));
}

static inline int run_case(const char *program, const char *name) {
    const struct relies_case *row = case_named(name);
    set_up();
    if (row->prepare)
        row->prepare();
    for (unsigned round = 1; round <= (row->rounds ? row->rounds : ROUNDS); round++)
        row->round(round);
    alarm(SOON_S);
    bool bad = __atomic_load_n(&wrong, __ATOMIC_ACQUIRE) || CALL(simcuda_violations);
    printf("%s %s %s\n", bad ? "not ok" : "ok", program, name);
    fflush(stdout);
    return bad ? 9 : 0;
}

#define RUN_CASE(program) run_case(program, count > 1 ? words[1] : NULL)

#endif
