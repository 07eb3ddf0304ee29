/* Blocks of random sizes come and go until the device is nearly full. Counts the requests that fail.
 *
 * usage: capacity PATTERN SEED STEPS PERMILLE [measure]
 *
 * PATTERN   sizes of the blocks: large (2 MiB to an eighth of the device), mixed (512 bytes to a 64th), small (512
 * bytes to 1 MiB), staying (blocks of 300 KB to 1 MB that stay, beside temporaries of 1 KiB to 2 MiB), halves (blocks
 *           come and go, others of about half the size stay)
 * PERMILLE  live blocks take at most this part of what is free at the start, as native memory takes it
 *
 * Between the requests a few calls of other kinds need memory: an allocation from the default pool, a graph's launch, a
 * stream. Prints the numbers of requests and of those that failed, and the first that failed; with "measure" also the
 * mean time of an allocation and its free, and at the end the free bytes and the largest request that fits. */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include "tests/preload/by_name.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST = 200000 };
static const size_t MIB = (size_t)1 << 20, PAGE = (size_t)2 << 20;

static struct block {
    CUdeviceptr address;
    size_t native;
} blocks[MOST];
static unsigned count, failed, requests, first_failed;
static size_t live, most_live, card;
static uint64_t state, spent_ns, pairs;

static uint64_t draw(void) { /* splitmix64 */
    uint64_t z = state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}
static size_t below(size_t most) { return (size_t)(draw() % most); }
/* Small sizes as often as large ones. */
static size_t between(size_t least, size_t most) {
    size_t top = least;
    while (top < most && draw() % 4)
        top *= 2;
    top = top > most ? most : top;
    return top / 2 < least ? least + below(top - least + 1) : top / 2 + below(top / 2 + 1);
}

/* Blocks up to half a page share pages, which loses some of them. */
static size_t native_of(size_t size) {
    return size > PAGE / 2 ? (size + PAGE - 1) / PAGE * PAGE : (size + 511) / 512 * 512 * 5 / 4;
}

static CUresult tried(const char *what, size_t size, CUresult result) {
    requests++;
    if (result != CUDA_SUCCESS && result != CUDA_ERROR_OUT_OF_MEMORY)
        fail("a request", __LINE__, result);
    if (result && !failed++) {
        first_failed = requests;
        fprintf(stderr, "%s of %zu MiB fails with %zu of %zu MiB live\n", what, size / MIB, live / MIB,
                most_live / MIB);
    }
    return result;
}

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void release(unsigned i) {
    uint64_t begin = now_ns();
    MUST(CALL(cuMemFree_v2, blocks[i].address));
    spent_ns += now_ns() - begin;
    live -= blocks[i].native;
    blocks[i] = blocks[--count];
}

static void allocate(size_t size) {
    size_t native = native_of(size);
    while (count && live + native > most_live)
        release((unsigned)below(count));
    if (live + native > most_live || count == MOST)
        return;
    uint64_t begin = now_ns();
    CUresult result = CALL(cuMemAlloc_v2, &blocks[count].address, size);
    spent_ns += now_ns() - begin;
    pairs++;
    if (tried("cuMemAlloc", size, result))
        return;
    blocks[count++].native = native;
    live += native;
}

/* Calls of other kinds, within what is left. */
static void need(CUgraphExec graph) {
    size_t left = most_live - live;
    CUdeviceptr pooled;
    CUstream stream;
    switch (draw() % 3) {
    case 0:
        if (left < 64 * MIB)
            return;
        left = 1 + below(left - 48 * MIB);
        if (tried("cuMemAllocAsync", left, CALL(cuMemAllocAsync, &pooled, left, NULL)))
            return;
        MUST(CALL(cuMemFreeAsync, pooled, NULL));
        MUST(CALL(cuStreamSynchronize, NULL));
        break;
    case 1:
        tried("cuGraphLaunch", 0, CALL(cuGraphLaunch, graph, NULL));
        MUST(CALL(cuStreamSynchronize, NULL));
        break;
    default:
        if (!tried("cuStreamCreate", 0, CALL(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING)))
            MUST(CALL(cuStreamDestroy_v2, stream));
    }
}

static void take_step(const char *pattern, CUgraphExec graph) {
    if (draw() % 50 == 0)
        need(graph);
    if (draw() % 3000 == 0) /* many go at once */
        for (unsigned left = count / 2; left; left--)
            release((unsigned)below(count));
    if (draw() % 3 == 0 && count)
        release((unsigned)below(count));
    else if (!strcmp(pattern, "large"))
        allocate(between(PAGE, card / 8));
    else if (!strcmp(pattern, "mixed"))
        allocate(between(512, card / 64));
    else if (!strcmp(pattern, "small"))
        allocate(between(512, MIB));
    else
        fail("pattern", __LINE__, 0);
}

/* Temporaries are freed by the next request; the others stay until the device is full. */
static void fill(const char *pattern) {
    bool staying = !strcmp(pattern, "staying");
    while (live < most_live - card / 64 && !failed && count < MOST - 1) {
        size_t stays = staying ? 300000 + below(700000) : (draw() % 8 + 1) * card / 256 + below(card / 256);
        allocate(staying ? between(1024, PAGE) : stays * 2 < most_live - live ? stays * 2 : stays);
        if (failed || !count)
            break;
        release(count - 1);
        if (live + native_of(stays) > most_live - card / 64)
            break;
        allocate(stays);
    }
}

/* To 2 MiB. */
static size_t largest_request(void) {
    size_t fits = 0, fails = card / PAGE + 1;
    while (fails - fits > 1) {
        size_t pages = fits + (fails - fits) / 2;
        CUdeviceptr block;
        bool taken = CALL(cuMemAlloc_v2, &block, pages * PAGE) == CUDA_SUCCESS;
        if (taken)
            MUST(CALL(cuMemFree_v2, block));
        *(taken ? &fits : &fails) = pages;
    }
    return fits * PAGE;
}

static void print_measures(void) {
    size_t unused, total;
    MUST(CALL(cuMemGetInfo_v2, &unused, &total));
    printf("%.3f us a pair; %zu MiB free, %zu MiB at most in one request\n", (double)spent_ns / 1e3 / (double)pairs,
           unused / MIB, largest_request() / MIB);
}

int main(int argc, char **argv) {
    CUdevice device;
    CUcontext context;
    CUgraph graph;
    CUgraphExec instance;
    CUstream warm;
    size_t unused;
    if (argc != 5 && (argc != 6 || strcmp(argv[5], "measure") != 0))
        return 2;
    state = strtoull(argv[2], NULL, 10);
    driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver || CALL(cuInit, 0) || CALL(cuDeviceGet, &device, 0))
        return 77;
    MUST(CALL(cuDevicePrimaryCtxRetain, &context, device));
    MUST(CALL(cuCtxSetCurrent, context));
    MUST(CALL(cuGraphCreate, &graph, 0));
    MUST(CALL(cuGraphInstantiateWithFlags, &instance, graph, 0));
    MUST(CALL(cuGraphLaunch, instance, NULL));
    MUST(CALL(cuStreamCreate, &warm, CU_STREAM_NON_BLOCKING));
    MUST(CALL(cuMemGetInfo_v2, &unused, &card));
    most_live = (size_t)((double)unused * strtod(argv[4], NULL) / 1000);
    if (!strcmp(argv[1], "staying") || !strcmp(argv[1], "halves"))
        fill(argv[1]);
    else
        for (unsigned long i = strtoul(argv[3], NULL, 10); i; i--)
            take_step(argv[1], instance);
    printf("%u requests, %u failed, the first %u; %zu MiB live\n", requests, failed, first_failed, live / MIB);
    if (argc == 6)
        print_measures();
    return 0;
}
