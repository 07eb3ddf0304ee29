#include "ordering_calls.h"

#include <pthread.h>

void *driver;
struct stream streams[STREAMS];
struct event events[EVENTS];
CUcontext contexts[CONTEXTS];
CUfunction mix;

static const size_t MAPPED_BYTES = (size_t)2 << 20;

CUresult cuMemcpyAsync_ptsz(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream);
CUresult cuMemsetD32Async_ptsz(CUdeviceptr to, unsigned value, size_t count, CUstream stream);
CUresult cuLaunchKernel_ptsz(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                             unsigned shared, CUstream stream, void **parameters, void **extra);

/* ---- work */

struct host_work {
    char *to;
    const char *from;
    uint32_t value;
};

void mix_words(uint32_t *to, const uint32_t *from, uint32_t value) {
    for (int i = 0; i < WORDS; i++)
        to[i] = from[i] * 31 + value + (uint32_t)i;
}

static void mix_in_kernel(const struct simcuda_launch *launch) {
    uint32_t *to = launch->touch(*(void **)launch->args[0], BYTES, 1);
    const uint32_t *from = launch->touch(*(void **)launch->args[1], BYTES, 0);
    if (to && from)
        mix_words(to, from, *(uint32_t *)launch->args[2]);
}

static void mix_on_host(void *data) {
    struct host_work *work = data;
    mix_words((uint32_t *)work->to, (const uint32_t *)work->from, work->value);
    free(work);
}

static CUdeviceptr device(const struct object *object) { return (CUdeviceptr)(uintptr_t)object->address; }

/* A thread's default stream is reached by its handle, or by functions for programs that are compiled for it. */
static CUresult submit(const struct job *job) {
    CUstream stream = streams[job->stream].handle;
    bool twin = is_of_thread(job->stream) && job->value % 2;
    CUdeviceptr to = job->to ? device(job->to) : 0, from = job->from ? device(job->from) : 0;
    uint32_t value = job->value;
    void *parameters[] = {&to, &from, &value};
    if (job->call == SET)
        return twin ? CALL(cuMemsetD32Async_ptsz, to, value, WORDS, NULL)
                    : CALL(cuMemsetD32Async, to, value, WORDS, stream);
    if (job->call == KERNEL)
        return twin ? CALL(cuLaunchKernel_ptsz, mix, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL)
                    : CALL(cuLaunchKernel, mix, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL);
    if (job->from->context != job->to->context)
        return CALL(cuMemcpyPeerAsync, to, contexts[job->to->context], from, contexts[job->from->context], BYTES,
                    stream);
    if (job->from->kind <= MAPPED && job->to->kind <= MAPPED)
        return CALL(cuMemcpyDtoDAsync_v2, to, from, BYTES, stream);
    if (job->from->kind <= MAPPED && job->to->kind < MANAGED)
        return CALL(cuMemcpyDtoHAsync_v2, job->to->address, from, BYTES, stream);
    if (job->from->kind < MANAGED && job->to->kind <= MAPPED)
        return CALL(cuMemcpyHtoDAsync_v2, to, job->from->address, BYTES, stream);
    return twin ? CALL(cuMemcpyAsync_ptsz, to, from, BYTES, NULL) : CALL(cuMemcpyAsync, to, from, BYTES, stream);
}

static CUresult submit_graph(struct job *job) {
    CUstream stream = streams[job->stream].handle;
    CUgraph graph;
    CUgraphExec ready;
    MUST(CALL(cuStreamBeginCapture_v2, stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    MUST(CALL(cuMemcpyAsync, device(job->to), device(job->from), BYTES, stream));
    MUST(CALL(cuStreamEndCapture, stream, &graph));
    MUST(CALL(cuGraphInstantiateWithFlags, &ready, graph, 0));
    MUST(CALL(cuGraphLaunch, ready, stream));
    MUST(CALL(cuGraphExecDestroy, ready));
    return CALL(cuGraphDestroy, graph);
}

static CUresult submit_host_function(const struct job *job) {
    struct host_work *work = malloc(sizeof *work);
    *work = (struct host_work){job->to->address, job->from->address, job->value};
    return CALL(cuLaunchHostFunc, streams[job->stream].handle, mix_on_host, work);
}

static CUresult map(struct object *to) {
    CUmemAllocationProp kind = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {CU_MEM_LOCATION_TYPE_DEVICE, to->context}};
    CUmemAccessDesc access = {kind.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUdeviceptr address;
    MUST(CALL(cuMemCreate, &to->handle, MAPPED_BYTES, &kind, 0));
    MUST(CALL(cuMemAddressReserve, &address, MAPPED_BYTES, 0, 0, 0));
    MUST(CALL(cuMemMap, address, MAPPED_BYTES, 0, to->handle, 0));
    to->address = (char *)(uintptr_t)address;
    return CALL(cuMemSetAccess, address, MAPPED_BYTES, &access, 1);
}

static CUresult unmap(struct object *object) {
    MUST(CALL(cuMemUnmap, device(object), MAPPED_BYTES));
    MUST(CALL(cuMemRelease, object->handle));
    return CALL(cuMemAddressFree, device(object), MAPPED_BYTES);
}

static CUresult allocate(struct job *job) {
    struct object *to = job->to;
    CUdeviceptr address = 0;
    size_t pitch;
    CUresult result = CUDA_SUCCESS;
    switch (to->kind) {
    case DEVICE: result = CALL(cuMemAlloc_v2, &address, job->size); break;
    case PITCHED: result = CALL(cuMemAllocPitch_v2, &address, &pitch, 1024, job->size / 1024, 4); break;
    case MANAGED: result = CALL(cuMemAllocManaged, &address, job->size, CU_MEM_ATTACH_GLOBAL); break;
    case MAPPED: return map(to);
    case PINNED: return CALL(cuMemHostAlloc, (void **)&to->address, BYTES, 0);
    default:
        to->address = aligned_alloc(4096, 4096);
        return to->kind == REGISTERED ? CALL(cuMemHostRegister_v2, to->address, 4096, 0) : CUDA_SUCCESS;
    }
    to->address = (char *)(uintptr_t)address;
    return result;
}

/* capture_modes.cu tests whether the capture has survived. */
static CUresult end_capture(CUstream stream) {
    CUgraph graph = NULL;
    return CALL(cuStreamEndCapture, stream, &graph) == CUDA_SUCCESS ? CALL(cuGraphDestroy, graph) : CUDA_SUCCESS;
}

static CUresult make(struct job *job) {
    CUdeviceptr address = 0;
    switch (job->call) {
    case ALLOC: return allocate(job);
    case ALLOC_ASYNC: {
        CUresult result = CALL(cuMemAllocAsync, &address, job->size, streams[job->stream].handle);
        job->to->address = (char *)(uintptr_t)address;
        return result;
    }
    case FREE: return CALL(cuMemFree_v2, device(job->to));
    case UNMAP: return unmap(job->to);
    case FREE_ASYNC: return CALL(cuMemFreeAsync, device(job->to), streams[job->stream].handle);
    case GRAPH_COPY: return submit_graph(job);
    case HOST_FUNCTION: return submit_host_function(job);
    case RECORD: return CALL(cuEventRecord, events[job->event].handle, streams[job->stream].handle);
    case WAIT: return CALL(cuStreamWaitEvent, streams[job->stream].handle, events[job->event].handle, 0);
    case EVENT_SYNCHRONIZE: return CALL(cuEventSynchronize, events[job->event].handle);
    case STREAM_SYNCHRONIZE: return CALL(cuStreamSynchronize, streams[job->stream].handle);
    case CONTEXT_SYNCHRONIZE: return CALL(cuCtxSynchronize);
    case EVENT_QUERY: return CALL(cuEventQuery, events[job->event].handle);
    case STREAM_QUERY: return CALL(cuStreamQuery, streams[job->stream].handle);
    case COPY_DOWN: return CALL(cuMemcpyDtoH_v2, job->seen, device(job->from), BYTES);
    case BEGIN_CAPTURE:
        return CALL(cuStreamBeginCapture_v2, streams[job->stream].handle, CU_STREAM_CAPTURE_MODE_RELAXED);
    case END_CAPTURE: return end_capture(streams[job->stream].handle);
    case HOST_WRITE: memcpy(job->to->address, job->to->want, BYTES); return CUDA_SUCCESS;
    case NEW_STREAM:
        return CALL(cuStreamCreate, &streams[job->stream].handle,
                    streams[job->stream].blocking ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING);
    default: return submit(job);
    }
}

/* ---- threads that take turns */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct job *job;
} turn = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, NULL};

static void *work(void *argument) {
    int own = (int)(intptr_t)argument, current = NOBODY;
    for (bool ends = false; !ends;) {
        pthread_mutex_lock(&turn.lock);
        while (!turn.job || turn.job->thread != own)
            pthread_cond_wait(&turn.changed, &turn.lock);
        struct job *job = turn.job;
        ends = job->call == END;
        if (!ends && job->context != current)
            MUST(CALL(cuCtxSetCurrent, contexts[current = job->context]));
        if (!ends)
            job->result = make(job);
        turn.job = NULL;
        pthread_cond_broadcast(&turn.changed);
        pthread_mutex_unlock(&turn.lock);
    }
    return NULL;
}

void make_by_thread(struct job *job) {
    pthread_mutex_lock(&turn.lock);
    turn.job = job;
    pthread_cond_broadcast(&turn.changed);
    while (turn.job)
        pthread_cond_wait(&turn.changed, &turn.lock);
    pthread_mutex_unlock(&turn.lock);
}

static pthread_t threads[THREADS];

void start_threads(void) {
    for (intptr_t i = 0; i < THREADS; i++)
        EXPECT(pthread_create(&threads[i], NULL, work, (void *)i) == 0);
}

void end_threads(void) {
    for (int i = 0; i < THREADS; i++)
        make_by_thread(&(struct job){.call = END, .thread = i});
    for (int i = 0; i < THREADS; i++)
        EXPECT(pthread_join(threads[i], NULL) == 0);
}

void load_driver(void) {
    CUmodule module;
    EXPECT((driver = dlopen("libcuda.so.1", RTLD_NOW)) != NULL);
    MUST(CALL(cuInit, 0));
    for (int i = CONTEXTS - 1; i >= 0; i--) {
        MUST(CALL(cuDevicePrimaryCtxRetain, &contexts[i], i));
        MUST(CALL(cuCtxSetCurrent, contexts[i]));
    }
    EXPECT(CALL(simcuda_register_kernel, "mix", "pp4", mix_in_kernel) == 0);
    MUST(CALL(cuModuleLoadData, &module, "kernels of the simulated driver"));
    MUST(CALL(cuModuleGetFunction, &mix, module, "mix"));
}
