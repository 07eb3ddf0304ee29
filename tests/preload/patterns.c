/* Patterns of allocations: how many calls reach the driver, how much memory the program holds, and what queries say of
 * blocks that serve other sizes. The simulated driver counts.
 *
 * usage: patterns fresh | pages | random */
#include <cuda.h>
#include <sys/resource.h>

#include "program.h"

#include "simcuda.h"

enum { FRESH = 1000, LIVE = 64, STEPS = 8192 };
#define MIB ((size_t)1 << 20)

static CUdeviceptr take(size_t size) {
    CUdeviceptr address = 0;
    MUST(cuMemAlloc(&address, size));
    return address;
}

static long faults(void) {
    struct rusage usage;
    MUST(getrusage(RUSAGE_SELF, &usage));
    return usage.ru_minflt;
}

/* The library's tables grow with the blocks, not ahead of them. Each new block took a page fault of its own once. */
static void fresh(void) {
    static CUdeviceptr blocks[FRESH];
    memset(blocks, 0, sizeof blocks);
    MUST(cuMemFree(take(512)));
    long before = faults();
    for (int i = 0; i < FRESH; i++)
        blocks[i] = take(512 + 3 * (size_t)i);
    long most = faults() - before;
    if (most > FRESH * 6 / 10)
        fprintf(stderr, "%ld page faults\n", most);
    EXPECT(most <= FRESH * 6 / 10);
    for (int i = 0; i < FRESH; i++)
        MUST(cuMemFree(blocks[i]));
}

/* Sizes of the same number of pages serve each other, and queries know only the bytes of the request. */
static void pages(void) {
    CUdeviceptr first = 0, base;
    size_t size;
    for (int i = 0; i < 20; i++) { /* more than a batch, so that the block comes back */
        CUdeviceptr block = take(3 * MIB);
        first = i ? first : block;
        MUST(cuMemFree(block));
    }
    uint64_t calls = simcuda_calls("cuMemAlloc_v2");
    CUdeviceptr block = take(3 * MIB + MIB / 2);
    EXPECT(simcuda_calls("cuMemAlloc_v2") == calls);
    MUST(cuMemGetAddressRange(&base, &size, block));
    EXPECT(base == block && size == 3 * MIB + MIB / 2);
    MUST(cuPointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, block));
    EXPECT(size == 3 * MIB + MIB / 2);
    EXPECT(cuMemGetAddressRange(&base, &size, block + 3 * MIB + MIB / 2) == CUDA_ERROR_NOT_FOUND);
    CUdeviceptr other = take(4 * MIB);
    EXPECT(other != block);
    MUST(cuMemFree(other));
    MUST(cuMemFree(block));
    EXPECT(cuMemFree(block) == CUDA_ERROR_INVALID_VALUE);
}

static uint32_t seed = 42;
static uint32_t random_number(void) { return (seed = seed * 1664525u + 1013904223u) >> 8; }

/* Sizes from 512 bytes to 64 MiB, as many of each power of two. */
static size_t random_size(void) {
    size_t power = (size_t)512 << random_number() % 17;
    return power + random_number() % power;
}

/* What native memory takes: whole pages of 2 MiB from 1 MiB on. */
static size_t native(size_t size) {
    size_t unit = size >= MIB ? 2 * MIB : 512;
    return (size + unit - 1) / unit * unit;
}

/* One of the live blocks is replaced in each step. */
static void random_sizes(void) {
    static CUdeviceptr blocks[LIVE];
    static size_t sizes[LIVE];
    size_t live = 0, most = 0, most_used = 0;
    uint64_t calls = 0;
    for (int i = 0; i < 2 * STEPS; i++) {
        int at = i < LIVE ? i : (int)(random_number() % LIVE);
        if (i >= LIVE)
            MUST(cuMemFree(blocks[at]));
        live -= native(sizes[at]);
        sizes[at] = random_size();
        live += native(sizes[at]);
        most = live > most ? live : most;
        if (i == STEPS) {
            calls = simcuda_calls("cuMemAlloc_v2");
            most_used = 0;
        }
        blocks[at] = take(sizes[at]);
        most_used = simcuda_used(0) > most_used ? simcuda_used(0) : most_used;
    }
    calls = simcuda_calls("cuMemAlloc_v2") - calls;
    fprintf(stderr, "%zu MiB live, %zu MiB used, %llu of %d requests reached the driver\n", most / MIB, most_used / MIB,
            (unsigned long long)calls, STEPS);
    EXPECT(calls <= STEPS / 40);
    /* A block of the largest size comes on top until the next batch of frees, and small blocks leave gaps in pages. */
    EXPECT(most_used <= most * 3 + (512 + 64 + 24) * MIB);
    for (int i = 0; i < LIVE; i++)
        MUST(cuMemFree(blocks[i]));
}

int main(int argc, char **argv) {
    const char *name = argc == 2 ? argv[1] : "";
    start_driver();
    if (!strcmp(name, "fresh"))
        fresh();
    else if (!strcmp(name, "pages"))
        pages();
    else if (!strcmp(name, "random"))
        random_sizes();
    else
        return 2;
    return 0;
}
