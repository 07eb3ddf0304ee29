/* How far a cudaFree synchronises on the simulated driver, before and after an action of the process. All functions
 * are looked up as the runtime does it, so that only the named reason is present. Argument: the reason; frees.py
 * knows the level that is expected after it. Prints the levels of two frees before and two after it. */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <dlfcn.h>

#include "cases.h"
#include "simcuda.h"

enum { MIB = 1 << 20, BYTES = 1 * MIB };

#define D(symbol) ((__typeof__(&symbol))look_up(#symbol))

static void *look_up(const char *symbol) {
    static void *driver;
    if (!driver)
        driver = dlopen("libcuda.so.1", RTLD_NOW);
    void *found = driver ? dlsym(driver, symbol) : NULL;
    EXPECT(found != NULL);
    return found;
}

static CUcontext context;
static CUstream stream; /* NULL: the default stream */
static CUfunction fill, verify;
static CUdeviceptr word;

static void launch(CUfunction kernel, CUdeviceptr address, uint32_t pattern) {
    uint64_t bytes = 65536;
    void *arguments[] = {&address, &bytes, &pattern};
    MUST(D(cuLaunchKernel)(kernel, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL));
}

static CUdeviceptr free_behind_work(uint32_t pattern) {
    CUdeviceptr block;
    D(simcuda_set_streams)("manual");
    MUST(D(cuMemAlloc_v2)(&block, BYTES));
    launch(fill, block, pattern);
    launch(verify, block, pattern);
    MUST(D(cuMemFree_v2)(block));
    return block;
}

static const char *level(void) {
    uint64_t waits = D(simcuda_calls)("cuCtxWaitEvent"), checked = D(simcuda_check_runs)();
    free_behind_work(7);
    int waited = D(simcuda_check_runs)() > checked;
    MUST(D(cuMemsetD32Async)(word, 0, 1, stream)); /* the next work is what an order holds up */
    const char *seen = waited ? "wait" : D(simcuda_calls)("cuCtxWaitEvent") > waits ? "order" : "async";
    D(simcuda_run_all)();
    D(simcuda_set_streams)("immediate");
    MUST(D(cuCtxSynchronize)());
    EXPECT(D(simcuda_check_mismatches)() == 0 && D(simcuda_violations)() == 0);
    return seen;
}

static void nothing(void *data) { (void)data; }
static void called(CUstream of, CUresult status, void *data) { (void)of, (void)status, (void)data; }

CASE(peers) {
    CUcontext peer;
    MUST(D(cuDevicePrimaryCtxRetain)(&peer, 1));
    MUST(D(cuCtxEnablePeerAccess)(peer, 0));
}
CASE(ipc_export) {
    CUipcMemHandle handle;
    D(cuIpcGetMemHandle)(&handle, word);
}
CASE(ipc_import) {
    CUipcMemHandle handle = {{0}};
    CUdeviceptr address;
    EXPECT(D(cuIpcOpenMemHandle_v2)(&address, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) != CUDA_SUCCESS);
}
CASE(shareable) {
    CUmemAllocationProp kind = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location.type = CU_MEM_LOCATION_TYPE_DEVICE,
                                .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR};
    CUmemGenericAllocationHandle handle;
    int file;
    MUST(D(cuMemCreate)(&handle, 2 * MIB, &kind, 0));
    D(cuMemExportToShareableHandle)(&file, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
}
CASE(import) {
    CUmemGenericAllocationHandle handle;
    EXPECT(D(cuMemImportFromShareableHandle)(&handle, NULL, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) != CUDA_SUCCESS);
}
CASE(pool_pointer) {
    CUmemPoolPtrExportData data;
    EXPECT(D(cuMemPoolExportPointer)(&data, word) != CUDA_SUCCESS);
}
CASE(range) {
    int file = -1;
    D(cuMemGetHandleForAddressRange)(&file, word, 4096, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
}
CASE(value) { MUST(D(cuStreamWaitValue32_v2)(stream, word, 0, CU_STREAM_WAIT_VALUE_GEQ)); }
CASE(old_value) { MUST(D(cuStreamWaitValue32)(stream, word, 0, CU_STREAM_WAIT_VALUE_GEQ)); }
CASE(twin_value) { MUST(D(cuStreamWaitValue32_v2_ptsz)(stream, word, 0, CU_STREAM_WAIT_VALUE_GEQ)); }
CASE(value64) { MUST(D(cuStreamWaitValue64_v2)(stream, word, 0, CU_STREAM_WAIT_VALUE_GEQ)); }
CASE(batch) {
    CUstreamBatchMemOpParams row = {.waitValue = {.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32, .address = word}};
    MUST(D(cuStreamBatchMemOp_v2)(stream, 1, &row, 0));
}
CASE(semaphore) { D(cuWaitExternalSemaphoresAsync)(NULL, NULL, 0, stream); }
CASE(host_function) { MUST(D(cuLaunchHostFunc)(stream, nothing, NULL)); }
CASE(callback) { MUST(D(cuStreamAddCallback)(stream, called, NULL, 0)); }
CASE(host_node) {
    CUgraph graph;
    CUgraphNode node;
    CUgraphNodeParams parameters = {.type = CU_GRAPH_NODE_TYPE_HOST, .host = {.fn = nothing}};
    MUST(D(cuGraphCreate)(&graph, 0));
    D(cuGraphAddNode_v2)(&node, graph, NULL, NULL, 0, &parameters);
}
CASE(second_context) {
    CUcontext second;
    CUdeviceptr block;
    MUST(D(cuCtxCreate_v2)(&second, 0, 0));
    MUST(D(cuMemAlloc_v2)(&block, 4096));
    MUST(D(cuMemFree_v2)(block));
    MUST(D(cuCtxSetCurrent)(context));
}
CASE(green_context) {
    CUdevResource whole;
    CUdevResourceDesc resources;
    CUgreenCtx green;
    MUST(D(cuDeviceGetDevResource)(0, &whole, CU_DEV_RESOURCE_TYPE_SM));
    MUST(D(cuDevResourceGenerateDesc)(&resources, &whole, 1));
    MUST(D(cuGreenCtxCreate)(&green, resources, 0, CU_GREEN_CTX_DEFAULT_STREAM));
}
CASE(no_reason) {}
CASE(pinned) {
    void *host;
    MUST(D(cuMemHostAlloc)(&host, 4096, 0));
}
CASE(pinned_too) {
    void *host;
    MUST(D(cuMemAllocHost_v2)(&host, 4096));
}
CASE(registered) {
    static char host[4 * 4096];
    MUST(D(cuMemHostRegister_v2)(host, sizeof host, 0));
}
CASE(managed) {
    CUdeviceptr address;
    MUST(D(cuMemAllocManaged)(&address, 4096, CU_MEM_ATTACH_GLOBAL));
}
CASE(host_handle) {
    CUmemAllocationProp kind = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA};
    CUmemGenericAllocationHandle handle;
    D(cuMemCreate)(&handle, 2 * MIB, &kind, 0);
}
CASE(managed_pool) {
    CUmemPoolProps kind = {.allocType = CU_MEM_ALLOCATION_TYPE_MANAGED, .location.type = CU_MEM_LOCATION_TYPE_DEVICE};
    CUmemoryPool pool;
    D(cuMemPoolCreate)(&pool, &kind);
}
CASE(host_pool) {
    CUmemLocation where = {.type = CU_MEM_LOCATION_TYPE_HOST};
    CUmemoryPool pool;
    D(cuMemGetDefaultMemPool)(&pool, &where, CU_MEM_ALLOCATION_TYPE_PINNED);
}
CASE(batch_copy) { D(cuMemcpyBatchAsync_v2)(NULL, NULL, NULL, 0, NULL, NULL, 0, stream); }
CASE(external_memory) { D(cuImportExternalMemory)(NULL, NULL); }
CASE(external_semaphore) { D(cuImportExternalSemaphore)(NULL, NULL); }
CASE(graphics) { D(cuGraphicsMapResources)(0, NULL, stream); }
CASE(printing) {
    CUmodule module;
    static const char text[] = ".version 9.0\n.extern .func (.param .b32 r) vprintf (.param .b64 f, .param .b64 a)\n";
    D(cuModuleLoadData)(&module, text);
}
/* A fat binary with PTX that LZ4 has packed: "rintf" stands there once, the second time it is a match. */
static const struct {
    uint32_t magic;
    uint16_t version, header_bytes;
    uint64_t bytes;
    uint16_t kind, entry_version;
    uint32_t entry_header;
    uint64_t entry_bytes;
    uint32_t packed, options;
    uint16_t minor, major;
    uint32_t arch, name, name_bytes;
    uint64_t flags, key, unpacked;
    unsigned char block[32];
} packed = {.magic = 0xba55ed50,
            .version = 1,
            .header_bytes = 16,
            .bytes = 96,
            .kind = 1,
            .entry_header = 64,
            .entry_bytes = 32,
            .packed = 27,
            .arch = 90,
            .flags = 0x2011,
            .unpacked = 27,
            .block = "\xf1\x06.version 9.0 rintf vp\x08\x00\x10\n"};
static const struct {
    uint32_t magic, version;
    const void *data, *more;
} wrapped = {0x466243b1, 1, &packed, NULL};

CASE(printing_packed) {
    CUmodule module;
    MUST(D(cuModuleLoadData)(&module, &packed));
}
/* Without an option the image may be gone later. */
CASE(printing_library) {
    CUlibrary library;
    MUST(D(cuLibraryLoadData)(&library, &wrapped, NULL, NULL, 0, NULL, NULL, 0));
}
/* The runtime's way: the library keeps its image, and is not used or used later. */
static CUlibrary kept_library(void) {
    CUlibraryOption option = CU_LIBRARY_BINARY_IS_PRESERVED;
    void *value = (void *)1;
    CUlibrary library;
    MUST(D(cuLibraryLoadData)(&library, &wrapped, NULL, NULL, 0, &option, &value, 1));
    return library;
}
CASE(printing_unused) {
    CUlibrary library = kept_library();
    kept_library();
    MUST(D(cuLibraryUnload)(library));
}
CASE(printing_kernel) {
    CUkernel kernel;
    MUST(D(cuLibraryGetKernel)(&kernel, kept_library(), SIMCUDA_KERNEL_FILL));
}
CASE(printing_module) {
    CUmodule module;
    MUST(D(cuLibraryGetModule)(&module, kept_library()));
}
CASE(printing_variable) {
    CUdeviceptr address;
    D(cuLibraryGetGlobal)(&address, NULL, kept_library(), "table");
}
CASE(a_stream) {
    CUstream made;
    MUST(D(cuStreamCreate)(&made, CU_STREAM_NON_BLOCKING));
}
CASE(priority_stream) {
    CUstream made;
    MUST(D(cuStreamCreateWithPriority)(&made, CU_STREAM_NON_BLOCKING, 0));
}
CASE(ended_stream) {
    CUstream made;
    MUST(D(cuStreamCreate)(&made, CU_STREAM_NON_BLOCKING));
    MUST(D(cuStreamDestroy_v2)(made));
}
CASE(per_thread) { MUST(D(cuMemsetD8Async)(word, 0, 64, CU_STREAM_PER_THREAD)); }
CASE(per_thread_launch) {
    CUstream before = stream;
    stream = CU_STREAM_PER_THREAD;
    launch(fill, word, 0);
    stream = before;
}
CASE(twin) { MUST(D(cuMemsetD8Async_ptsz)(word, 0, 64, NULL)); }
CASE(twin_of_a_hook) {
    CUdeviceptr block;
    MUST(D(cuMemAllocAsync_ptsz)(&block, 4096, NULL));
}

/* A free leaves work in flight. The following query must be answered as natively. */
CASE(ask_event) {
    CUevent event;
    MUST(D(cuEventCreate)(&event, CU_EVENT_DISABLE_TIMING));
    D(simcuda_set_streams)("manual");
    launch(fill, word, 0);
    MUST(D(cuEventRecord)(event, stream));
    free_behind_work(1);
    MUST(D(cuEventQuery)(event));
    D(simcuda_run_all)();
    D(simcuda_set_streams)("immediate");
}
CASE(ask_stream) {
    free_behind_work(1);
    MUST(D(cuStreamQuery)(stream));
    D(simcuda_run_all)();
    D(simcuda_set_streams)("immediate");
}
CASE(ask_time) {
    CUevent begin, end;
    float milliseconds;
    MUST(D(cuEventCreate)(&begin, 0));
    MUST(D(cuEventCreate)(&end, 0));
    D(simcuda_set_streams)("manual");
    MUST(D(cuEventRecord)(begin, stream));
    launch(fill, word, 0);
    MUST(D(cuEventRecord)(end, stream));
    free_behind_work(1);
    MUST(D(cuEventElapsedTime)(&milliseconds, begin, end));
    D(simcuda_run_all)();
    D(simcuda_set_streams)("immediate");
}
/* The native free has waited for the work on the block. A part of a range is not kept for reuse, so it is unmapped. */
CASE(unmap) {
    CUmemAllocationProp kind = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location.type = CU_MEM_LOCATION_TYPE_DEVICE};
    CUmemAccessDesc access = {kind.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handle;
    CUdeviceptr address;
    MUST(D(cuMemCreate)(&handle, 2 * MIB, &kind, 0));
    MUST(D(cuMemAddressReserve)(&address, 4 * MIB, 0, 0, 0));
    MUST(D(cuMemMap)(address, 2 * MIB, 0, handle, 0));
    MUST(D(cuMemSetAccess)(address, 2 * MIB, &access, 1));
    D(simcuda_set_streams)("manual");
    launch(fill, address, 1);
    free_behind_work(1);
    MUST(D(cuMemUnmap)(address, 2 * MIB));
    D(simcuda_run_all)();
    D(simcuda_set_streams)("immediate");
    EXPECT(D(simcuda_violations)() == 0);
}
int main(int count, char **words) {
    const struct program_case *reason = case_named(count > 1 ? words[1] : NULL);
    CUmodule module;
    MUST(D(cuInit)(0));
    MUST(D(cuDevicePrimaryCtxRetain)(&context, 0));
    MUST(D(cuCtxSetCurrent)(context));
    MUST(D(cuModuleLoadData)(&module, "kernels of the simulated driver"));
    MUST(D(cuModuleGetFunction)(&fill, module, SIMCUDA_KERNEL_FILL));
    MUST(D(cuModuleGetFunction)(&verify, module, SIMCUDA_KERNEL_CHECK));
    MUST(D(cuMemAlloc_v2)(&word, 2 * MIB));
    MUST(D(cuMemsetD8_v2)(word, 0, 2 * MIB));
    const char *before = level();
    before = level();
    reason->run();
    const char *first = level(), *second = level();
    printf("%s: %s, then %s %s\n", words[1], before, first, second);
    return 0;
}
