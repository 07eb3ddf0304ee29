/* A context ends in one thread, and the driver gives its handle to a new context of another thread before the call that
 * ended the old one has returned: on the simulated driver that call is stopped at its end. The new context has blocks
 * and streams of its own, also after the stopped call has returned. The program reaches the driver by look-ups only.
 *
 * usage: context_handles created [kept] | green | primary | retained | threads ROUNDS
 * kept: freed memory of the new context is expected to be kept. retained: a reference to a primary context is taken
 * while the only other one is released. threads: two threads create and destroy contexts, then retain and release one.
 */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <pthread.h>

#include "by_name.h"
#include "simcuda.h"

enum { BLOCKS = 6, THREADS = 2, MIB = 1 << 20 };

/* ---- blocks of the current context */

static void take_all(CUdeviceptr blocks[BLOCKS], unsigned char value) {
    for (int i = 0; i < BLOCKS; i++) {
        size_t size = (size_t)(i + 1) * MIB;
        MUST(CALL(cuMemAlloc_v2, &blocks[i], size));
        note_alloc("cuMemAlloc", (long long)size, (void *)(uintptr_t)blocks[i]);
        MUST(CALL(cuMemsetD8_v2, blocks[i] + size - 1, (unsigned char)(value + i), 1));
    }
}

static void check_all(const CUdeviceptr blocks[BLOCKS], unsigned char value) {
    for (int i = 0; i < BLOCKS; i++) {
        unsigned char last;
        MUST(CALL(cuMemcpyDtoH_v2, &last, blocks[i] + (size_t)(i + 1) * MIB - 1, 1));
        EXPECT(last == (unsigned char)(value + i));
    }
}

static void give_all(const CUdeviceptr blocks[BLOCKS]) {
    for (int i = 0; i < BLOCKS; i++) {
        note_free("cuMemFree", (void *)(uintptr_t)blocks[i]);
        MUST(CALL(cuMemFree_v2, blocks[i]));
    }
}

static void use(unsigned char value) {
    CUdeviceptr blocks[BLOCKS];
    take_all(blocks, value);
    check_all(blocks, value);
    give_all(blocks);
}

static void lose_one(void) {
    CUdeviceptr block;
    MUST(CALL(cuMemAlloc_v2, &block, MIB));
    note_alloc("cuMemAlloc", MIB, (void *)(uintptr_t)block);
    note("gone", "cuMemAlloc", MIB, (void *)(uintptr_t)block);
}

/* ---- a thread that stops at the end of a driver call */

static struct stop { int here, go_on; } first, second;

static void stop_at(struct stop *stop) {
    CALL(simcuda_set_after, NULL, NULL);
    __atomic_store_n(&stop->here, 1, __ATOMIC_RELEASE);
    while (!__atomic_load_n(&stop->go_on, __ATOMIC_ACQUIRE))
        usleep(100);
}

static void stop_first(void) { stop_at(&first); }
static void stop_second(void) { stop_at(&second); }

static void wait_for(const struct stop *stop, int ms) {
    for (int i = 0; i < 10 * ms && !__atomic_load_n(&stop->here, __ATOMIC_ACQUIRE); i++)
        usleep(100);
}

static void let_go(struct stop *stop, pthread_t thread) {
    __atomic_store_n(&stop->go_on, 1, __ATOMIC_RELEASE);
    EXPECT(pthread_join(thread, NULL) == 0);
}

/* ---- how contexts are made */

static CUgreenCtx part; /* of the latest green context */

static CUcontext create(void) {
    CUcontext context;
    MUST(CALL(cuCtxCreate_v2, &context, 0, 0));
    return context;
}

static CUcontext create_green(void) {
    CUcontext context;
    CUdevResource whole;
    CUdevResourceDesc resources;
    MUST(CALL(cuDeviceGetDevResource, 0, &whole, CU_DEV_RESOURCE_TYPE_SM));
    MUST(CALL(cuDevResourceGenerateDesc, &resources, &whole, 1));
    MUST(CALL(cuGreenCtxCreate, &part, resources, 0, CU_GREEN_CTX_DEFAULT_STREAM));
    MUST(CALL(cuCtxFromGreenCtx, &context, part));
    MUST(CALL(cuCtxSetCurrent, context));
    return context;
}

static CUcontext retain(void) {
    CUcontext context;
    MUST(CALL(cuDevicePrimaryCtxRetain, &context, 0));
    MUST(CALL(cuCtxSetCurrent, context));
    return context;
}

static void destroy(CUcontext context) { MUST(CALL(cuCtxDestroy_v2, context)); }
static void destroy_green(CUcontext unused) { (void)unused, MUST(CALL(cuGreenCtxDestroy, part)); }
static void release(CUcontext unused) {
    MUST(CALL(cuCtxSetCurrent, NULL));
    MUST(CALL(cuDevicePrimaryCtxRelease_v2, 0));
}

static const struct way {
    const char *name, *ends; /* the driver call that ends a context */
    CUcontext (*make)(void);
    void (*end)(CUcontext context);
} ways[] =
    {
        {"created", "cuCtxDestroy_v2", create, destroy},
        {"green", "cuGreenCtxDestroy", create_green, destroy_green},
        {"primary", "cuDevicePrimaryCtxRelease_v2", retain, release},
},
  *way;

/* ---- the old context ends while the new one is made */

static CUcontext old;

static void *make_and_end(void *unused) {
    old = way->make();
    use(1);
    if (way->end != destroy_green) /* memory of a green context may outlive it */
        lose_one();
    CALL(simcuda_set_after, way->ends, stop_first);
    way->end(old);
    return unused;
}

static int keeps(void) {
    CUdeviceptr block;
    MUST(CALL(cuMemAlloc_v2, &block, MIB));
    note_alloc("cuMemAlloc", MIB, (void *)(uintptr_t)block);
    uint64_t frees = CALL(simcuda_calls, "cuMemFree_v2");
    note_free("cuMemFree", (void *)(uintptr_t)block);
    MUST(CALL(cuMemFree_v2, block));
    return CALL(simcuda_calls, "cuMemFree_v2") == frees;
}

static void meet(int kept) {
    CUdeviceptr blocks[BLOCKS];
    pthread_t thread;
    if (way->make == create_green)
        retain();
    EXPECT(pthread_create(&thread, NULL, make_and_end, NULL) == 0);
    wait_for(&first, 60000);
    CUcontext made = way->make();
    EXPECT(made == old);
    take_all(blocks, 10);
    let_go(&first, thread);
    check_all(blocks, 10);
    give_all(blocks);
    use(20);
    EXPECT(!kept || keeps());
    if (way->make == create) {
        CUcontext other = create();
        use(30);
        destroy(made); /* while another one is current */
        made = other;
    }
    way->end(made);
}

/* ---- a primary context is retained while it is released */

static void *retain_late(void *unused) {
    CALL(simcuda_set_after, "cuDevicePrimaryCtxGetState", stop_first); /* gpumem's call; natively there is none */
    retain();
    return unused;
}

static void *release_late(void *unused) {
    release(NULL);
    return unused;
}

static void meet_retained(void) {
    CUdeviceptr blocks[BLOCKS];
    pthread_t retaining, releasing;
    CUcontext context = retain();
    use(1);
    EXPECT(pthread_create(&retaining, NULL, retain_late, NULL) == 0);
    wait_for(&first, 200);
    CALL(simcuda_set_after, "cuDevicePrimaryCtxRelease_v2", stop_second);
    EXPECT(pthread_create(&releasing, NULL, release_late, NULL) == 0);
    wait_for(&second, 200);
    let_go(&first, retaining);
    MUST(CALL(cuCtxSetCurrent, context));
    take_all(blocks, 10);
    let_go(&second, releasing);
    check_all(blocks, 10);
    give_all(blocks);
    release(context);
}

/* ---- contexts come and go in two threads */

static int rounds;

static void *come_and_go(void *with) {
    const struct way *one = with;
    for (int i = 0; i < rounds; i++) {
        CUcontext context = one->make();
        use((unsigned char)i);
        one->end(context);
    }
    return NULL;
}

static void in_threads(const struct way *with) {
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        EXPECT(pthread_create(&threads[i], NULL, come_and_go, (void *)with) == 0);
    for (int i = 0; i < THREADS; i++)
        EXPECT(pthread_join(threads[i], NULL) == 0);
}

int main(int count, char **words) {
    EXPECT(count > 1 && (driver = dlopen("libcuda.so.1", RTLD_NOW)) != NULL);
    MUST(CALL(cuInit, 0));
    for (unsigned i = 0; i < sizeof ways / sizeof *ways; i++)
        if (strcmp(words[1], ways[i].name) == 0)
            way = &ways[i];
    rounds = count > 2 ? atoi(words[2]) : 0;
    if (way) {
        meet(count > 2);
    } else if (strcmp(words[1], "retained") == 0) {
        meet_retained();
    } else {
        EXPECT(strcmp(words[1], "threads") == 0 && rounds > 0);
        in_threads(&ways[0]);
        in_threads(&ways[2]);
    }
    EXPECT(CALL(simcuda_violations) == 0 && CALL(simcuda_stale_events) == 0);
    printf("ok context_handles %s\n", words[1]);
    return 0;
}
