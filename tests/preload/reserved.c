/* Does what its arguments say, one after the other, and prints "ok" when all is done:
 *
 *   NxSIZE   cudaMalloc of N blocks of SIZE bytes; SIZE may end with k or m. N! blocks may fail.
 *   a:NxSIZE the same by cudaMallocAsync
 *   p:NxSIZE the same from a pool of the program's own, q: from another one
 *   m:NxSIZE the same by cudaMallocManaged
 *   e:NxSIZE the same, each of another size, up to SIZE
 *   v:NxSIZE the same by cuMemCreate and cuMemMap, as the platform allocator of JAX does
 *   r:NxSIZE the same, with the address range first
 *   h:NxSIZE the same by cuMemCreate, not mapped
 *   g:NxSIZE a graph of N memory nodes, launched and kept
 *   k        the default pool keeps what is freed, as the others do
 *   -        frees all blocks
 *   -N       frees the latest N blocks
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
    if (block->handle && !block->mapped) {
        MUST(cuMemRelease(block->handle));
    } else if (block->mapped) {
        unmap(block);
        MUST(cuMemAddressFree((CUdeviceptr)block->address, block->mapped));
    } else {
        MUST(cudaFree(block->address));
    }
    *block = (struct block){0};
}

static void create(struct block *block, size_t size) {
    const CUmemAllocationProp plain = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                       .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    MUST(cuMemCreate(&block->handle, size, &plain, 0));
}

static void keep_all(cudaMemPool_t pool) {
    uint64_t all = UINT64_MAX;
    MUST(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &all));
}

static void take_from_pool(void **address, size_t size, bool second) {
    static cudaMemPool_t pools[2];
    const struct cudaMemPoolProps properties = {.allocType = cudaMemAllocationTypePinned,
                                                .location = {.type = cudaMemLocationTypeDevice, .id = 0}};
    if (!pools[second]) {
        MUST(cudaMemPoolCreate(&pools[second], &properties));
        keep_all(pools[second]);
    }
    MUST(cudaMallocFromPoolAsync(address, size, pools[second], NULL));
}

static void launch_graph(unsigned long nodes, size_t size) {
    CUgraph graph;
    CUgraphExec executable;
    MUST(cuGraphCreate(&graph, 0));
    for (; nodes; nodes--) {
        CUgraphNode made, dropped;
        CUDA_MEM_ALLOC_NODE_PARAMS request = {.poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}},
                                              .bytesize = size};
        MUST(cuGraphAddMemAllocNode(&made, graph, NULL, 0, &request));
        MUST(cuGraphAddMemFreeNode(&dropped, graph, &made, 1, request.dptr));
    }
    MUST(cuGraphInstantiate(&executable, graph, 0));
    MUST(cuGraphLaunch(executable, NULL));
    MUST(cudaDeviceSynchronize());
}

/* Each entry has another size: no two blocks are alike. */
static cudaError_t __attribute__((noinline)) keep_entry(void **address, size_t size) {
    static size_t smaller;
    cudaError_t result = cudaMalloc(address, size - 512 * smaller++);
    return result;
}

static cudaError_t take(char way, struct block *block, size_t size) {
    switch (way) {
    case 'v':
    case 'r': map(block, size, way == 'r'); return cudaSuccess;
    case 'h': create(block, size); return cudaSuccess;
    case 'p':
    case 'q': take_from_pool(&block->address, size, way == 'q'); return cudaSuccess;
    case 'a': return cudaMallocAsync(&block->address, size, NULL);
    case 'm': return cudaMallocManaged(&block->address, size, cudaMemAttachGlobal);
    case 'e': return keep_entry(&block->address, size);
    default: return cudaMalloc(&block->address, size);
    }
}

static void allocate(const char *text) {
    char *end, way = text[1] == ':' ? text[0] : 0;
    unsigned long number = strtoul(text + (way ? 2 : 0), &end, 10);
    bool may_fail = *end == '!';
    EXPECT(end[may_fail] == 'x');
    size_t size = strtoull(end + may_fail + 1, &end, 10);
    size <<= *end == 'm' ? 20 : *end == 'k' ? 10 : 0;
    if (way == 'g')
        launch_graph(number, size);
    for (; number && way != 'g'; number--) {
        EXPECT(count < MOST);
        cudaError_t result = take(way, &blocks[count], size);
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
            for (unsigned rest = argv[i][1] ? (unsigned)atoi(argv[i] + 1) : count; count && rest; rest--)
                release(&blocks[--count]);
        } else if (!strcmp(argv[i], "k")) {
            cudaMemPool_t pool;
            MUST(cudaDeviceGetDefaultMemPool(&pool, 0));
            keep_all(pool);
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
