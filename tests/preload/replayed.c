/* Replays the allocations and frees of a recorded trace in their order, work in flight behind each: a fill in a stream.
 * Prints how many of them reached the simulated driver. It opens the driver, as the CUDA runtime does.
 *
 * usage: replayed SHAPE TRACE.csv
 * SHAPE: default = all work in the default stream; streams = in the default stream and two of its own, in turn;
 * hidden = in the per-thread default stream */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <dlfcn.h>
#include <stdbool.h>

#include "program.h"
#include "simcuda.h"

enum { STREAMS = 3, BLOCKS = 8192 };

static void *driver;

static void *find(const char *name) {
    void *function = dlsym(driver, name);
    if (!function)
        fail(name, __LINE__, 0);
    return function;
}
/* Calls a function of the driver by its exact name. */
#define CALL(name, ...) ((__typeof__(&name))find(#name))(__VA_ARGS__)

static struct {
    unsigned long long recorded; /* address in the trace; 0 = none */
    CUdeviceptr block;
} live[BLOCKS];

static CUdeviceptr *place_of(unsigned long long recorded, bool take) {
    for (int i = 0; i < BLOCKS; i++)
        if (live[i].recorded == (take ? 0 : recorded)) {
            live[i].recorded = take ? recorded : 0;
            return &live[i].block;
        }
    return NULL; /* of memory that was allocated before the trace began */
}

/* Columns: seq, time_ns, action, call, address, bytes, ... */
static void replay(FILE *trace, const CUstream *streams, unsigned stream_count, unsigned long *allocs,
                   unsigned long *frees) {
    char line[512], action[16], call[32];
    unsigned long long address;
    size_t bytes;
    while (fgets(line, sizeof line, trace)) {
        if (sscanf(line, "%*u,%*u,%15[a-z],%31[A-Za-z],%llx,%zu", action, call, &address, &bytes) != 4)
            continue;
        bool allocates = !strcmp(call, "cuMemAlloc") && !strcmp(action, "alloc");
        CUdeviceptr *block = allocates || !strcmp(action, "free") ? place_of(address, allocates) : NULL;
        if (!block)
            continue;
        if (allocates) {
            MUST(CALL(cuMemAlloc_v2, block, bytes));
            MUST(CALL(cuMemsetD8Async, *block, 1, 1, streams[*allocs % stream_count]));
            ++*allocs;
        } else {
            MUST(CALL(cuMemFree_v2, *block));
            ++*frees;
        }
    }
}

int main(int count, char **words) {
    CUcontext context;
    CUstream streams[STREAMS] = {NULL};
    unsigned long allocs = 0, frees = 0;
    driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    FILE *trace = count == 3 ? fopen(words[2], "r") : NULL;
    if (!driver || !trace)
        return 2;
    unsigned stream_count = !strcmp(words[1], "streams") ? STREAMS : 1;
    MUST(CALL(cuInit, 0));
    MUST(CALL(cuDevicePrimaryCtxRetain, &context, 0));
    MUST(CALL(cuCtxSetCurrent, context));
    if (!strcmp(words[1], "hidden"))
        streams[0] = CU_STREAM_PER_THREAD;
    for (unsigned i = 1; i < stream_count; i++)
        MUST(CALL(cuStreamCreate, &streams[i], CU_STREAM_NON_BLOCKING));
    replay(trace, streams, stream_count, &allocs, &frees);
    fclose(trace);
    printf("allocs %lu frees %lu", allocs, frees);
    static const char *const counted[] = {"cuMemAlloc_v2", "cuMemFree_v2", "cuMemAllocFromPoolAsync",
                                          "cuMemAllocManaged", "cuCtxWaitEvent"};
    for (size_t i = 0; i < sizeof counted / sizeof *counted; i++)
        printf(" %s %llu", counted[i],
               (unsigned long long)((__typeof__(&simcuda_calls))find("simcuda_calls"))(counted[i]));
    printf(" violations %llu\n", (unsigned long long)CALL(simcuda_violations));
    return 0;
}
