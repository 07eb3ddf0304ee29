/* The simulated driver keeps its promises, above all that memory reused too early is caught. */
#define _GNU_SOURCE
#include <cuda.h>
#include <cudaTypedefs.h>
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "simcuda.h"

#define OK(call) assert_int_equal((call), CUDA_SUCCESS)
#define MIB      ((size_t)1 << 20)

static CUcontext ctx;
static CUmodule module;

static int set_up(void **state) {
    (void)state;
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxReset(0));
    OK(cuDevicePrimaryCtxRetain(&ctx, 0));
    OK(cuCtxSetCurrent(ctx));
    OK(cuModuleLoadData(&module, "any image"));
    simcuda_reset_counters();
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    simcuda_set_failures(NULL);
    simcuda_set_hidden(NULL);
    simcuda_set_version(13000);
    simcuda_set_streams("immediate");
    OK(cuModuleUnload(module));
    cuDevicePrimaryCtxRelease(0);
    cuCtxSetCurrent(NULL);
    assert_int_equal(simcuda_used(0), 0);
    return 0;
}

static void launch(const char *name, CUdeviceptr p, uint64_t bytes, uint32_t value, CUstream s) {
    CUfunction f;
    void *args[] = {&p, &bytes, &value};
    OK(cuModuleGetFunction(&f, module, name));
    OK(cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, s, args, NULL));
}

static CUstream new_stream(void) {
    CUstream s;
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    return s;
}

static void native_blocks(void **state) {
    CUdeviceptr p, q, base;
    size_t size, free, total;
    (void)state;
    assert_int_equal(cuMemAlloc(&p, 0), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemAlloc(&p, 1000));
    OK(cuMemAlloc(&q, 1000));
    assert_int_equal(p % 256, 0);
    assert_int_equal(q - p, 1024);
    OK(cuMemGetAddressRange(&base, &size, p + 999));
    assert_true(base == p && size == 1000);
    OK(cuMemGetInfo(&free, &total));
    assert_int_equal(total - free, 2 * MIB);
    assert_int_equal(cuMemFree(p + 8), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFree(p));
    assert_int_equal(cuMemFree(p), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemAlloc(&base, 1000));
    assert_true(base == p); /* last in, first out */
    OK(cuMemFree(base));
    OK(cuMemFree(q));
    OK(cuMemFree(0));
    assert_int_equal(cuMemAlloc(&p, (size_t)1 << 40), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(cuMemsetD8(q, 0, 1000), CUDA_ERROR_INVALID_VALUE);
}

static void limit_is_counted(void **state) {
    CUdeviceptr p[64], m;
    unsigned n = 0;
    (void)state;
    while (n < 64 && cuMemAlloc(&p[n], 128 * MIB) == CUDA_SUCCESS)
        n++;
    assert_int_equal(n, 32); /* 4 GiB */
    assert_int_equal(cuMemAllocManaged(&m, MIB, CU_MEM_ATTACH_GLOBAL), CUDA_ERROR_OUT_OF_MEMORY);
    while (n)
        OK(cuMemFree(p[--n]));
}

static void free_waits(void **state) {
    CUdeviceptr p;
    (void)state;
    simcuda_set_streams("manual");
    OK(cuMemAlloc(&p, MIB));
    launch(SIMCUDA_KERNEL_FILL, p, MIB, 7, new_stream());
    assert_int_equal(simcuda_pending(), 1);
    OK(cuMemFree(p));
    assert_int_equal(simcuda_pending(), 0);
    assert_int_equal(simcuda_violations(), 0);
}

static void stream_ordered_reuse_is_caught(void **state) {
    CUdeviceptr p;
    CUstream a = new_stream(), b = new_stream();
    (void)state;
    simcuda_set_streams("manual");
    OK(cuMemAllocAsync(&p, MIB, a));
    OK(cuStreamSynchronize(a));
    launch(SIMCUDA_KERNEL_FILL, p, MIB, 1, b);
    OK(cuMemFreeAsync(p, a)); /* nothing orders this after the kernel in b */
    assert_int_equal(simcuda_step(a), 1);
    assert_int_equal(simcuda_step(b), 1);
    assert_int_equal(simcuda_violations(), 1);
    assert_int_equal(cuStreamSynchronize(b), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(cuMemAlloc(&p, 16), CUDA_ERROR_ILLEGAL_ADDRESS); /* sticky */
    OK(cuDevicePrimaryCtxReset(0));
    OK(cuCtxSetCurrent(ctx));
    OK(cuMemAlloc(&p, 16));
}

static void unmap_does_not_wait(void **state) {
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUmemAccessDesc access = {prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle h;
    CUdeviceptr p;
    (void)state;
    OK(cuMemCreate(&h, 2 * MIB, &prop, 0));
    OK(cuMemAddressReserve(&p, 4 * MIB, 0, 0, 0));
    OK(cuMemMap(p, 2 * MIB, 0, h, 0));
    OK(cuMemSetAccess(p, 2 * MIB, &access, 1));
    simcuda_set_streams("manual");
    launch(SIMCUDA_KERNEL_FILL, p, MIB, 1, new_stream());
    OK(cuMemUnmap(p, 2 * MIB));
    assert_int_equal(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(simcuda_violations(), 1);
    OK(cuDevicePrimaryCtxReset(0));
    OK(cuMemRelease(h));
    OK(cuMemAddressFree(p, 4 * MIB));
}

static void notes_and_patterns_catch_reuse(void **state) {
    CUdeviceptr p;
    CUstream a = new_stream(), b = new_stream();
    CUevent e;
    (void)state;
    simcuda_set_streams("manual");
    OK(cuMemAlloc(&p, MIB));
    assert_int_equal(simcuda_declare_alloc(p, 4096, SIMCUDA_ANY_STREAM), 0);
    launch(SIMCUDA_KERNEL_FILL, p, 4096, 1, a);
    launch(SIMCUDA_KERNEL_CHECK, p, 4096, 1, a);
    assert_int_equal(simcuda_declare_free(p), 2);
    OK(cuEventCreate(&e, 0));
    OK(cuEventRecord(e, a));
    /* In the same stream, or after an event of it, the reuse is sound. */
    assert_int_equal(simcuda_declare_alloc(p, 4096, a), 0);
    OK(cuStreamWaitEvent(b, e, 0));
    assert_int_equal(simcuda_declare_alloc(p, 4096, b), 0);
    assert_int_equal(simcuda_violations(), 0);
    CUstream c = new_stream();
    assert_int_equal(simcuda_declare_alloc(p, 4096, c), 2);
    assert_int_equal(simcuda_violations(), 2);
    /* And the data says so too: the new user's fill comes between the old user's fill and check. */
    launch(SIMCUDA_KERNEL_FILL, p, 4096, 2, c);
    assert_int_equal(simcuda_step(a), 1);
    assert_int_equal(simcuda_step(c), 1);
    simcuda_run_all();
    assert_int_equal(simcuda_check_runs(), 1);
    assert_int_equal(simcuda_check_mismatches(), 1024);
    OK(cuMemFree(p));
}

static void legacy_stream_orders(void **state) {
    CUdeviceptr p;
    CUstream blocking, free_running = new_stream();
    (void)state;
    OK(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    simcuda_set_streams("manual");
    OK(cuMemAlloc(&p, MIB));
    launch(SIMCUDA_KERNEL_FILL, p, MIB, 1, blocking);
    launch(SIMCUDA_KERNEL_CHECK, p, MIB, 1, NULL);
    launch(SIMCUDA_KERNEL_FILL, p, MIB, 2, blocking);
    assert_int_equal(simcuda_step(NULL), 0); /* waits for the blocking stream */
    assert_int_equal(simcuda_step(blocking), 1);
    assert_int_equal(simcuda_step(blocking), 0); /* waits for the legacy stream */
    assert_int_equal(cuStreamQuery(blocking), CUDA_ERROR_NOT_READY);
    OK(cuStreamQuery(free_running));
    OK(cuCtxSynchronize());
    assert_int_equal(simcuda_check_mismatches(), 0);
    assert_int_equal(simcuda_check_runs(), 1);
    OK(cuMemFree(p));
}

static void context_events(void **state) {
    CUdeviceptr p;
    CUstream a = new_stream(), b = new_stream();
    CUevent e;
    (void)state;
    simcuda_set_streams("manual");
    OK(cuMemAlloc(&p, MIB));
    OK(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    launch(SIMCUDA_KERNEL_FILL, p, MIB, 1, a);
    OK(cuCtxRecordEvent(ctx, e));
    launch(SIMCUDA_KERNEL_FILL, p, MIB, 2, b); /* later than the record */
    assert_int_equal(cuEventQuery(e), CUDA_ERROR_NOT_READY);
    assert_int_equal(simcuda_step(a), 1);
    OK(cuEventQuery(e));
    launch(SIMCUDA_KERNEL_FILL, p, MIB, 3, a);
    OK(cuCtxRecordEvent(ctx, e));
    OK(cuCtxWaitEvent(ctx, e));
    CUstream late = new_stream();
    launch(SIMCUDA_KERNEL_CHECK, p, MIB, 3, late);
    assert_int_equal(simcuda_step(late), 0);
    simcuda_run_all();
    assert_int_equal(simcuda_check_runs(), 1);
    OK(cuEventDestroy(e));
    OK(cuMemFree(p));
}

static void pools(void **state) {
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUmemoryPool pool;
    CUdeviceptr p, q;
    CUstream a = new_stream(), b = new_stream();
    cuuint64_t v, keep = UINT64_MAX;
    int off = 0;
    (void)state;
    OK(cuMemPoolCreate(&pool, &props));
    OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, &off));
    OK(cuMemAllocFromPoolAsync(&p, 3 * MIB, pool, a));
    OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &v));
    assert_int_equal(v, 4 * MIB);
    OK(cuMemFreeAsync(p, a));
    assert_int_equal(cuMemFreeAsync(p, a), CUDA_ERROR_INVALID_VALUE);
    OK(cuStreamSynchronize(a));
    assert_int_equal(simcuda_used(0), 0); /* threshold 0 */
    OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
    OK(cuMemAllocFromPoolAsync(&p, 3 * MIB, pool, a));
    simcuda_set_streams("manual");
    OK(cuMemFreeAsync(p, a));
    OK(cuMemAllocFromPoolAsync(&q, 3 * MIB, pool, b)); /* the free has not run */
    assert_true(q != p);
    OK(cuMemFreeAsync(q, b));
    simcuda_run_all();
    OK(cuMemAllocFromPoolAsync(&q, 3 * MIB, pool, b)); /* it has */
    OK(cuStreamSynchronize(b));
    assert_int_equal(simcuda_used(0), 8 * MIB);
    OK(cuMemFree(q));
    OK(cuMemPoolTrimTo(pool, 0));
    assert_int_equal(simcuda_used(0), 0);
    OK(cuMemPoolDestroy(pool));
    props.allocType = CU_MEM_ALLOCATION_TYPE_MANAGED;
    OK(cuMemPoolCreate(&pool, &props));
    OK(cuMemAllocFromPoolAsync(&p, MIB, pool, a));
    OK(cuStreamSynchronize(a));
    memset((void *)(uintptr_t)p, 3, MIB); /* the host may touch it */
    OK(cuMemFreeAsync(p, a));
    OK(cuMemPoolDestroy(pool));
}

static void vmm_aliases(void **state) {
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUmemAccessDesc access = {prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle h;
    CUdeviceptr p;
    char got[16];
    (void)state;
    assert_int_equal(cuMemCreate(&h, MIB, &prop, 0), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemCreate(&h, 4 * MIB, &prop, 0));
    OK(cuMemAddressReserve(&p, 8 * MIB, 0, 0, 0));
    OK(cuMemMap(p, 4 * MIB, 0, h, 0));
    OK(cuMemMap(p + 4 * MIB, 4 * MIB, 0, h, 0));
    OK(cuMemSetAccess(p, 8 * MIB, &access, 1));
    OK(cuMemsetD8(p, 9, 8 * MIB)); /* across both mappings */
    OK(cuMemsetD8(p + 4 * MIB, 5, 16));
    OK(cuMemcpyDtoH(got, p, 16));
    assert_int_equal(got[15], 5);
    OK(cuMemRelease(h));
    assert_int_equal(cuMemUnmap(p, 2 * MIB), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemUnmap(p, 4 * MIB));
    assert_int_equal(simcuda_used(0), 4 * MIB);
    assert_int_equal(cuMemAddressFree(p, 8 * MIB), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemUnmap(p + 4 * MIB, 4 * MIB));
    assert_int_equal(simcuda_used(0), 0);
    OK(cuMemAddressFree(p, 8 * MIB));
}

static void capture_rules(void **state) {
    CUstream s = new_stream();
    CUstreamCaptureMode relaxed = CU_STREAM_CAPTURE_MODE_RELAXED;
    CUstreamCaptureStatus status;
    CUgraph graph;
    CUevent e;
    CUdeviceptr p;
    (void)state;
    OK(cuEventCreate(&e, 0));
    OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    assert_int_equal(cuEventQuery(e), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    OK(cuStreamIsCapturing(s, &status));
    assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    assert_int_equal(cuStreamEndCapture(s, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    assert_int_equal(cuMemAlloc(&p, 16), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    assert_int_equal(cuStreamEndCapture(s, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuThreadExchangeStreamCaptureMode(&relaxed));
    assert_int_equal(relaxed, CU_STREAM_CAPTURE_MODE_GLOBAL);
    OK(cuMemAlloc(&p, 4096));
    OK(cuEventQuery(e));
    OK(cuThreadExchangeStreamCaptureMode(&relaxed));
    launch(SIMCUDA_KERNEL_FILL, p, 4096, 6, s);
    OK(cuStreamEndCapture(s, &graph));
    CUgraphExec exec;
    OK(cuGraphInstantiate(&exec, graph, 0));
    OK(cuGraphLaunch(exec, s));
    launch(SIMCUDA_KERNEL_CHECK, p, 4096, 6, s);
    OK(cuStreamSynchronize(s));
    assert_int_equal(simcuda_check_mismatches(), 0);
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
    OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    assert_int_equal(cuCtxRecordEvent(ctx, e), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    assert_int_equal(cuStreamEndCapture(s, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    OK(cuMemFree(p));
}

static void graph_memory(void **state) {
    CUstream s = new_stream();
    CUgraph graph;
    CUgraphExec exec;
    CUdeviceptr p;
    (void)state;
    OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuMemAllocAsync(&p, 4096, s));
    launch(SIMCUDA_KERNEL_FILL, p, 4096, 3, s);
    launch(SIMCUDA_KERNEL_CHECK, p, 4096, 3, s);
    OK(cuMemFreeAsync(p, s));
    OK(cuStreamEndCapture(s, &graph));
    OK(cuGraphInstantiate(&exec, graph, 0));
    OK(cuGraphLaunch(exec, s));
    OK(cuGraphLaunch(exec, s));
    OK(cuStreamSynchronize(s));
    assert_int_equal(simcuda_check_runs(), 2);
    assert_int_equal(simcuda_check_mismatches(), 0);
    assert_int_equal(simcuda_violations(), 0);
    OK(cuGraphDestroy(graph));
    OK(cuGraphExecDestroy(exec));
}

static void scripted_failures(void **state) {
    CUdeviceptr p[4];
    (void)state;
    assert_int_equal(simcuda_set_failures("cuMemAlloc_v2:2"), 0);
    OK(cuMemAlloc(&p[0], 16));
    assert_int_equal(cuMemAlloc(&p[1], 16), CUDA_ERROR_OUT_OF_MEMORY);
    OK(cuMemAlloc(&p[1], 16));
    assert_int_equal(simcuda_set_failures("*Alloc*:1:700:2"), 0);
    assert_int_equal(cuMemAlloc(&p[2], 16), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(cuMemAllocManaged(&p[2], 16, CU_MEM_ATTACH_GLOBAL), CUDA_ERROR_ILLEGAL_ADDRESS);
    OK(cuMemAlloc(&p[2], 16));
    assert_int_equal(simcuda_set_failures("nonsense"), -1);
    for (int i = 0; i < 3; i++)
        OK(cuMemFree(p[i]));
}

static void hidden_names(void **state) {
    CUdriverProcAddressQueryResult found;
    CUevent e;
    void *fn = &fn;
    (void)state;
    OK(cuEventCreate(&e, 0));
    simcuda_set_hidden("cuCtxRecordEvent,cuCtxWaitEvent");
    OK(cuGetProcAddress("cuCtxRecordEvent", &fn, 13000, 0, &found));
    assert_null(fn);
    assert_int_equal(found, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    assert_int_equal(cuCtxRecordEvent(ctx, e), CUDA_ERROR_NOT_SUPPORTED);
    simcuda_set_hidden(NULL);
    OK(cuCtxRecordEvent(ctx, e));
    simcuda_set_version(12040);
    assert_int_equal(cuGetProcAddress("cuMemAlloc", &fn, 13000, 0, &found), CUDA_ERROR_INVALID_VALUE);
    OK(cuGetProcAddress("cuCtxRecordEvent", &fn, 12040, 0, &found));
    assert_null(fn);
}

static void look_ups(void **state) {
    static const struct {
        const char *name;
        int version, flags;
        const char *symbol;
    } rows[] = {
        {"cuMemAlloc", 3020, 0, "cuMemAlloc_v2"},
        {"cuMemAlloc", 2000, 0, "cuMemAlloc"},
        {"cuMemAlloc", 13000, 2, "cuMemAlloc_v2"},
        {"cuMemAllocAsync", 11020, 0, "cuMemAllocAsync"},
        {"cuMemAllocAsync", 11020, 2, "cuMemAllocAsync_ptsz"},
        {"cuMemcpyHtoD", 7000, 2, "cuMemcpyHtoD_v2_ptds"},
        {"cuMemcpyHtoD", 7000, 1, "cuMemcpyHtoD_v2"},
        {"cuIpcOpenMemHandle", 4010, 0, "cuIpcOpenMemHandle"},
        {"cuIpcOpenMemHandle", 11000, 0, "cuIpcOpenMemHandle_v2"},
        {"cuMemPrefetchAsync", 8000, 0, "cuMemPrefetchAsync"},
        {"cuMemPrefetchAsync", 12020, 0, "cuMemPrefetchAsync_v2"},
        {"cuGetProcAddress", 11030, 0, "cuGetProcAddress"},
        {"cuGetProcAddress", 12000, 0, "cuGetProcAddress_v2"},
        {"cuStreamBeginCapture", 10010, 2, "cuStreamBeginCapture_v2_ptsz"},
        {"cuCtxCreate", 12050, 0, "cuCtxCreate_v4"},
    };
    CUdriverProcAddressQueryResult found;
    void *fn;
    (void)state;
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        OK(cuGetProcAddress(rows[i].name, &fn, rows[i].version, (cuuint64_t)rows[i].flags, &found));
        assert_ptr_equal(fn, dlsym(RTLD_DEFAULT, rows[i].symbol));
    }
    OK(cuGetProcAddress("cuMemAllocAsync", &fn, 3020, 0, &found));
    assert_int_equal(found, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
    assert_int_equal(cuGetProcAddress("cuMemAlloc", NULL, 3020, 0, NULL), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuGetProcAddress("cuMemAlloc", &fn, 3020, 8, NULL), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuGetProcAddress("", &fn, 0, 0, NULL), CUDA_ERROR_NOT_FOUND);
    const void *table = &table;
    CUuuid id = {{1}};
    assert_int_equal(cuGetExportTable(&table, &id), CUDA_ERROR_NOT_FOUND);
}

static void pointer_attributes(void **state) {
    CUdeviceptr p, m;
    void *host;
    CUmemorytype type;
    unsigned long long first, second;
    unsigned managed = 0;
    int local;
    (void)state;
    OK(cuMemAlloc(&p, MIB));
    OK(cuMemAllocManaged(&m, MIB, CU_MEM_ATTACH_GLOBAL));
    OK(cuMemHostAlloc(&host, 4096, 0));
    OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p + 5));
    assert_int_equal(type, CU_MEMORYTYPE_DEVICE);
    OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)(uintptr_t)host));
    assert_int_equal(type, CU_MEMORYTYPE_HOST);
    OK(cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, m));
    assert_int_equal(managed, 1);
    assert_int_equal(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)(uintptr_t)&local),
                     CUDA_ERROR_INVALID_VALUE);
    CUpointer_attribute name = CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
    void *data = &type;
    OK(cuPointerGetAttributes(1, &name, &data, (CUdeviceptr)(uintptr_t)&local));
    assert_int_equal(type, 0);
    OK(cuPointerGetAttribute(&first, CU_POINTER_ATTRIBUTE_BUFFER_ID, p));
    OK(cuMemFree(p));
    OK(cuMemAlloc(&p, MIB));
    OK(cuPointerGetAttribute(&second, CU_POINTER_ATTRIBUTE_BUFFER_ID, p));
    assert_true(first != second);
    OK(cuMemFree(p));
    OK(cuMemFree(m));
    OK(cuMemFreeHost(host));
}

static int range_attribute(CUmem_range_attribute attribute, CUdeviceptr p, size_t count) {
    int value = -99;
    OK(cuMemRangeGetAttribute(&value, sizeof value, attribute, p, count));
    return value;
}

/* Pages of a pool keep their advice over a free; other managed memory comes without any. */
static void advice_belongs_to_pages(void **state) {
    const CUmemLocation device = {.type = CU_MEM_LOCATION_TYPE_DEVICE}, host = {.type = CU_MEM_LOCATION_TYPE_HOST};
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_MANAGED};
    CUmemoryPool pool;
    CUstream s;
    CUdeviceptr p, q;
    (void)state;
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    OK(cuMemPoolCreate(&pool, &props));
    cuuint64_t all = UINT64_MAX;
    OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all));
    OK(cuMemAllocFromPoolAsync(&p, MIB, pool, s));
    assert_int_equal(cuMemAdvise(p, MIB, CU_MEM_ADVISE_SET_READ_MOSTLY, device), CUDA_ERROR_NOT_SUPPORTED);
    OK(cuMemAdvise(p + 8192, 5000, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, device));
    OK(cuMemAdvise(p, MIB, CU_MEM_ADVISE_SET_ACCESSED_BY, device));
    OK(cuMemPrefetchAsync(p, MIB, host, 0, s));
    assert_int_equal(range_attribute(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, p + 8192, 8192), 0);
    assert_int_equal(range_attribute(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, p, MIB), CU_DEVICE_INVALID);
    OK(cuMemFreeAsync(p, s));
    OK(cuMemAllocFromPoolAsync(&q, MIB, pool, s));
    assert_true(p == q);
    assert_int_equal(range_attribute(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, q + 8192, 8192), 0);
    assert_int_equal(range_attribute(CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, q, MIB), 0);
    assert_int_equal(range_attribute(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, q, MIB), CU_DEVICE_CPU);
    OK(cuMemAdvise(q, MIB, CU_MEM_ADVISE_UNSET_ACCESSED_BY, device));
    assert_int_equal(range_attribute(CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, q, MIB), CU_DEVICE_INVALID);
    OK(cuMemFreeAsync(q, s));
    OK(cuMemPoolDestroy(pool));

    OK(cuMemAllocManaged(&p, MIB, CU_MEM_ATTACH_GLOBAL));
    OK(cuMemAdvise(p, MIB, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, host));
    assert_int_equal(range_attribute(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, p, MIB), CU_DEVICE_CPU);
    OK(cuMemAdvise(p, 1, CU_MEM_ADVISE_SET_READ_MOSTLY, device));
    assert_int_equal(range_attribute(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, p, 4096), 1);
    assert_int_equal(range_attribute(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, p, MIB), 0);
    OK(cuMemFree(p));
    OK(cuMemAllocManaged(&q, MIB, CU_MEM_ATTACH_GLOBAL));
    assert_int_equal(range_attribute(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, q, MIB), CU_DEVICE_INVALID);
    OK(cuMemFree(q));
    OK(cuStreamDestroy(s));
}

/* In the child: a driver of its own (the parent's was never started), opening the parent's block. */
static int child(int in, int out) {
    CUipcMemHandle handle;
    CUdeviceptr p;
    char done = 0;
    if (read(in, &handle, sizeof handle) != sizeof handle || cuInit(0) || cuDevicePrimaryCtxRetain(&ctx, 0) ||
        cuCtxSetCurrent(ctx))
        return 1;
    if (cuIpcOpenMemHandle(&p, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) || cuMemsetD32(p, 77, 1024) ||
        cuCtxSynchronize() || cuIpcCloseMemHandle(p))
        return 2;
    return write(out, &done, 1) == 1 ? 0 : 3;
}

static void ipc_between_processes(void **state) {
    int to[2], from[2], status;
    CUipcMemHandle handle;
    CUdeviceptr p, q;
    uint32_t got[1024];
    char done;
    (void)state;
    assert_int_equal(pipe(to), 0);
    assert_int_equal(pipe(from), 0);
    char in[16], out[16];
    snprintf(in, sizeof in, "%d", to[0]);
    snprintf(out, sizeof out, "%d", from[1]);
    pid_t pid = fork();
    if (pid == 0) {
        execl("/proc/self/exe", "ipc-child", in, out, (char *)NULL);
        _exit(9);
    }
    OK(cuMemAlloc(&q, 4096));
    OK(cuMemAlloc(&p, 4096)); /* not first in its chunk: the handle names the block */
    OK(cuIpcGetMemHandle(&handle, p));
    assert_int_equal(cuIpcOpenMemHandle(&q, handle, 1), CUDA_ERROR_INVALID_CONTEXT);
    assert_int_equal(write(to[1], &handle, sizeof handle), sizeof handle);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(read(from[0], &done, 1), 1);
    OK(cuMemcpyDtoH(got, p, sizeof got));
    assert_int_equal(got[0], 77);
    assert_int_equal(got[1023], 77);
    OK(cuMemFree(p));
    OK(cuMemFree(q));
    CUstream s = new_stream();
    OK(cuMemAllocAsync(&p, 4096, s));
    assert_int_equal(cuIpcGetMemHandle(&handle, p), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFreeAsync(p, s));
    for (int i = 0; i < 2; i++) {
        close(to[i]);
        close(from[i]);
    }
    OK(cuStreamSynchronize(s));
}

static void two_devices(void **state) {
    CUcontext other;
    CUdeviceptr p;
    int can;
    (void)state;
    OK(cuDeviceCanAccessPeer(&can, 0, 1));
    assert_int_equal(can, 1);
    OK(cuDevicePrimaryCtxRetain(&other, 1));
    OK(cuCtxPushCurrent(other));
    OK(cuMemAlloc(&p, 4096));
    OK(cuCtxPopCurrent(NULL));
    assert_int_equal(simcuda_used(0), 0);
    assert_int_equal(simcuda_used(1), 2 * MIB);
    OK(cuCtxEnablePeerAccess(other, 0));
    assert_int_equal(cuCtxEnablePeerAccess(other, 0), CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
    launch(SIMCUDA_KERNEL_FILL, p, 4096, 1, NULL);
    OK(cuCtxSynchronize());
    OK(cuCtxDisablePeerAccess(other));
    launch(SIMCUDA_KERNEL_FILL, p, 4096, 1, NULL);
    assert_int_equal(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    OK(cuDevicePrimaryCtxRelease(1));
    OK(cuDevicePrimaryCtxReset(0));
}

static void random_order_keeps_results(void **state) {
    CUdeviceptr p[3];
    CUstream s[3];
    (void)state;
    for (int seed = 1; seed <= 20; seed++) {
        char mode[32];
        snprintf(mode, sizeof mode, "random:%d", seed);
        assert_int_equal(simcuda_set_streams(mode), 0);
        for (int i = 0; i < 3; i++) {
            s[i] = new_stream();
            OK(cuMemAllocAsync(&p[i], 4096, s[i]));
            launch(SIMCUDA_KERNEL_FILL, p[i], 4096, (uint32_t)i, s[i]);
            launch(SIMCUDA_KERNEL_CHECK, p[i], 4096, (uint32_t)i, s[i]);
            OK(cuMemFreeAsync(p[i], s[i]));
        }
        OK(cuCtxSynchronize());
        for (int i = 0; i < 3; i++)
            OK(cuStreamDestroy(s[i]));
    }
    assert_int_equal(simcuda_check_runs(), 60);
    assert_int_equal(simcuda_check_mismatches(), 0);
    assert_int_equal(simcuda_violations(), 0);
}

/* Runs in a child that must die: under strict mode the host cannot read device memory. */
static int strict_child(void) {
    CUdeviceptr p;
    if (cuInit(0) || cuDevicePrimaryCtxRetain(&ctx, 0) || cuCtxSetCurrent(ctx) || cuMemAlloc(&p, 4096))
        return 1;
    return *(volatile char *)(uintptr_t)p;
}

static void strict_mode_crashes_the_host(void **state) {
    int status;
    (void)state;
    pid_t pid = fork();
    if (pid == 0) {
        setenv("SIMCUDA_STRICT", "1", 1);
        execl("/proc/self/exe", "strict-child", "strict", (char *)NULL);
        _exit(9);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
}

static void host_function(void *p) { *(CUresult *)p = cuMemAlloc((CUdeviceptr *)p + 1, 16); }

static void host_functions_may_not_call(void **state) {
    struct {
        CUresult r;
        CUdeviceptr p;
    } out = {CUDA_SUCCESS, 0};
    CUstream s = new_stream();
    (void)state;
    OK(cuLaunchHostFunc(s, host_function, &out));
    OK(cuStreamSynchronize(s));
    assert_int_equal(out.r, CUDA_ERROR_NOT_PERMITTED);
}

static void call_log(void **state) {
    char text[4096];
    CUdeviceptr p;
    (void)state;
    OK(cuMemAlloc(&p, 12345));
    OK(cuMemFree(p));
    assert_true(simcuda_log_tail(text, sizeof text) > 0);
    assert_non_null(strstr(text, " bytesize=12345\n"));
    assert_non_null(strstr(text, " cuMemFree_v2 0 dptr=0x"));
}

static void value_waits(void **state) {
    CUdeviceptr flag, p;
    CUstream a = new_stream(), b = new_stream();
    (void)state;
    OK(cuMemAlloc(&flag, 8));
    OK(cuMemAlloc(&p, 4096));
    OK(cuMemsetD8(flag, 0, 8));
    OK(cuStreamWaitValue32(a, flag, 1, CU_STREAM_WAIT_VALUE_GEQ));
    launch(SIMCUDA_KERNEL_FILL, p, 4096, 5, a);
    assert_int_equal(cuStreamQuery(a), CUDA_ERROR_NOT_READY);
    OK(cuStreamWriteValue32(b, flag, 1, 0));
    OK(cuStreamSynchronize(a));
    OK(cuMemFree(flag));
    OK(cuMemFree(p));
}

int main(int argc, char **argv) {
    if (argc == 2)
        return strict_child();
    if (argc == 3)
        return child(atoi(argv[1]), atoi(argv[2]));
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(native_blocks),
        TEST(limit_is_counted),
        TEST(free_waits),
        TEST(stream_ordered_reuse_is_caught),
        TEST(unmap_does_not_wait),
        TEST(notes_and_patterns_catch_reuse),
        TEST(legacy_stream_orders),
        TEST(context_events),
        TEST(pools),
        TEST(vmm_aliases),
        TEST(capture_rules),
        TEST(graph_memory),
        TEST(scripted_failures),
        TEST(hidden_names),
        TEST(look_ups),
        TEST(pointer_attributes),
        TEST(advice_belongs_to_pages),
        TEST(ipc_between_processes),
        TEST(two_devices),
        TEST(random_order_keeps_results),
        TEST(strict_mode_crashes_the_host),
        TEST(host_functions_may_not_call),
        TEST(call_log),
        TEST(value_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
