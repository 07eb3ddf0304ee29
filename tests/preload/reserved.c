/* Does what its arguments say, one after the other, and prints "ok" when all is done:
 *
 *   NxSIZE   cudaMalloc of N blocks of SIZE bytes; SIZE may end with k or m. N! blocks may fail.
 *   a:NxSIZE the same by cudaMallocAsync
 *   v:NxSIZE the same by cuMemCreate and cuMemMap, as the platform allocator of JAX does
 *   r:NxSIZE the same, with the address range first
 *   -        frees all blocks
 *   =        frees them, but keeps the address ranges until the next -
 *   ?        cudaMemGetInfo
 *   ~MS      sleeps so many milliseconds
 *   .        prints "ready" and waits for a line */
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <stdbool.h>

#include "program.h"

enum { MOST = 4096 };
static struct block {
    void *address;
    size_t mapped;                       /* 0: by the runtime */
    CUmemGenericAllocationHandle handle; /* 0: freed but for its address range */
} blocks[MOST];
static unsigned count;

static void map(struct block *block, size_t size, bool range_first) {
    const CUmemAllocationProp plain = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                       .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    const CUmemAccessDesc access = {.location = plain.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUdeviceptr address = 0;
    if (range_first)
        MUST(cuMemAddressReserve(&address, size, 0, 0, 0));
    MUST(cuMemCreate(&block->handle, size, &plain, 0));
    if (!range_first)
        MUST(cuMemAddressReserve(&address, size, 0, 0, 0));
    MUST(cuMemMap(address, size, 0, block->handle, 0));
    MUST(cuMemSetAccess(address, size, &access, 1));
    block->address = (void *)address;
    block->mapped = size;
}

static void unmap(struct block *block) {
    CUmemGenericAllocationHandle same;
    if (!block->handle)
        return;
    MUST(cuMemRetainAllocationHandle(&same, block->address));
    MUST(cuMemRelease(same));
    MUST(cuMemUnmap((CUdeviceptr)block->address, block->mapped));
    MUST(cuMemRelease(block->handle));
    block->handle = 0;
}

static void release(struct block *block) {
    if (block->mapped) {
        unmap(block);
        MUST(cuMemAddressFree((CUdeviceptr)block->address, block->mapped));
    } else {
        MUST(cudaFree(block->address));
    }
    *block = (struct block){0};
}

static void allocate(const char *text) {
    char *end, way = text[1] == ':' ? text[0] : 0;
    unsigned long number = strtoul(text + (way ? 2 : 0), &end, 10);
    bool may_fail = *end == '!';
    EXPECT(end[may_fail] == 'x');
    size_t size = strtoull(end + may_fail + 1, &end, 10);
    size <<= *end == 'm' ? 20 : *end == 'k' ? 10 : 0;
    for (; number; number--) {
        EXPECT(count < MOST);
        void **address = &blocks[count].address;
        cudaError_t result = cudaSuccess;
        if (way == 'v' || way == 'r')
            map(&blocks[count], size, way == 'r');
        else
            result = way == 'a' ? cudaMallocAsync(address, size, NULL) : cudaMalloc(address, size);
        if (result == cudaSuccess)
            count++;
        else if (!may_fail)
            fail(text, __LINE__, (int)result);
    }
}

int main(int argc, char **argv) {
    size_t free_bytes, total;
    MUST(cudaFree(NULL)); /* the context, which driver calls need */
    char line[16];
    for (int i = 1; i < argc; i++) {
        if (*argv[i] == '-') {
            while (count)
                release(&blocks[--count]);
        } else if (*argv[i] == '=') {
            for (unsigned k = 0; k < count; k++)
                unmap(&blocks[k]);
        } else if (*argv[i] == '?') {
            MUST(cudaMemGetInfo(&free_bytes, &total));
        } else if (*argv[i] == '~') {
            usleep((unsigned)atoi(argv[i] + 1) * 1000);
        } else if (*argv[i] == '.') {
            puts("ready");
            fflush(stdout);
            EXPECT(fgets(line, sizeof line, stdin));
        } else {
            allocate(argv[i]);
        }
    }
    puts("ok reserved");
    return 0;
}
