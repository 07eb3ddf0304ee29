/* Pairs of cuMemAlloc and cuMemFree that take the fast case: the driver is opened, not linked, and one stream carries
 * all work.
 *
 * usage: short_path pairs COUNT BYTES | replaced | double_free | two_frees | threads | trim | fences | marked |
 * contexts | reset | forked | in_flight | inside | closing
 */
#include <cuda.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/wait.h>

#include "program.h"

#undef cuGetProcAddress

enum { SIZE = 4096, THREADS = 4, BLOCKS = 40 };

static void *driver;

static void *find(const char *name) {
    void *function = dlsym(driver, name);
    EXPECT(function != NULL);
    return function;
}

static CUresult (*get)(CUdeviceptr *, size_t);
static CUresult (*give)(CUdeviceptr);

static CUdeviceptr take(size_t size) {
    CUdeviceptr address = 0;
    MUST(get(&address, size));
    return address;
}

static void pairs(long count, size_t size) {
    for (long i = 0; i < count; i++)
        MUST(give(take(size)));
}

/* ---- 64 live blocks of random sizes, 512 bytes to 64 MiB, as many of each power of two; each step replaces one */

enum { LIVE = 64, STEPS = 8192 };
static CUdeviceptr kept_live[LIVE];
static size_t sizes[STEPS];
static unsigned char places[STEPS];

static void replace_all(void) {
    for (int i = 0; i < STEPS; i++) {
        if (kept_live[places[i]])
            MUST(give(kept_live[places[i]]));
        kept_live[places[i]] = take(sizes[i]);
    }
}

/* Pairs; replacements if there is no count. */
__attribute__((noinline)) void measured(long count, size_t size);
void measured(long count, size_t size) {
    if (count)
        pairs(count, size);
    else
        replace_all();
}

/* The same steps twice: the instructions of the second time are counted. */
static void replaced(void) {
    unsigned seed = 42;
    for (int i = 0; i < STEPS; i++) {
        size_t power = (size_t)512 << rand_r(&seed) % 17;
        sizes[i] = power + (size_t)rand_r(&seed) % power;
        places[i] = (unsigned char)(rand_r(&seed) % LIVE);
    }
    replace_all();
    measured(0, 0);
    for (int i = 0; i < LIVE; i++)
        if (kept_live[i])
            MUST(give(kept_live[i]));
}

static unsigned long long live(void) { return ((size_t(*)(void))dlsym(RTLD_DEFAULT, "gpumem_live_count"))(); }

/* The driver's blocks. */
static size_t held(void) { return ((size_t(*)(void))find("simcuda_live_blocks"))(); }

static void trim(void) {
    size_t released;
    ((int (*)(size_t, size_t *))dlsym(RTLD_DEFAULT, "gpumem_trim"))(SIZE_MAX, &released);
}

static void use_device(void) {
    CUcontext context;
    MUST(((CUresult(*)(CUcontext *, CUdevice))find("cuDevicePrimaryCtxRetain"))(&context, 0));
    MUST(((CUresult(*)(CUcontext))find("cuCtxSetCurrent"))(context));
}

/* ---- frees */

static void double_free(void) {
    pairs(100, SIZE);
    CUdeviceptr address = take(SIZE);
    MUST(give(address));
    EXPECT(give(address) == CUDA_ERROR_INVALID_VALUE);
    EXPECT(give(address + SIZE) == CUDA_ERROR_INVALID_VALUE);
    EXPECT(live() == 0);
}

static CUdeviceptr shared;
static int succeeded;
static pthread_barrier_t barrier;

static void *free_shared(void *unused) {
    use_device();
    for (int i = 0; i < 200; i++) {
        pthread_barrier_wait(&barrier);
        if (give(__atomic_load_n(&shared, __ATOMIC_RELAXED)) == CUDA_SUCCESS)
            __atomic_add_fetch(&succeeded, 1, __ATOMIC_RELAXED);
        pthread_barrier_wait(&barrier);
    }
    return unused;
}

/* One of two frees at the same moment succeeds. */
static void two_frees(void) {
    pthread_t other;
    pthread_barrier_init(&barrier, NULL, 2);
    pairs(100, SIZE);
    MUST(pthread_create(&other, NULL, free_shared, NULL));
    for (int i = 0; i < 200; i++) {
        __atomic_store_n(&shared, take(SIZE), __ATOMIC_RELAXED);
        __atomic_store_n(&succeeded, 0, __ATOMIC_RELAXED);
        pthread_barrier_wait(&barrier);
        if (give(shared) == CUDA_SUCCESS)
            __atomic_add_fetch(&succeeded, 1, __ATOMIC_RELAXED);
        pthread_barrier_wait(&barrier);
        EXPECT(__atomic_load_n(&succeeded, __ATOMIC_RELAXED) == 1);
    }
    pthread_join(other, NULL);
    EXPECT(live() == 0);
}

/* ---- threads: blocks go from thread to thread, and no address is given out twice */

static CUdeviceptr table[THREADS * BLOCKS]; /* 0 = empty */

static void check_new(CUdeviceptr address) {
    for (int i = 0; i < THREADS * BLOCKS; i++)
        EXPECT(__atomic_load_n(&table[i], __ATOMIC_SEQ_CST) != address);
}

static void *work(void *number) {
    unsigned seed = 7 + (unsigned)(uintptr_t)number;
    use_device();
    for (int i = 0; i < 4000; i++) {
        int at = rand_r(&seed) % (THREADS * BLOCKS);
        CUdeviceptr old = __atomic_exchange_n(&table[at], 0, __ATOMIC_SEQ_CST), none = 0;
        if (old) {
            MUST(give(old));
            continue;
        }
        CUdeviceptr made = take(512u << rand_r(&seed) % 4);
        check_new(made);
        if (!__atomic_compare_exchange_n(&table[at], &none, made, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
            MUST(give(made));
        if (i % 1000 == 999)
            trim();
    }
    return number;
}

static void threads(void) {
    pthread_t others[THREADS];
    for (int rounds = 0; rounds < 3; rounds++) { /* those of later rounds find blocks of ended threads */
        for (uintptr_t i = 0; i < THREADS; i++)
            MUST(pthread_create(&others[i], NULL, work, (void *)i));
        for (int i = 0; i < THREADS; i++)
            pthread_join(others[i], NULL);
    }
    for (int i = 0; i < THREADS * BLOCKS; i++)
        if (table[i])
            MUST(give(table[i]));
    EXPECT(live() == 0);
}

/* ---- release of kept blocks */

static void *trim_apart(void *unused) {
    use_device();
    trim();
    return unused;
}

static void trimmed(void) {
    pthread_t other;
    for (int i = 0; i < 10; i++) {
        pairs(100, SIZE);
        MUST(pthread_create(&other, NULL, trim_apart, NULL));
        pthread_join(other, NULL);
        EXPECT(held() == 0);
    }
}

/* A fence covers a few frees, and a few MiB: pairs go around in few blocks. */
static void fences(void) {
    pairs(100, SIZE);
    EXPECT(held() <= 40);
    trim();
    pairs(100, (size_t)4 << 20);
    EXPECT(held() <= 8);
}

/* A block with an attribute of the program goes back to the driver: the next owner must not find it. */
static void marked(void) {
    unsigned value = 1;
    pairs(100, SIZE);
    CUdeviceptr block = take(SIZE);
    size_t before = held();
    MUST(((CUresult(*)(const void *, CUpointer_attribute, CUdeviceptr))find("cuPointerSetAttribute"))(
        &value, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, block));
    MUST(give(block));
    EXPECT(held() == before - 1);
}

/* Free memory of a context serves this context only. */
static void contexts(void) {
    CUcontext other;
    CUdeviceptr blocks[40];
    pairs(100, SIZE);
    MUST(((CUresult(*)(CUcontext *, unsigned, CUdevice))find("cuCtxCreate_v2"))(&other, 0, 0));
    for (int i = 0; i < 40; i++)
        blocks[i] = take(SIZE);
    MUST(((CUresult(*)(CUdevice))find("cuDevicePrimaryCtxReset_v2"))(0));
    EXPECT(live() == 40);
    for (int i = 0; i < 40; i++)
        MUST(give(blocks[i]));
    EXPECT(live() == 0);
}

static void reset(void) {
    for (int i = 0; i < 5; i++) {
        pairs(100, SIZE);
        CUdeviceptr lost = take(SIZE);
        MUST(((CUresult(*)(CUdevice))find("cuDevicePrimaryCtxReset_v2"))(0));
        EXPECT(live() == 0);
        use_device();
        EXPECT(give(lost) != CUDA_SUCCESS);
    }
}

static void forked(void) {
    int status;
    pairs(100, SIZE);
    CUdeviceptr block = take(SIZE);
    pid_t child = fork();
    if (!child) {
        give(take(SIZE)); /* fails as natively, or not: it must only return */
        _exit(0);
    }
    EXPECT(waitpid(child, &status, 0) == child && status == 0);
    MUST(give(block));
    pairs(100, SIZE);
    EXPECT(live() == 0);
}

/* ---- memory of work in flight, and addresses inside of blocks */

static void in_flight(void) {
    CUresult (*set)(CUdeviceptr, unsigned char, size_t, CUstream) = find("cuMemsetD8Async");
    void (*run_all)(void) = find("simcuda_run_all");
    pairs(100, SIZE);
    run_all();
    ((void (*)(const char *))find("simcuda_set_streams"))("manual");
    for (int i = 0; i < 200; i++) {
        CUdeviceptr busy[3];
        for (int j = 0; j < 3; j++) {
            busy[j] = take(SIZE);
            for (int k = 0; k < j; k++) /* all work is in one stream, but async promises no order */
                EXPECT((busy[j] == busy[k]) == !strcmp(getenv("GPUMEM_FREE"), "safe"));
            MUST(set(busy[j], 1, SIZE, NULL));
            MUST(give(busy[j]));
        }
        run_all();
    }
    EXPECT(((uint64_t(*)(void))find("simcuda_violations"))() == 0);
}

static void inside(void) {
    CUdeviceptr base = 0;
    size_t bytes = 0;
    pairs(100, SIZE);
    for (int i = 0; i < 100; i++) {
        CUdeviceptr block = take(SIZE - (size_t)i);
        MUST(((CUresult(*)(CUdeviceptr *, size_t *, CUdeviceptr))find("cuMemGetAddressRange_v2"))(&base, &bytes,
                                                                                                  block + 7));
        EXPECT(base == block && bytes == SIZE - (size_t)i);
        MUST(give(block));
        EXPECT(((CUresult(*)(CUdeviceptr *, size_t *, CUdeviceptr))find("cuMemGetAddressRange_v2"))(
                   &base, &bytes, block + 7) == CUDA_ERROR_NOT_FOUND);
    }
    EXPECT(live() == 0);
}

/* ---- GPUMEM_GUARD=all: a free closes the blocks that were freed before */

static int stopped, goes_on;

static void set_after(const char *symbol, void (*then)(void)) {
    ((void (*)(const char *, void (*)(void)))find("simcuda_set_after"))(symbol, then);
}

static void stop(void) {
    set_after(NULL, NULL);
    __atomic_store_n(&stopped, 1, __ATOMIC_RELEASE);
    while (!__atomic_load_n(&goes_on, __ATOMIC_ACQUIRE))
        usleep(100);
}

static uint64_t unmapped(void) { return ((uint64_t(*)(const char *))find("simcuda_calls"))("cuMemUnmap"); }

static void *free_one(void *address) {
    use_device();
    MUST(give((CUdeviceptr)(uintptr_t)address));
    return NULL;
}

/* While one thread closes blocks, another one that frees closes none. */
static void closing(void) {
    CUdeviceptr first = take(SIZE), second = take(SIZE);
    pthread_t closer, other;
    set_after("cuMemUnmap", stop);
    EXPECT(pthread_create(&closer, NULL, free_one, (void *)(uintptr_t)first) == 0);
    while (!__atomic_load_n(&stopped, __ATOMIC_ACQUIRE))
        usleep(100);
    uint64_t before = unmapped();
    EXPECT(pthread_create(&other, NULL, free_one, (void *)(uintptr_t)second) == 0);
    usleep(100000);
    EXPECT(unmapped() == before);
    __atomic_store_n(&goes_on, 1, __ATOMIC_RELEASE);
    EXPECT(pthread_join(closer, NULL) == 0 && pthread_join(other, NULL) == 0);
    EXPECT(live() == 0 && unmapped() == before + 1);
}

int main(int count, char **words) {
    static const struct {
        const char *name;
        void (*run)(void);
    } modes[] = {{"replaced", replaced}, {"double_free", double_free}, {"two_frees", two_frees}, {"threads", threads},
                 {"trim", trimmed},      {"fences", fences},           {"marked", marked},       {"contexts", contexts},
                 {"reset", reset},       {"forked", forked},           {"in_flight", in_flight}, {"inside", inside},
                 {"closing", closing}};
    driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    EXPECT(driver != NULL && count > 1);
    get = find("cuMemAlloc_v2");
    give = find("cuMemFree_v2");
    MUST(((CUresult(*)(unsigned))find("cuInit"))(0));
    use_device();
    if (count == 4) {
        size_t size = strtoul(words[3], NULL, 10);
        pairs(1000, size);
        measured(atol(words[2]), size);
        return 0;
    }
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (!strcmp(modes[i].name, words[1])) {
            modes[i].run();
            return 0;
        }
    return 2;
}
