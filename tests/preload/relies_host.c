/* Programs that rely on work being done when cuMemFree returns: what they do next does not wait, and its result or its
 * effect depends on that work (relies.h). Argument: the case. RELIES_HOLD_MS: how long work is held up. Memory of the
 * device that is read directly stands for another process, device or network card that reads it. */
#include "relies.h"

static CUevent before;
static CUdeviceptr seen;

static void make_event(void) { MUST(CALL(cuEventCreate, &before, CU_EVENT_DEFAULT)); }
static void finish(void) { MUST(CALL(cuCtxSynchronize)); }

/* ---- work that takes long, run by a thread of its own */

static struct gate gate;

/* The work has begun, and goes on for a while. The caller frees the result behind it. */
static CUdeviceptr begin_held(CUdeviceptr target, unsigned salt, pthread_t *opener) {
    CUdeviceptr scratch = allocate(SCRATCH);
    gate = (struct gate){0};
    launch_hold(NULL, &gate);
    launch(make, NULL, target, salt);
    MUST(CALL(cuEventRecord, before, NULL));
    await(&gate.begun);
    *opener = start_thread(open_gate, &gate);
    return scratch;
}

/* gpumem's own waits block, as a native free does. */
static void end_held(pthread_t opener) {
    note_wrong(CALL(simcuda_busy_waits) != 0);
    note_wrong(!__atomic_load_n(&gate.open, __ATOMIC_ACQUIRE));
    EXPECT(pthread_join(opener, NULL) == 0);
}

static void device_and_event(void) {
    make_event();
    start_device();
}

RELIES(unmap, device_and_event, 1) {
    struct mapping mapping = map(0);
    pthread_t opener;
    release(begin_held(mapping.address, salt, &opener));
    MUST(CALL(cuMemUnmap, mapping.address, 2 * MIB));
    end_held(opener);
    finish();
    MUST(CALL(cuMemRelease, mapping.handle));
    MUST(CALL(cuMemAddressFree, mapping.address, 4 * MIB));
}

RELIES(set_access, device_and_event, 1) {
    CUmemAccessDesc none = {{.type = CU_MEM_LOCATION_TYPE_DEVICE}, CU_MEM_ACCESS_FLAGS_PROT_NONE};
    struct mapping mapping = map(0);
    pthread_t opener;
    release(begin_held(mapping.address, salt, &opener));
    MUST(CALL(cuMemSetAccess, mapping.address, 2 * MIB, &none, 1));
    end_held(opener);
    finish();
    MUST(CALL(cuMemUnmap, mapping.address, 2 * MIB));
    MUST(CALL(cuMemRelease, mapping.handle));
    MUST(CALL(cuMemAddressFree, mapping.address, 4 * MIB));
}

RELIES(event_query, device_and_event, 1) {
    pthread_t opener;
    release(begin_held(table, salt, &opener));
    note_wrong(CALL(cuEventQuery, before) != CUDA_SUCCESS);
    end_held(opener);
    finish();
}

RELIES(stream_query, device_and_event, 1) {
    pthread_t opener;
    release(begin_held(table, salt, &opener));
    note_wrong(CALL(cuStreamQuery, NULL) != CUDA_SUCCESS);
    end_held(opener);
    finish();
}

RELIES(stream_query_twin, device_and_event, 1) {
    pthread_t opener;
    release(begin_held(table, salt, &opener));
    note_wrong(CALL(cuStreamQuery_ptsz, CU_STREAM_LEGACY) != CUDA_SUCCESS);
    end_held(opener);
    finish();
}

/* The host sees memory of the device, so the free itself waits. */
static void share_memory(void) {
    void *shared;
    device_and_event();
    MUST(CALL(cuMemHostAlloc, &shared, BYTES, 0));
}

RELIES(free_of_others, share_memory, 1) {
    pthread_t opener;
    release(begin_held(table, salt, &opener));
    end_held(opener);
    finish();
}

RELIES(elapsed_time, device_and_event, 1) {
    CUevent begin;
    pthread_t opener;
    float ms;
    MUST(CALL(cuEventCreate, &begin, CU_EVENT_DEFAULT));
    MUST(CALL(cuEventRecord, begin, NULL));
    release(begin_held(table, salt, &opener));
    note_wrong(CALL(cuEventElapsedTime, &ms, begin, before) != CUDA_SUCCESS);
    end_held(opener);
    finish();
    MUST(CALL(cuEventDestroy_v2, begin));
}

/* ---- later work that never ends: no call waits for it */

static struct gate later;

static void submit_endless(unsigned salt) {
    CUdeviceptr scratch = allocate(SCRATCH);
    later = (struct gate){0};
    launch(make, NULL, table, salt);
    MUST(CALL(cuEventRecord, before, NULL));
    release(scratch);
    launch_hold(NULL, &later);
    await(&later.begun);
    soon();
}

static void end_endless(void) {
    at_last();
    set(&later.open);
    finish();
}

RELIES(query_loop, device_and_event, 2) {
    submit_endless(salt);
    for (int i = 0; i < 20; i++) {
        note_wrong(CALL(cuStreamQuery, NULL) != CUDA_ERROR_NOT_READY);
        note_wrong(CALL(cuEventQuery, before) != CUDA_SUCCESS);
    }
    MUST(CALL(cuEventSynchronize, before));
    for (int i = 0; i < 20; i++)
        note_wrong(CALL(cuStreamQuery, NULL) != CUDA_ERROR_NOT_READY);
    end_endless();
}

RELIES(unmap_beside_endless, device_and_event, 2) {
    struct mapping mapping = map(0);
    launch(make, NULL, mapping.address, salt);
    submit_endless(salt);
    MUST(CALL(cuMemUnmap, mapping.address, 2 * MIB));
    end_endless();
    MUST(CALL(cuMemRelease, mapping.handle));
    MUST(CALL(cuMemAddressFree, mapping.address, 4 * MIB));
}

RELIES(exit_beside_endless, device_and_event, 1) { submit_endless(salt); }

/* Other threads poll all the time. */
enum { POLLERS = 2 };
static int polls_end;

static void *poll_all(void *argument) {
    MUST(CALL(cuCtxSetCurrent, context));
    while (!__atomic_load_n(&polls_end, __ATOMIC_ACQUIRE)) {
        CUresult result = argument ? CALL(cuStreamQuery, NULL) : CALL(cuEventQuery, before);
        EXPECT(result == CUDA_SUCCESS || result == CUDA_ERROR_NOT_READY);
    }
    return NULL;
}

RELIES(polled, make_event, 2) {
    pthread_t pollers[POLLERS];
    polls_end = 0;
    for (intptr_t i = 0; i < POLLERS; i++)
        pollers[i] = start_thread(poll_all, (void *)i);
    for (unsigned i = 0; i < 50; i++) {
        CUdeviceptr scratch = allocate(SCRATCH);
        launch(make, NULL, table, salt * 100 + i);
        MUST(CALL(cuEventRecord, before, NULL));
        release(scratch);
        note_wrong(CALL(cuEventQuery, before) != CUDA_SUCCESS);
        note_wrong(CALL(cuStreamQuery, NULL) != CUDA_SUCCESS);
    }
    set(&polls_end);
    for (int i = 0; i < POLLERS; i++)
        EXPECT(pthread_join(pollers[i], NULL) == 0);
}

/* A thread's own idle stream stays idle, whatever other threads free. */
static CUstream idle;

static void *poll_idle(void *argument) {
    MUST(CALL(cuCtxSetCurrent, context));
    while (!__atomic_load_n(&polls_end, __ATOMIC_ACQUIRE))
        if (CALL(cuStreamQuery, idle) != CUDA_SUCCESS)
            return &polls_end;
    return NULL;
}

RELIES(polled_idle, start_device, 1) {
    void *busy;
    polls_end = 0;
    MUST(CALL(cuStreamCreate, &idle, CU_STREAM_NON_BLOCKING));
    pthread_t poller = start_thread(poll_idle, NULL);
    for (unsigned i = 0; i < 2000; i++) {
        CUdeviceptr scratch = allocate(SCRATCH);
        launch(make, NULL, table, salt * 100 + i);
        release(scratch);
    }
    set(&polls_end);
    EXPECT(pthread_join(poller, &busy) == 0);
    note_wrong(busy != NULL);
    MUST(CALL(cuStreamDestroy_v2, idle));
    finish();
}

/* ---- memory that the driver gives back only when no work needs it */

static CUgraphExec allocating;

static void make_allocating_graph(void) {
    CUDA_MEM_ALLOC_NODE_PARAMS parameters = {
        .poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location.type = CU_MEM_LOCATION_TYPE_DEVICE},
        .bytesize = 8 * MIB};
    CUgraph graph;
    CUgraphNode get, give;
    MUST(CALL(cuGraphCreate, &graph, 0));
    MUST(CALL(cuGraphAddMemAllocNode, &get, graph, NULL, 0, &parameters));
    MUST(CALL(cuGraphAddMemFreeNode, &give, graph, &get, 1, parameters.dptr));
    MUST(CALL(cuGraphInstantiateWithFlags, &allocating, graph, 0));
}

RELIES(graph_mem_trim, make_allocating_graph, 0) {
    CUdeviceptr scratch = allocate(SCRATCH);
    cuuint64_t bytes = 1;
    MUST(CALL(cuGraphLaunch, allocating, NULL));
    release(scratch);
    MUST(CALL(cuDeviceGraphMemTrim, 0));
    MUST(CALL(cuDeviceGetGraphMemAttribute, 0, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &bytes));
    note_wrong(bytes != 0);
    finish();
}

static CUmemoryPool pool;

static void make_pool(void) {
    CUmemPoolProps kind = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location.type = CU_MEM_LOCATION_TYPE_DEVICE};
    cuuint64_t all = UINT64_MAX;
    MUST(CALL(cuMemPoolCreate, &pool, &kind));
    MUST(CALL(cuMemPoolSetAttribute, pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all));
}

RELIES(pool_trim, make_pool, 0) {
    CUdeviceptr pooled, scratch = allocate(SCRATCH);
    cuuint64_t bytes = 1;
    MUST(CALL(cuMemAllocFromPoolAsync, &pooled, 8 * MIB, pool, NULL));
    launch(make, NULL, pooled, salt);
    MUST(CALL(cuMemFreeAsync, pooled, NULL));
    release(scratch);
    MUST(CALL(cuMemPoolTrimTo, pool, 0));
    MUST(CALL(cuMemPoolGetAttribute, pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &bytes));
    note_wrong(bytes != 0);
    finish();
}

static const char image[] = "#simcuda\nglobal plain 4096\nglobal shared 4096 managed\n";

/* A kernel writes to a variable of the module that is unloaded. */
RELIES(module_unload, NULL, 0) {
    CUdeviceptr scratch = allocate(SCRATCH);
    CUmodule module;
    MUST(CALL(cuModuleLoadData, &module, image));
    launch(make, NULL, (CUdeviceptr)(uintptr_t)CALL(simcuda_global, module, "plain"), salt);
    release(scratch);
    MUST(CALL(cuModuleUnload, module));
    finish();
}

/* ---- what others see once they get hold of it */

static CUmodule variables;

static void load_variables(void) { MUST(CALL(cuModuleLoadData, &variables, image)); }

RELIES(managed_variable, load_variables, 0) {
    CUdeviceptr scratch = allocate(SCRATCH), found;
    size_t bytes;
    launch(make, NULL, (CUdeviceptr)(uintptr_t)CALL(simcuda_global, variables, "shared"), salt);
    release(scratch);
    MUST(CALL(cuModuleGetGlobal_v2, &found, &bytes, variables, "shared"));
    note_wrong(!holds((void *)(uintptr_t)found, salt));
    finish();
}

RELIES(exported_late, NULL, 0) {
    CUipcMemHandle handle;
    compute(NULL, salt);
    MUST(CALL(cuIpcGetMemHandle, &handle, table));
    note_wrong(!holds((void *)(uintptr_t)table, salt));
    finish();
}

static void allocate_seen(void) { seen = allocate(2 * MIB); }

RELIES(range_late, allocate_seen, 0) {
    CUdeviceptr scratch = allocate(SCRATCH);
    int file = -1;
    launch(make, NULL, seen, salt);
    release(scratch);
    MUST(CALL(cuMemGetHandleForAddressRange, &file, seen, BYTES, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
    note_wrong(!holds((void *)(uintptr_t)seen, salt));
    close(file);
    finish();
}

RELIES(shareable_late, NULL, 0) {
    static struct mapping mapping;
    CUdeviceptr scratch = allocate(SCRATCH);
    int file = -1;
    if (!mapping.address)
        mapping = map(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    launch(make, NULL, mapping.address, salt);
    release(scratch);
    MUST(CALL(cuMemExportToShareableHandle, &file, mapping.handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    note_wrong(!holds((void *)(uintptr_t)mapping.address, salt));
    close(file);
    finish();
}

static CUipcEventHandle exported;

static void make_shared_event(void) {
    MUST(CALL(cuEventCreate, &before, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS));
}

static void export_event(void) {
    make_shared_event();
    MUST(CALL(cuIpcGetEventHandle, &exported, before));
}

static void ipc_event(unsigned salt) {
    CUdeviceptr scratch = allocate(SCRATCH);
    launch(make, NULL, table, salt);
    MUST(CALL(cuEventRecord, before, NULL));
    release(scratch);
    note_wrong(!CALL(simcuda_event_complete, before));
    finish();
}

RELIES(ipc_event_late, make_shared_event, 0) {
    CUdeviceptr scratch = allocate(SCRATCH);
    launch(make, NULL, table, salt);
    MUST(CALL(cuEventRecord, before, NULL));
    release(scratch);
    MUST(CALL(cuIpcGetEventHandle, &exported, before));
    note_wrong(!CALL(simcuda_event_complete, before));
    finish();
}

/* This process opened an event of another one and records it. */
static void open_event(void) {
    export_event();
    MUST(CALL(cuIpcOpenEventHandle, &before, exported));
}

RELIES_ROW(ipc_event, export_event, ipc_event, 0);
RELIES_ROW(ipc_event_opened, open_event, ipc_event, 0);

/* ---- graphs that copy from or to pageable memory */

static unsigned plain[WORDS];
static CUgraphExec down, up;

static CUgraphExec instance(CUgraph graph) {
    CUgraphExec ready;
    MUST(CALL(cuGraphInstantiateWithFlags, &ready, graph, 0));
    return ready;
}

static CUgraphExec copying(bool to_host, bool as_child) {
    CUDA_MEMCPY3D copy = {.srcMemoryType = to_host ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST,
                          .srcHost = plain,
                          .srcDevice = table,
                          .dstMemoryType = to_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE,
                          .dstHost = plain,
                          .dstDevice = table,
                          .WidthInBytes = BYTES,
                          .Height = 1,
                          .Depth = 1};
    CUgraph graph, parent;
    CUgraphNode node;
    MUST(CALL(cuGraphCreate, &graph, 0));
    MUST(CALL(cuGraphAddMemcpyNode, &node, graph, NULL, 0, &copy, context));
    if (!as_child)
        return instance(graph);
    MUST(CALL(cuGraphCreate, &parent, 0));
    MUST(CALL(cuGraphAddChildGraphNode, &node, parent, NULL, 0, graph));
    return instance(parent);
}

static void make_graphs(void) {
    down = copying(true, false);
    up = copying(false, false);
}
static void make_child_graphs(void) {
    down = copying(true, true);
    up = copying(false, true);
}

static void capture_graphs(void) {
    CUstream stream = new_stream();
    for (int i = 0; i < 2; i++) {
        CUgraph graph;
        MUST(CALL(cuStreamBeginCapture_v2, stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
        if (i)
            MUST(CALL(cuMemcpyHtoDAsync_v2, table, plain, BYTES, stream));
        else
            MUST(CALL(cuMemcpyDtoHAsync_v2, plain, table, BYTES, stream));
        MUST(CALL(cuStreamEndCapture, stream, &graph));
        *(i ? &up : &down) = instance(graph);
    }
    MUST(CALL(cuStreamDestroy_v2, stream));
}

static void graph_down(unsigned salt) {
    CUdeviceptr scratch = allocate(SCRATCH);
    launch(make, NULL, table, salt);
    MUST(CALL(cuGraphLaunch, down, NULL));
    release(scratch);
    note_wrong(!holds(plain, salt));
    finish();
}

RELIES_ROW(graph_down, make_graphs, graph_down, 0);
RELIES_ROW(graph_down_child, make_child_graphs, graph_down, 0);
RELIES_ROW(graph_down_captured, capture_graphs, graph_down, 0);

static void fill(unsigned salt) {
    for (unsigned i = 0; i < WORDS; i++)
        plain[i] = word_of(salt, i);
}

static void graph_up(unsigned salt) {
    CUdeviceptr scratch = allocate(SCRATCH);
    fill(salt);
    MUST(CALL(cuGraphLaunch, up, NULL));
    release(scratch);
    fill(salt + 100);
    launch(check, NULL, table, salt);
    finish();
}

RELIES_ROW(graph_up, make_graphs, graph_up, 0);
RELIES_ROW(graph_up_child, make_child_graphs, graph_up, 0);
RELIES_ROW(graph_up_captured, capture_graphs, graph_up, 0);

int main(int count, char **words) { return RUN_CASE("relies_host"); }
