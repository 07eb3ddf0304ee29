/* GPUMEM_FENCE=device on the simulated driver: at the bound of a size the device waits and not the thread, until something shows that
 * it may not. Arguments: what that is, "device" when the device is expected to wait before it. Prints nothing that natively would
 * be different. */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <dlfcn.h>

#include "program.h"
#include "simcuda.h"

enum { MIB = 1 << 20, BYTES = 24 * MIB, ROUNDS = 12 };

CUresult cuStreamWaitValue32_v2_ptsz(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags);

static CUcontext context;
static CUstream stream, other;
static CUfunction fill, verify;
static CUdeviceptr word;
static int two_devices;

static void launch(CUfunction kernel, CUdeviceptr address, uint32_t pattern) {
    uint64_t bytes = 65536;
    void *arguments[] = {&address, &bytes, &pattern};
    MUST(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL));
}

/* Blocks that are freed with their work queued, again and again. Returns how often the device was made to wait. */
static uint64_t rotate(void) {
    uint64_t before = simcuda_calls("cuCtxWaitEvent");
    CUdeviceptr block;
    simcuda_set_streams("manual");
    for (uint32_t i = 0; i < ROUNDS; i++) {
        MUST(cuMemAlloc_v2(&block, BYTES));
        launch(fill, block, i);
        launch(verify, block, i);
        MUST(cuMemFree_v2(block));
        CUstream turn = stream; /* streams take turns: what is not ordered shows */
        stream = other;
        other = turn;
    }
    simcuda_run_all();
    simcuda_set_streams("immediate");
    MUST(cuCtxSynchronize());
    EXPECT(simcuda_check_mismatches() == 0 && simcuda_violations() == 0);
    return simcuda_calls("cuCtxWaitEvent") - before;
}

static void nothing(void *data) { (void)data; }
static void called(CUstream of, CUresult status, void *data) { (void)of, (void)status, (void)data; }

static void peers(void) {
    CUcontext peer;
    MUST(cuDevicePrimaryCtxRetain(&peer, 1));
    MUST(cuCtxEnablePeerAccess(peer, 0));
}
static void ipc_export(void) {
    CUipcMemHandle handle;
    MUST(cuIpcGetMemHandle(&handle, word));
}
static void ipc_import(void) {
    CUipcMemHandle handle = {{0}};
    CUdeviceptr address;
    EXPECT(cuIpcOpenMemHandle_v2(&address, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) != CUDA_SUCCESS);
}
static void shareable(void) {
    CUmemAllocationProp kind = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location.type = CU_MEM_LOCATION_TYPE_DEVICE,
                                .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR};
    CUmemGenericAllocationHandle handle;
    int file;
    MUST(cuMemCreate(&handle, 2 * MIB, &kind, 0));
    cuMemExportToShareableHandle(&file, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
}
static void import(void) {
    CUmemGenericAllocationHandle handle;
    EXPECT(cuMemImportFromShareableHandle(&handle, NULL, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) != CUDA_SUCCESS);
}
static void pool_pointer(void) {
    CUmemPoolPtrExportData data;
    EXPECT(cuMemPoolExportPointer(&data, word) != CUDA_SUCCESS);
}
static void range(void) {
    int file = -1;
    cuMemGetHandleForAddressRange(&file, word, 4096, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
}
static void value(void) { MUST(cuStreamWaitValue32_v2(stream, word, 0, CU_STREAM_WAIT_VALUE_GEQ)); }
static void old_value(void) { MUST(cuStreamWaitValue32(stream, word, 0, CU_STREAM_WAIT_VALUE_GEQ)); }
static void twin_value(void) { MUST(cuStreamWaitValue32_v2_ptsz(stream, word, 0, CU_STREAM_WAIT_VALUE_GEQ)); }
static void value64(void) { MUST(cuStreamWaitValue64_v2(stream, word, 0, CU_STREAM_WAIT_VALUE_GEQ)); }
static void batch(void) {
    CUstreamBatchMemOpParams row = {.waitValue = {.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32, .address = word}};
    MUST(cuStreamBatchMemOp_v2(stream, 1, &row, 0));
}
static void semaphore(void) { cuWaitExternalSemaphoresAsync(NULL, NULL, 0, stream); }
static void host_function(void) { MUST(cuLaunchHostFunc(stream, nothing, NULL)); }
static void callback(void) { MUST(cuStreamAddCallback(stream, called, NULL, 0)); }
static void host_node(void) {
    CUgraph graph;
    CUgraphNode node;
    CUgraphNodeParams parameters = {.type = CU_GRAPH_NODE_TYPE_HOST, .host = {.fn = nothing}};
    MUST(cuGraphCreate(&graph, 0));
    cuGraphAddNode_v2(&node, graph, NULL, NULL, 0, &parameters);
}
static void second_context(void) {
    CUcontext second;
    CUdeviceptr block;
    MUST(cuCtxCreate_v2(&second, 0, 0));
    MUST(cuMemAlloc_v2(&block, 4096));
    MUST(cuMemFree_v2(block));
    MUST(cuCtxSetCurrent(context));
}
static void green_context(void) {
    CUdevResource whole;
    CUdevResourceDesc resources;
    CUgreenCtx green;
    MUST(cuDeviceGetDevResource(0, &whole, CU_DEV_RESOURCE_TYPE_SM));
    MUST(cuDevResourceGenerateDesc(&resources, &whole, 1));
    MUST(cuGreenCtxCreate(&green, resources, 0, CU_GREEN_CTX_DEFAULT_STREAM));
}
static void library(void) { EXPECT(dlopen("libnccl.so", RTLD_NOW) != NULL); }
static void no_reason(void) {}

static const struct {
    const char *name;
    void (*comes)(void);
} reasons[] = {
    {"none", no_reason}, {"peers", peers}, {"ipc_export", ipc_export}, {"ipc_import", ipc_import}, {"shareable", shareable},
    {"import", import}, {"pool_pointer", pool_pointer}, {"range", range}, {"value", value}, {"old_value", old_value},
    {"twin_value", twin_value}, {"value64", value64}, {"batch", batch}, {"semaphore", semaphore}, {"host_function", host_function},
    {"callback", callback}, {"host_node", host_node}, {"second_context", second_context}, {"green_context", green_context},
    {"library", library},
};

int main(int count, char **words) {
    int device = count > 2 && strcmp(words[2], "device") == 0;
    void (*comes)(void) = NULL;
    CUmodule module;
    CUgraph graph;
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons && count > 1; i++)
        if (strcmp(words[1], reasons[i].name) == 0)
            comes = reasons[i].comes;
    EXPECT(comes != NULL);
    MUST(cuInit(0));
    MUST(cuDeviceGetCount(&two_devices));
    MUST(cuDevicePrimaryCtxRetain(&context, 0));
    MUST(cuCtxSetCurrent(context));
    MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    MUST(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    MUST(cuModuleLoadData(&module, "kernels of the simulated driver"));
    MUST(cuModuleGetFunction(&fill, module, SIMCUDA_KERNEL_FILL));
    MUST(cuModuleGetFunction(&verify, module, SIMCUDA_KERNEL_CHECK));
    MUST(cuMemAlloc_v2(&word, 2 * MIB));
    MUST(cuMemsetD8_v2(word, 0, 2 * MIB));
    EXPECT((rotate() > 0) == device);
    CUstream captured;
    CUdeviceptr block;
    MUST(cuStreamCreate(&captured, CU_STREAM_NON_BLOCKING));
    uint64_t before = simcuda_calls("cuCtxWaitEvent");
    MUST(cuStreamBeginCapture_v2(captured, CU_STREAM_CAPTURE_MODE_RELAXED));
    for (int i = 0; i < ROUNDS; i++) {
        MUST(cuMemAlloc_v2(&block, BYTES));
        MUST(cuMemFree_v2(block));
    }
    MUST(cuStreamEndCapture(captured, &graph));
    EXPECT(simcuda_calls("cuCtxWaitEvent") == before);
    comes();
    EXPECT((rotate() > 0) == (device && comes == no_reason));
    printf("ok device_wait %s\n", words[1]);
    return 0;
}
