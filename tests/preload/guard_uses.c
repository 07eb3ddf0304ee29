/* Ways in which programs use memory, each right and with an error planted where its name says so, and the ends of
 * contexts. */
#include <stdbool.h>

#include "planted.h"

/* ---- a vector that grows, and pieces of one block */

static void vector(bool stale) {
    CUdeviceptr data = make(256), old = 0;
    for (size_t size = 256; size <= 1 << 20; size *= 2) {
        old = data;
        MUST(cuMemAlloc(&data, 2 * size));
        MUST(cuMemcpyDtoD(data, old, size));
        launch_words(data, (int64_t)size / 4, (uint32_t)(size < 4096 ? size / 4 : 1024), one);
        MUST(cuMemFree(old));
    }
    if (stale)
        launch_words(old + 512, 0, 8, one);
    wait_for(one);
    drop(data);
}

CASE(vector_grows) { vector(false); }
CASE(vector_stale) { vector(true); }

CASE(pieces) {
    CUdeviceptr all = make(1 << 20);
    for (int i = 0; i < 64; i++)
        launch_words(all + (CUdeviceptr)i * 16384, 0, 4096, one);
    MUST(cuMemsetD32(all + (1 << 20) - 4096, 3, 1024));
    wait_for(one);
    drop(all);
}

CASE(pool_of_program) {
    const CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                       .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUmemoryPool pool;
    CUdeviceptr from;
    MUST(cuMemPoolCreate(&pool, &properties));
    for (int i = 0; i < 4; i++) {
        MUST(cuMemAllocFromPoolAsync(&from, 5000, pool, one));
        launch_words(from, 0, 1250, one);
        MUST(cuMemFreeAsync(from, one));
    }
    wait_for(one);
    MUST(cuMemPoolDestroy(pool));
}

/* ---- pointers in structures, in memory, at the end of a range */

static void table_of(bool freed, useconds_t pause) {
    CUdeviceptr blocks[4], table;
    uint32_t count = 4;
    for (int i = 0; i < 4; i++)
        blocks[i] = make(4096);
    MUST(cuMemAlloc(&table, sizeof blocks));
    if (freed)
        drop(blocks[2]);
    usleep(pause);
    MUST(cuMemcpyHtoD(table, blocks, sizeof blocks));
    launch(each, (void *[]){&table, &count}, one);
    wait_for(one);
}

CASE(table) { table_of(false, 0); }
CASE(table_freed) { table_of(true, 0); }

CASE(table_freed_before) { table_of(true, 500000); }

static void view_of(int64_t at) {
    make(4096);
    launch_view(block, at, block + 4096);
}

CASE(view_inside) { view_of(4092); }
CASE(view_behind) { view_of(4096); }

/* ---- copies and fills of rows and volumes */

static void copy_rows(size_t x, size_t y, size_t width, size_t height) {
    static char host[64 * 1024];
    CUdeviceptr rows;
    size_t pitch;
    MUST(cuMemAllocPitch(&rows, &pitch, 1000, 20, 4));
    const CUDA_MEMCPY2D to = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                              .srcHost = host,
                              .srcPitch = 1024,
                              .dstXInBytes = x,
                              .dstY = y,
                              .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                              .dstDevice = rows,
                              .dstPitch = pitch,
                              .WidthInBytes = width,
                              .Height = height};
    printf(" copy %d", cuMemcpy2D(&to));
    drop(rows);
}

CASE(rows_whole) { copy_rows(0, 0, 1000, 20); }
CASE(rows_corner) { copy_rows(900, 19, 100, 1); }
CASE(rows_none) { copy_rows(0, 20, 1000, 0); }
CASE(rows_behind) { copy_rows(0, 15, 1000, 6); }

/* Natively memory of cuMemAlloc has no handle. */
CASE(retained) {
    CUmemGenericAllocationHandle handle;
    const CUdeviceptr at[] = {make(4096), block + 4095, block - 64, block - 4096};
    for (int i = 0; i < 4; i++)
        printf(" retain %d", cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)at[i]));
    drop(block);
    printf(" retain %d", cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)block));
}

CASE(pitched) {
    CUdeviceptr rows;
    size_t pitch;
    MUST(cuMemAllocPitch(&rows, &pitch, 1000, 20, 4));
    launch_words(rows, 0, 250, one);
    wait_for(one);
    drop(rows);
}

/* Of a block that ends with its last row, not with that row's pitch. */
static void fill_rows(size_t height) {
    const size_t pitch = 1024, width = 1000;
    CUdeviceptr rows = make(9 * pitch + width);
    printf(" fill %d", cuMemsetD2D8(rows, pitch, 1, width, height));
    printf(" fill %d", cuMemsetD2D32(rows, pitch, 1, width / 4, height));
    drop(rows);
}

CASE(fill_edge) { fill_rows(10); }
CASE(fill_rows_behind) { fill_rows(11); }

static void copy_volume(size_t z, size_t depth) {
    static char host[64 * 8 * 4];
    CUdeviceptr volume = make(sizeof host);
    const CUDA_MEMCPY3D to = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                              .srcHost = host,
                              .srcPitch = 64,
                              .srcHeight = 8,
                              .dstXInBytes = 32,
                              .dstY = 4,
                              .dstZ = z,
                              .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
                              .dstDevice = volume,
                              .dstPitch = 64,
                              .dstHeight = 8,
                              .WidthInBytes = 32,
                              .Height = 4,
                              .Depth = depth};
    printf(" copy %d", cuMemcpy3D(&to));
    drop(volume);
}

CASE(volume_whole) { copy_volume(0, 4); }
CASE(volume_behind) { copy_volume(3, 2); }

static void copy_volume_between(size_t depth) {
    static char host[64 * 8 * 4];
    CUcontext context;
    CUdeviceptr volume = make(sizeof host), from;
    MUST(cuMemAlloc(&from, 2 * sizeof host));
    MUST(cuCtxGetCurrent(&context));
    const CUDA_MEMCPY3D_PEER to = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                                   .srcDevice = from,
                                   .srcPitch = 64,
                                   .srcHeight = 8,
                                   .srcContext = context,
                                   .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                                   .dstDevice = volume,
                                   .dstPitch = 64,
                                   .dstHeight = 8,
                                   .dstContext = context,
                                   .WidthInBytes = 64,
                                   .Height = 8,
                                   .Depth = depth};
    printf(" copy %d", cuMemcpy3DPeer(&to));
    drop(from);
    drop(volume);
}

CASE(peer_whole) { copy_volume_between(4); }
CASE(peer_behind) { copy_volume_between(5); }

static void copy_batch(size_t last) {
    CUdeviceptr to[2] = {make(1000), make(2000)}, from[2] = {make(1000), make(4000)};
    size_t sizes[2] = {1000, last}, first = 0;
    CUmemcpyAttributes attributes = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    printf(" copy %d", cuMemcpyBatchAsync(to, from, sizes, 2, &attributes, &first, 1, one));
    wait_for(one);
}

CASE(batch_whole) { copy_batch(2000); }
CASE(batch_behind) { copy_batch(2004); }

/* Layers of 8 rows of 64 bytes. */
static CUmemcpy3DOperand layers_of(CUdeviceptr at) {
    return (CUmemcpy3DOperand){.type = CU_MEMCPY_OPERAND_TYPE_POINTER,
                               .op.ptr = {.ptr = at, .rowLength = 64, .layerHeight = 8}};
}

static void copy_layers(size_t last) {
    CUDA_MEMCPY3D_BATCH_OP copies[2];
    for (size_t i = 0; i < 2; i++)
        copies[i] = (CUDA_MEMCPY3D_BATCH_OP){.src = layers_of(make(4096)),
                                             .dst = layers_of(make(2048)),
                                             .extent = {64, 8, i ? last : 4},
                                             .srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    printf(" copy %d", cuMemcpy3DBatchAsync(2, copies, 0, one));
    wait_for(one);
}

CASE(layers_whole) { copy_layers(4); }
CASE(layers_behind) { copy_layers(5); }

/* ---- graphs */

static CUgraphExec instance_of(CUgraph graph) {
    CUgraphExec instance;
    MUST(cuGraphInstantiateWithFlags(&instance, graph, 0));
    MUST(cuGraphDestroy(graph));
    return instance;
}

/* A kernel, a fill and a copy, in a graph that the program builds, inside of another one. */
static CUgraph built(CUdeviceptr used, CUdeviceptr other) {
    CUcontext context;
    CUgraph graph, outer;
    CUgraphNode node;
    int64_t first = 0;
    uint32_t count = 8;
    void *arguments[] = {&used, &first, &count};
    const CUDA_KERNEL_NODE_PARAMS kernel = {.func = words,
                                            .gridDimX = 1,
                                            .gridDimY = 1,
                                            .gridDimZ = 1,
                                            .blockDimX = 1,
                                            .blockDimY = 1,
                                            .blockDimZ = 1,
                                            .kernelParams = arguments};
    const CUDA_MEMSET_NODE_PARAMS fill = {.dst = other, .elementSize = 4, .width = 1024, .height = 1, .value = 5};
    const CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                                .srcDevice = used,
                                .srcPitch = 4096,
                                .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                                .dstDevice = other,
                                .dstPitch = 4096,
                                .WidthInBytes = 4096,
                                .Height = 1,
                                .Depth = 1};
    MUST(cuCtxGetCurrent(&context));
    MUST(cuGraphCreate(&graph, 0));
    MUST(cuGraphCreate(&outer, 0));
    MUST(cuGraphAddKernelNode(&node, graph, NULL, 0, &kernel));
    MUST(cuGraphAddMemsetNode(&node, graph, &node, 1, &fill, context));
    MUST(cuGraphAddMemcpyNode(&node, graph, &node, 1, &copy, context));
    MUST(cuGraphAddChildGraphNode(&node, outer, NULL, 0, graph));
    MUST(cuGraphDestroy(graph));
    return outer;
}

CASE(graph_built) {
    CUdeviceptr used = make(4096), other = make(4096);
    CUgraphExec instance = instance_of(built(used, other));
    launch_graph(instance);
    launch_graph(instance);
    MUST(cuGraphExecDestroy(instance));
    drop(used);
    drop(other);
}

/* The instance lives longer than the blocks, and is not launched any more. */
CASE(graph_unused) {
    CUdeviceptr used = make(4096), other = make(4096);
    CUgraphExec instance = instance_of(built(used, other));
    launch_graph(instance);
    drop(used);
    drop(other);
    launch_words(make(4096), 0, 8, one);
    wait_for(one);
}

CASE(graph_built_freed) {
    CUdeviceptr used = make(4096), other = make(4096);
    CUgraphExec instance = instance_of(built(used, other));
    launch_graph(instance);
    drop(used);
    launch_graph(instance);
}

/* Only a fill and a copy use the block. */
CASE(graph_copy_freed) {
    CUdeviceptr used = make(4096), other = make(4096);
    CUgraphExec instance = instance_of(built(used, other));
    launch_graph(instance);
    drop(other);
    launch_graph(instance);
}

/* ---- cooperative and extended launches, pinned and managed memory */

static void cooperative(CUdeviceptr to, int64_t at) {
    void *arguments[] = {&to, &at};
    printf(" launch %d", cuLaunchCooperativeKernel(byte, 1, 1, 1, 1, 1, 1, 0, one, arguments));
    wait_for(one);
}

CASE(cooperative_inside) { cooperative(make(1000), 999); }

CASE(cooperative_freed) {
    drop(make(1000));
    cooperative(block, 0);
}

static void extended(CUdeviceptr to) {
    const CUlaunchConfig how = {
        .gridDimX = 1, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 1, .blockDimY = 1, .blockDimZ = 1, .hStream = one};
    int64_t at = 0;
    void *arguments[] = {&to, &at};
    printf(" launch %d", cuLaunchKernelEx(&how, byte, arguments, NULL));
    wait_for(one);
}

CASE(extended_freed) {
    drop(make(1000));
    extended(block);
}

/* The arguments as one buffer. */
static void packed(CUdeviceptr to) {
    struct {
        CUdeviceptr to;
        int64_t at;
    } arguments = {to, 0};
    size_t size = sizeof arguments;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &arguments, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                     CU_LAUNCH_PARAM_END};
    printf(" launch %d", cuLaunchKernel(byte, 1, 1, 1, 1, 1, 1, 0, one, NULL, extra));
    wait_for(one);
}

CASE(packed_inside) { packed(make(1000)); }

CASE(packed_freed) {
    drop(make(1000));
    packed(block);
}

CASE(not_guarded) {
    CUdeviceptr managed, mapped;
    void *pinned;
    MUST(cuMemAllocManaged(&managed, 5000, CU_MEM_ATTACH_GLOBAL));
    MUST(cuMemHostAlloc(&pinned, 5000, CU_MEMHOSTALLOC_DEVICEMAP));
    MUST(cuMemHostGetDevicePointer(&mapped, pinned, 0));
    launch_words(managed, 0, 1250, one);
    launch_words(mapped, 0, 1250, one);
    wait_for(one);
    MUST(cuMemcpyDtoH(pinned, make(1000), 1000));
    MUST(cuMemFreeHost(pinned));
    drop(managed);
}

/* ---- order of streams */

static void CUDA_CB told(void *flag) { __atomic_store_n((int *)flag, 1, __ATOMIC_RELEASE); }

/* The host learns that the stream has come so far, without a call that waits. */
CASE(ready_by_host) {
    int flag = 0, told_at = 0;
    MUST(cuMemAllocAsync(&block, 4096, one));
    MUST(cuLaunchHostFunc(one, told, &flag));
    while (!__atomic_load_n(&flag, __ATOMIC_ACQUIRE) && told_at++ < 1000000000)
        ;
    launch_words(block, 0, 8, two);
    MUST(cuStreamSynchronize(two));
    MUST(cuMemFreeAsync(block, one));
    wait_for(one);
}

/* ---- ends of contexts */

static CUcontext other_context(void) {
    CUcontext context;
    MUST(cuCtxCreate(&context, NULL, 0, 0));
    MUST(cuStreamCreate(&one, CU_STREAM_NON_BLOCKING));
    CUmodule module;
    MUST(cuModuleLoadData(&module, image));
    MUST(cuModuleGetFunction(&byte, module, "write_byte"));
    return context;
}

static void ends_damaged(bool freed) {
    CUcontext context = other_context();
    launch_byte(make(1000), 1000);
    wait_for(one);
    if (freed)
        drop(block);
    printf(" end %d", cuCtxDestroy(context));
}

CASE(context_ends_freed) { ends_damaged(true); }
CASE(context_ends_live) { ends_damaged(false); }

CASE(used_after_context) {
    CUcontext first, context;
    MUST(cuCtxGetCurrent(&first));
    CUstream stream = one;
    context = other_context();
    CUdeviceptr lost = make(4096);
    printf(" end %d", cuCtxDestroy(context));
    MUST(cuCtxSetCurrent(first));
    one = stream;
    launch_words(lost, 0, 8, one);
    wait_for(one);
}

CASE(copied_after_context) {
    static char host[1000];
    CUcontext first, context;
    MUST(cuCtxGetCurrent(&first));
    context = other_context();
    CUdeviceptr lost = make(1000);
    printf(" end %d", cuCtxDestroy(context));
    MUST(cuCtxSetCurrent(first));
    printf(" copy %d", cuMemcpyDtoH(host, lost, sizeof host));
}

static void primary_ends(bool reset, bool freed) {
    launch_byte(make(1000), 1000);
    wait_for(one);
    if (freed)
        drop(block);
    printf(" end %d", reset ? cuDevicePrimaryCtxReset(0) : cuDevicePrimaryCtxRelease(0));
}

CASE(released_freed) { primary_ends(false, true); }
CASE(released_live) { primary_ends(false, false); }
CASE(reset_freed) { primary_ends(true, true); }
CASE(reset_live) { primary_ends(true, false); }

/* The device is used again afterwards. */
CASE(used_after_reset) {
    CUcontext context;
    CUmodule module;
    make(1000);
    drop_many(3);
    MUST(cuDevicePrimaryCtxReset(0));
    MUST(cuDevicePrimaryCtxRetain(&context, 0));
    MUST(cuCtxSetCurrent(context));
    MUST(cuStreamCreate(&one, CU_STREAM_NON_BLOCKING));
    MUST(cuModuleLoadData(&module, image));
    MUST(cuModuleGetFunction(&words, module, "write_words"));
    for (int i = 0; i < 20; i++) {
        launch_words(make(4096), 0, 1024, one);
        wait_for(one);
        drop(block);
    }
}

static CUgreenCtx enter_green(void) {
    CUdevResource all;
    CUdevResourceDesc description;
    CUgreenCtx green;
    CUcontext context;
    CUmodule module;
    MUST(cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM));
    MUST(cuDevResourceGenerateDesc(&description, &all, 1));
    MUST(cuGreenCtxCreate(&green, description, 0, CU_GREEN_CTX_DEFAULT_STREAM));
    MUST(cuCtxFromGreenCtx(&context, green));
    MUST(cuCtxSetCurrent(context));
    MUST(cuGreenCtxStreamCreate(&one, green, CU_STREAM_NON_BLOCKING, 0));
    MUST(cuModuleLoadData(&module, image));
    MUST(cuModuleGetFunction(&byte, module, "write_byte"));
    return green;
}

static void green_ends(bool freed) {
    CUgreenCtx green = enter_green();
    launch_byte(make(1000), 1000);
    wait_for(one);
    if (freed)
        drop(block);
    printf(" end %d", cuGreenCtxDestroy(green));
}

CASE(green_ends_freed) { green_ends(true); }
CASE(green_ends_live) { green_ends(false); }

/* The memory belongs to the device's primary context and stays. */
CASE(green_outlived) {
    static char host[1000];
    CUcontext primary;
    MUST(cuCtxGetCurrent(&primary));
    CUgreenCtx green = enter_green();
    make(sizeof host);
    printf(" end %d", cuGreenCtxDestroy(green));
    MUST(cuCtxSetCurrent(primary));
    printf(" copy %d", cuMemcpyDtoH(host, block, sizeof host));
    drop(block);
}

/* ---- memory that the program exports, and what the driver says of it */

static int export_block(CUdeviceptr address) {
    CUipcMemHandle handle;
    return cuIpcGetMemHandle(&handle, address);
}

/* How many of 40 blocks have a handle. */
static void export_many(void) {
    int exported = 0;
    for (int i = 0; i < 40; i++)
        exported += export_block(make(4096)) == CUDA_SUCCESS;
    printf(" exported %d", exported);
}

CASE(exported) { printf(" export %d", export_block(make(4096)) != CUDA_SUCCESS); }

/* After all are allocated. */
CASE(exported_all) {
    CUdeviceptr blocks[40];
    int exported = 0;
    for (int i = 0; i < 40; i++)
        blocks[i] = make(4096);
    for (int i = 0; i < 40; i++)
        exported += export_block(blocks[i]) == CUDA_SUCCESS;
    printf(" exported %d", exported);
}

CASE(exported_later) {
    printf(" first %d", export_block(make(4096)));
    export_many();
}

CASE(asked_first) {
    unsigned capable; /* the driver writes more than a byte */
    (void)cuPointerGetAttribute(&capable, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, make(4096));
    export_many();
}

CASE(marked) {
    unsigned on = 1;
    printf(" mark %d", cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, make(4096)));
}

/* The answers are the same whether the block is guarded. */
CASE(asked) {
    CUmemGenericAllocationHandle handle;
    CUcontext current, context = NULL, one_of = NULL;
    CUpointer_attribute attribute = CU_POINTER_ATTRIBUTE_CONTEXT;
    void *room = &one_of;
    MUST(cuCtxGetCurrent(&current));
    printf(" retain %d", cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)make(4096)));
    printf(" ask %d", cuPointerGetAttribute(&context, attribute, block + 8));
    printf(" %d", cuPointerGetAttributes(1, &attribute, &room, block));
    printf(" current %d %d", context == current, one_of == current);
}

int main(int count, char **arguments) { return run_planted("uses", count, arguments); }
