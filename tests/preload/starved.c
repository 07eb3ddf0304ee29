/* The device is full of freed memory. A call that allocates device memory as a side effect succeeds all the same,
 * because free blocks are released. On the simulated driver, whose memory is cut to the bytes in use before each
 * call. Argument: "kept" when the freed memory is expected to stay as free blocks; natively it is free. Green
 * contexts: their blocks leave the registry with them. */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include "program.h"
#include "simcuda.h"

enum { MIB = 1 << 20, BLOCKS = 8, NEED = 4 * MIB };

static CUgraph graph;
static CUgraphExec instance;
static CUmodule module;
static CUlibrary library;
static CUdevResourceDesc resources;
static CUgreenCtx green;
static const char image[] = "#simcuda\nglobal variable 64\nglobal shared 64 managed\n";
static const char *file;

static void fill_and_free(void) {
    CUdeviceptr blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++)
        MUST(cuMemAlloc_v2(&blocks[i], 2 * MIB));
    for (int i = 0; i < BLOCKS; i++)
        MUST(cuMemFree_v2(blocks[i]));
}

#define ROW(symbol, call, undo)                        \
    static CUresult do_##symbol(void) { return call; } \
    static void undo_##symbol(void) { undo; }
#define DESTROY_GRAPH MUST(cuGraphExecDestroy(made))
static CUgraphExec made;
static CUmodule loaded;
static CUlibrary opened;
static CUfunction function;
static CUstream stream;
static CUcontext context;
static CUdeviceptr address;
static CUarray array;
static CUmipmappedArray mipmap;
static CUmemGenericAllocationHandle handle;
static CUmemoryPool pool;
static CUgreenCtx other;
static CUipcMemHandle exported;
static size_t size;
static CUDA_GRAPH_INSTANTIATE_PARAMS with;
static const CUmemPoolProps pooled = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
static const CUmemAllocationProp pinned = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                           .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
static const CUDA_ARRAY_DESCRIPTOR flat = {.Width = 512, .Height = 512, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1};
static const CUDA_ARRAY3D_DESCRIPTOR deep = {
    .Width = 64, .Height = 64, .Depth = 64, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1};
static const CUDA_ARRAY3D_DESCRIPTOR levels = {
    .Width = 512, .Height = 512, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1};

ROW(cuModuleLoad, cuModuleLoad(&loaded, file), MUST(cuModuleUnload(loaded)))
ROW(cuModuleLoadData, cuModuleLoadData(&loaded, image), MUST(cuModuleUnload(loaded)))
ROW(cuModuleLoadDataEx, cuModuleLoadDataEx(&loaded, image, 0, NULL, NULL), MUST(cuModuleUnload(loaded)))
ROW(cuModuleLoadFatBinary, cuModuleLoadFatBinary(&loaded, image), MUST(cuModuleUnload(loaded)))
ROW(cuModuleGetFunction, cuModuleGetFunction(&function, module, "kernel"), (void)0)
ROW(cuModuleGetGlobal_v2, cuModuleGetGlobal_v2(&address, &size, module, "variable"), (void)0)
ROW(cuLibraryLoadData, cuLibraryLoadData(&opened, image, NULL, NULL, 0, NULL, NULL, 0), MUST(cuLibraryUnload(opened)))
ROW(cuLibraryLoadFromFile, cuLibraryLoadFromFile(&opened, file, NULL, NULL, 0, NULL, NULL, 0),
    MUST(cuLibraryUnload(opened)))
ROW(cuLibraryGetModule, cuLibraryGetModule(&loaded, library), (void)0)
ROW(cuLibraryGetGlobal, cuLibraryGetGlobal(&address, &size, library, "variable"), (void)0)
ROW(cuLibraryGetManaged, cuLibraryGetManaged(&address, &size, library, "shared"), (void)0)
ROW(cuKernelGetFunction, cuKernelGetFunction(&function, (CUkernel)function), (void)0)
ROW(cuFuncLoad, cuFuncLoad(function), (void)0)
ROW(cuGraphInstantiate, cuGraphInstantiate(&made, graph, NULL, NULL, 0), DESTROY_GRAPH)
ROW(cuGraphInstantiate_v2, cuGraphInstantiate_v2(&made, graph, NULL, NULL, 0), DESTROY_GRAPH)
ROW(cuGraphInstantiateWithFlags, cuGraphInstantiateWithFlags(&made, graph, 0), DESTROY_GRAPH)
ROW(cuGraphInstantiateWithParams, cuGraphInstantiateWithParams(&made, graph, &with), DESTROY_GRAPH)
ROW(cuGraphInstantiateWithParams_ptsz, cuGraphInstantiateWithParams_ptsz(&made, graph, &with), DESTROY_GRAPH)
ROW(cuGraphUpload, cuGraphUpload(instance, NULL), (void)0)
ROW(cuGraphUpload_ptsz, cuGraphUpload_ptsz(instance, NULL), (void)0)
ROW(cuCtxSetLimit, cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 16 * MIB), (void)0)
ROW(cuStreamCreate, cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), MUST(cuStreamDestroy_v2(stream)))
ROW(cuStreamCreateWithPriority, cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, -1),
    MUST(cuStreamDestroy_v2(stream)))
ROW(cuGreenCtxStreamCreate, cuGreenCtxStreamCreate(&stream, green, CU_STREAM_NON_BLOCKING, 0),
    MUST(cuStreamDestroy_v2(stream)))
ROW(cuGreenCtxCreate, cuGreenCtxCreate(&other, resources, 0, CU_GREEN_CTX_DEFAULT_STREAM),
    MUST(cuGreenCtxDestroy(other)))
ROW(cuCtxCreate_v2, cuCtxCreate_v2(&context, 0, 0), MUST(cuCtxDestroy_v2(context)))
ROW(cuCtxCreate_v3, cuCtxCreate_v3(&context, NULL, 0, 0, 0), MUST(cuCtxDestroy_v2(context)))
ROW(cuCtxCreate_v4, cuCtxCreate_v4(&context, NULL, 0, 0), MUST(cuCtxDestroy_v2(context)))
ROW(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain(&context, 0), MUST(cuDevicePrimaryCtxRelease_v2(0)))
ROW(cuMemAlloc_v2, cuMemAlloc_v2(&address, NEED), MUST(cuMemFree_v2(address)))
ROW(cuMemAllocPitch_v2, cuMemAllocPitch_v2(&address, &size, 2048, 2048, 4), MUST(cuMemFree_v2(address)))
ROW(cuMemAllocManaged, cuMemAllocManaged(&address, NEED, CU_MEM_ATTACH_GLOBAL), MUST(cuMemFree_v2(address)))
ROW(cuMemAllocAsync, cuMemAllocAsync(&address, NEED, NULL), MUST(cuMemFree_v2(address)))
ROW(cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync(&address, NEED, pool, NULL), MUST(cuMemFree_v2(address)))
ROW(cuMemPoolCreate, cuMemPoolCreate((CUmemoryPool *)&made, &pooled), MUST(cuMemPoolDestroy((CUmemoryPool)made)))
ROW(cuMemCreate, cuMemCreate(&handle, NEED, &pinned, 0), MUST(cuMemRelease(handle)))
ROW(cuArrayCreate_v2, cuArrayCreate_v2(&array, &flat), MUST(cuArrayDestroy(array)))
ROW(cuArray3DCreate_v2, cuArray3DCreate_v2(&array, &deep), MUST(cuArrayDestroy(array)))
ROW(cuMipmappedArrayCreate, cuMipmappedArrayCreate(&mipmap, &levels, 2), MUST(cuMipmappedArrayDestroy(mipmap)))
ROW(cuIpcOpenMemHandle_v2, cuIpcOpenMemHandle_v2(&address, exported, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS), (void)0)

/* ---- work that takes memory when it is submitted: the kernel gets all its arguments */

static unsigned runs;
static uint64_t first = 0x1122334455667788, last = 42;
static unsigned char small = 7;
static void *arguments[] = {&first, &small, &last};

static void count_run(const struct simcuda_launch *launch) {
    const unsigned *grid = launch->grid, *block = launch->block;
    EXPECT(grid[0] == 3 && grid[1] == 4 && grid[2] == 5 && block[0] == 6 && block[1] == 7 && block[2] == 2);
    EXPECT(launch->shared == 1024 && *(uint64_t *)launch->args[0] == first && *(uint64_t *)launch->args[2] == last);
    EXPECT(*(unsigned char *)launch->args[1] == small);
    runs++;
}

static void ran(void) {
    MUST(cuCtxSynchronize());
    EXPECT(runs == 1);
    runs = 0;
}

static const CUlaunchConfig config = {3, 4, 5, 6, 7, 2, 1024, NULL, NULL, 0};
static CUgraph with_kernel, with_memory, scrap;
static CUgraphExec kernel_run, memory_run;
static CUgraphNode node, freeing;
static CUdeviceptr target;
static CUevent event;
static unsigned char bytes[4096];
static CUDA_MEM_ALLOC_NODE_PARAMS need = {
    .poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}},
    .bytesize = NEED};

static void make_graphs(void) {
    CUDA_KERNEL_NODE_PARAMS kernel = {function, 3, 4, 5, 6, 7, 2, 1024, arguments, NULL, NULL, NULL};
    MUST(cuGraphCreate(&with_kernel, 0));
    MUST(cuGraphAddKernelNode_v2(&node, with_kernel, NULL, 0, &kernel));
    MUST(cuGraphInstantiateWithFlags(&kernel_run, with_kernel, 0));
    MUST(cuGraphCreate(&with_memory, 0));
    MUST(cuGraphAddMemAllocNode(&node, with_memory, NULL, 0, &need));
    MUST(cuGraphAddMemFreeNode(&freeing, with_memory, &node, 1, need.dptr));
    MUST(cuGraphInstantiateWithFlags(&memory_run, with_memory, 0));
    MUST(cuGraphLaunch(memory_run, NULL));
    MUST(cuCtxSynchronize());
    MUST(cuDeviceGraphMemTrim(0));
}

static void renew_graph(void) {
    if (scrap)
        MUST(cuGraphDestroy(scrap));
    MUST(cuGraphCreate(&scrap, 0));
}

static void trim_graphs(void) {
    MUST(cuCtxSynchronize());
    MUST(cuDeviceGraphMemTrim(0));
}

#define LAUNCHED function, 3, 4, 5, 6, 7, 2, 1024, NULL, arguments
ROW(cuLaunchKernel, cuLaunchKernel(LAUNCHED, NULL), ran())
ROW(cuLaunchKernel_ptsz, cuLaunchKernel_ptsz(LAUNCHED, NULL), ran())
ROW(cuLaunchCooperativeKernel, cuLaunchCooperativeKernel(LAUNCHED), ran())
ROW(cuLaunchCooperativeKernel_ptsz, cuLaunchCooperativeKernel_ptsz(LAUNCHED), ran())
ROW(cuLaunchKernelEx, cuLaunchKernelEx(&config, function, arguments, NULL), ran())
ROW(cuLaunchKernelEx_ptsz, cuLaunchKernelEx_ptsz(&config, function, arguments, NULL), ran())
ROW(cuGraphLaunch, cuGraphLaunch(kernel_run, NULL), ran())
ROW(cuGraphLaunch_ptsz, cuGraphLaunch_ptsz(kernel_run, NULL), ran())
ROW(cuMemcpyHtoD_v2, cuMemcpyHtoD_v2(target, bytes, sizeof bytes), (void)0)
ROW(cuMemcpyHtoD_v2_ptds, cuMemcpyHtoD_v2_ptds(target, bytes, sizeof bytes), (void)0)
ROW(cuMemcpyDtoHAsync_v2, cuMemcpyDtoHAsync_v2(bytes, target, sizeof bytes, NULL), (void)0)
ROW(cuMemsetD8Async, cuMemsetD8Async(target, 1, sizeof bytes, NULL), (void)0)
ROW(cuMemsetD8Async_ptsz, cuMemsetD8Async_ptsz(target, 1, sizeof bytes, NULL), (void)0)
ROW(cuEventCreate, cuEventCreate(&event, 0), MUST(cuEventDestroy_v2(event)))
ROW(cuGraphAddMemAllocNode, cuGraphAddMemAllocNode(&node, scrap, NULL, 0, &need), renew_graph())
static CUresult launch_memory(void) { return cuGraphLaunch(memory_run, NULL); }
#undef ROW

#define ROW(symbol, alone) \
    { #symbol, do_##symbol, undo_##symbol, alone, CUDA_SUCCESS }
static const struct {
    const char *symbol;
    CUresult (*call)(void);
    void (*undo)(void);
    int needs; /* takes no memory of its own in the simulated driver, which is configured to need memory for it */
    CUresult answer;
} rows[] = {
    ROW(cuModuleLoad, 1),
    ROW(cuModuleLoadData, 1),
    ROW(cuModuleLoadDataEx, 1),
    ROW(cuModuleLoadFatBinary, 1),
    ROW(cuModuleGetFunction, 1),
    ROW(cuModuleGetGlobal_v2, 1),
    ROW(cuLibraryLoadData, 1),
    ROW(cuLibraryLoadFromFile, 1),
    ROW(cuLibraryGetModule, 1),
    ROW(cuLibraryGetGlobal, 1),
    ROW(cuLibraryGetManaged, 1),
    ROW(cuKernelGetFunction, 1),
    ROW(cuFuncLoad, 1),
    ROW(cuGraphInstantiate, 1),
    ROW(cuGraphInstantiate_v2, 1),
    ROW(cuGraphInstantiateWithFlags, 1),
    ROW(cuGraphInstantiateWithParams, 1),
    ROW(cuGraphInstantiateWithParams_ptsz, 1),
    ROW(cuGraphUpload, 1),
    ROW(cuGraphUpload_ptsz, 1),
    ROW(cuCtxSetLimit, 1),
    ROW(cuStreamCreate, 1),
    ROW(cuStreamCreateWithPriority, 1),
    ROW(cuGreenCtxStreamCreate, 1),
    ROW(cuGreenCtxCreate, 1),
    ROW(cuCtxCreate_v2, 1),
    ROW(cuCtxCreate_v3, 1),
    ROW(cuCtxCreate_v4, 1),
    ROW(cuDevicePrimaryCtxRetain, 1),
    ROW(cuMemPoolCreate, 1),
    ROW(cuMemAlloc_v2, 0),
    ROW(cuMemAllocPitch_v2, 0),
    ROW(cuMemAllocManaged, 0),
    ROW(cuMemAllocAsync, 0),
    ROW(cuMemAllocFromPoolAsync, 0),
    ROW(cuMemCreate, 0),
    ROW(cuArrayCreate_v2, 0),
    ROW(cuArray3DCreate_v2, 0),
    ROW(cuMipmappedArrayCreate, 0),
    ROW(cuLaunchKernel, 1),
    ROW(cuLaunchKernel_ptsz, 1),
    ROW(cuLaunchCooperativeKernel, 1),
    ROW(cuLaunchCooperativeKernel_ptsz, 1),
    ROW(cuLaunchKernelEx, 1),
    ROW(cuLaunchKernelEx_ptsz, 1),
    ROW(cuGraphLaunch, 1),
    ROW(cuGraphLaunch_ptsz, 1),
    {"cuGraphLaunch", launch_memory, trim_graphs, 0, CUDA_SUCCESS},
    ROW(cuMemcpyHtoD_v2, 1),
    ROW(cuMemcpyHtoD_v2_ptds, 1),
    ROW(cuMemcpyDtoHAsync_v2, 1),
    ROW(cuMemsetD8Async, 1),
    ROW(cuMemsetD8Async_ptsz, 1),
    ROW(cuEventCreate, 1),
    ROW(cuGraphAddMemAllocNode, 0),
    /* The driver refuses it to the process that exported the memory, but only after it found enough memory. */
    {"cuIpcOpenMemHandle_v2", do_cuIpcOpenMemHandle_v2, undo_cuIpcOpenMemHandle_v2, 1, CUDA_ERROR_INVALID_CONTEXT},
};

/* Free blocks of a green context are released with it. A new context at the same address finds none. */
static void green_contexts_come_and_go(void) {
    for (int i = 0; i < 20; i++) {
        CUgreenCtx part;
        CUcontext inside;
        CUdeviceptr blocks[2];
        size_t live = simcuda_live_blocks();
        MUST(cuGreenCtxCreate(&part, resources, 0, CU_GREEN_CTX_DEFAULT_STREAM));
        MUST(cuCtxFromGreenCtx(&inside, part));
        MUST(cuCtxPushCurrent_v2(inside));
        for (int j = 0; j < 40; j++) {
            MUST(cuMemAlloc_v2(&blocks[0], 3 * MIB));
            MUST(cuMemAlloc_v2(&blocks[1], 100));
            MUST(cuMemsetD8_v2(blocks[0], 1, 1));
            MUST(cuMemFree_v2(blocks[0]));
            MUST(cuMemFree_v2(blocks[1]));
        }
        MUST(cuCtxPopCurrent_v2(&inside));
        MUST(cuGreenCtxDestroy(part));
        EXPECT(simcuda_live_blocks() == live);
    }
}

int main(int count, char **words) {
    int kept = count > 1 && strcmp(words[1], "kept") == 0;
    CUdevResource whole;
    char script[128];
    file = words[0];
    start_driver();
    EXPECT(simcuda_register_kernel("kernel", "818", count_run) == 0);
    MUST(cuGraphCreate(&graph, 0));
    MUST(cuGraphInstantiateWithFlags(&instance, graph, 0));
    MUST(cuModuleLoadData(&module, image));
    MUST(cuModuleGetFunction(&function, module, "kernel"));
    MUST(cuLibraryLoadData(&library, image, NULL, NULL, 0, NULL, NULL, 0));
    MUST(cuDeviceGetDevResource(0, &whole, CU_DEV_RESOURCE_TYPE_SM));
    MUST(cuDevResourceGenerateDesc(&resources, &whole, 1));
    MUST(cuGreenCtxCreate(&green, resources, 0, CU_GREEN_CTX_DEFAULT_STREAM));
    MUST(cuMemPoolCreate(&pool, &pooled));
    CUdeviceptr shared;
    MUST(cuMemAlloc_v2(&shared, MIB));
    MUST(cuIpcGetMemHandle(&exported, shared));
    MUST(cuMemAlloc_v2(&target, sizeof bytes));
    make_graphs();
    renew_graph();
    size_t memory = (size_t)4 << 30;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        fill_and_free();
        MUST(cuCtxSynchronize());
        size_t before = simcuda_used(0);
        if (kept) {
            EXPECT(before >= (size_t)BLOCKS * 2 * MIB);
            simcuda_set_memory(before);
        }
        snprintf(script, sizeof script, "%s:%d", rows[i].symbol, NEED);
        EXPECT(simcuda_set_needs(rows[i].needs ? script : "") == 0);
        CUresult result = rows[i].call();
        simcuda_set_needs("");
        simcuda_set_memory(memory);
        if (result != rows[i].answer) {
            fprintf(stderr, "%s\n", rows[i].symbol);
            fail("out of memory although memory is only kept", __LINE__, result);
        }
        rows[i].undo();
    }
    green_contexts_come_and_go();
    printf("ok starved %zu\n", sizeof rows / sizeof *rows);
    return 0;
}
