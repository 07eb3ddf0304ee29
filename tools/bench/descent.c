/* One call at a time of those that descent.py follows through the library: each is the only call inside measured().
 * Argument: hit, miss, free or upkeep. */
#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#undef cuGetProcAddress

enum { LIVE = 64, MORE = 200, SIZE = 4096, MISSES = 5, OTHERS = 2000 };

static CUresult (*get)(CUdeviceptr *, size_t);
static CUresult (*give)(CUdeviceptr);
static CUdeviceptr blocks[LIVE + MORE], others[OTHERS];

static void must(CUresult result) {
    if (result != CUDA_SUCCESS) {
        fprintf(stderr, "descent: the driver's error %d\n", (int)result);
        exit(1);
    }
}

/* Allocates into `block` if it is empty, else frees it. */
__attribute__((noinline)) void measured(CUdeviceptr *block, size_t size);
void measured(CUdeviceptr *block, size_t size) {
    if (*block) {
        must(give(*block));
        *block = 0;
    } else {
        must(get(block, size));
    }
}

static CUdeviceptr take(size_t size) {
    CUdeviceptr address;
    must(get(&address, size));
    return address;
}

static void pairs(int count) {
    for (int i = 0; i < count; i++)
        must(give(take(SIZE)));
}

/* Blocks of many sizes are live, some are free, and some of the free ones wait for a fence. */
static void fill(void) {
    unsigned seed = 7;
    for (int round = 0; round < 4; round++)
        for (int i = 0; i < LIVE; i++) {
            size_t power = (size_t)512 << rand_r(&seed) % 15;
            if (blocks[i] && rand_r(&seed) % 2) {
                must(give(blocks[i]));
                blocks[i] = 0;
            } else if (!blocks[i]) {
                blocks[i] = take(power + (size_t)rand_r(&seed) % power);
            }
        }
}

int main(int count, char **words) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!driver || count != 2) {
        fprintf(stderr, "usage: descent hit|miss|free|upkeep, with libcuda.so.1 in the library path\n");
        return 2;
    }
    CUresult (*init)(unsigned) = (CUresult(*)(unsigned))dlsym(driver, "cuInit");
    CUresult (*retain)(CUcontext *, CUdevice) = dlsym(driver, "cuDevicePrimaryCtxRetain");
    CUresult (*set)(CUcontext) = dlsym(driver, "cuCtxSetCurrent");
    CUcontext context;
    get = dlsym(driver, "cuMemAlloc_v2");
    give = dlsym(driver, "cuMemFree_v2");
    must(init(0));
    must(retain(&context, 0));
    must(set(context));
    for (int i = 0; i < OTHERS; i++)
        others[i] = take(512);
    pairs(1000);
    fill();
    CUdeviceptr block = 0;
    if (!strcmp(words[1], "hit") || !strcmp(words[1], "free")) {
        pairs(1);
        if (words[1][0] == 'f')
            block = take(SIZE);
        measured(&block, SIZE);
    } else if (!strcmp(words[1], "miss")) {
        size_t size = 36 << 20;
        for (int i = 0; i < MISSES; i++)
            measured(&blocks[LIVE + i], size + i * (size / 5));
    } else if (!strcmp(words[1], "upkeep")) {
        for (int i = 0; i < MORE; i++)
            blocks[LIVE + i] = take((size_t)2 << 20);
        for (int i = 0; i < MORE; i++)
            measured(&blocks[LIVE + i], 0);
    } else {
        return 2;
    }
    return 0;
}
