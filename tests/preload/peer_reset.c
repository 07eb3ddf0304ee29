/* A second device, which may access the first one's memory, is reset (or its context is released or destroyed) while
 * another thread works on the first device. That thread's allocations and frees work during the call and after it,
 * and no call uses an event of the destroyed context. On the simulated driver a host function delays the call.
 * Argument: how the context ends, or "held" when it stays. */
#include <pthread.h>

#include <cuda.h>

#include "program.h"
#include "simcuda.h"

enum { ROUNDS = 100, MIB = 1 << 20 };

static CUcontext first, second;
static int inside, go_on;

static void hold_up(void *unused) {
    __atomic_store_n(&inside, 1, __ATOMIC_RELEASE);
    while (!__atomic_load_n(&go_on, __ATOMIC_ACQUIRE))
        usleep(100);
}

static void reset(void) { MUST(cuDevicePrimaryCtxReset(1)); }
static void give_up(void) { MUST(cuDevicePrimaryCtxRelease(1)); }
static void destroy(void) { MUST(cuCtxDestroy(second)); }

static const struct {
    const char *name;
    void (*go)(void);
    int holds;
} ways[] = {{"reset", reset, 1}, {"release", give_up, 1}, {"destroy", destroy, 0}, {"held", give_up, 2}}, *way;

static void *end_second(void *unused) {
    way->go();
    __atomic_store_n(&inside, 1, __ATOMIC_RELEASE);
    return NULL;
}

static void come_and_go(void) {
    for (int i = 0; i < ROUNDS; i++) {
        CUdeviceptr block;
        MUST(cuMemAlloc(&block, MIB));
        note_alloc("cuMemAlloc", MIB, (void *)(uintptr_t)block);
        MUST(cuMemsetD8(block, (unsigned char)i, 1));
        note_free("cuMemFree", (void *)(uintptr_t)block);
        MUST(cuMemFree(block));
    }
}

int main(int count, char **arguments) {
    CUstream stream;
    pthread_t thread;
    EXPECT(count == 2);
    for (unsigned i = 0; i < sizeof ways / sizeof *ways; i++)
        if (strcmp(ways[i].name, arguments[1]) == 0)
            way = &ways[i];
    EXPECT(way != NULL);
    MUST(cuInit(0));
    MUST(cuDevicePrimaryCtxRetain(&first, 0));
    for (int i = 0; i < way->holds; i++)
        MUST(cuDevicePrimaryCtxRetain(&second, 1));
    if (!way->holds)
        MUST(cuCtxCreate(&second, NULL, 0, 1));
    MUST(cuCtxSetCurrent(second));
    MUST(cuCtxEnablePeerAccess(first, 0));
    MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    MUST(cuCtxSetCurrent(first));
    come_and_go();

    simcuda_set_streams("manual");
    if (way->holds < 2)
        MUST(cuLaunchHostFunc(stream, hold_up, NULL));
    EXPECT(pthread_create(&thread, NULL, end_second, NULL) == 0);
    while (!__atomic_load_n(&inside, __ATOMIC_ACQUIRE))
        usleep(100);
    come_and_go();
    __atomic_store_n(&go_on, 1, __ATOMIC_RELEASE);
    EXPECT(pthread_join(thread, NULL) == 0);
    simcuda_set_streams("immediate");
    come_and_go();
    printf("stale %d\n", (int)simcuda_stale_events());
    printf("ok peer_reset %s\n", way->name);
    return 0;
}
