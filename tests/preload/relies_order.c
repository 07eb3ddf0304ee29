/* Programs that rely on the order that cuMemFree gives on the device (relies.h). Argument: the case. Built by name,
 * linked with the driver (-DLINKED), and as a plugin that is linked with it (-DPLUGIN). */
#include "relies.h"

static CUstream first, second; /* non-blocking */
static CUdeviceptr seen;

static void two_streams(void) {
    first = new_stream();
    second = new_stream();
    seen = allocate(BYTES);
}

static void finish(void) { MUST(CALL(cuCtxSynchronize)); }

/* Whatever this stream does not wait for is late. */
static void finish_first(CUstream stream) {
    MUST(CALL(cuStreamSynchronize, stream));
    finish();
}

/* ---- a kernel that may begin before the kernel right before it has ended */

static CUlaunchConfig programmatic(CUstream stream, CUlaunchAttribute *attribute, int allowed) {
    *attribute = (CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                                     .value.programmaticStreamSerializationAllowed = allowed};
    return (CUlaunchConfig){.gridDimX = 1,
                            .gridDimY = 1,
                            .gridDimZ = 1,
                            .blockDimX = 1,
                            .blockDimY = 1,
                            .blockDimZ = 1,
                            .hStream = stream,
                            .attrs = attribute,
                            .numAttrs = 1};
}

static void launch_programmatic(CUfunction kernel, CUstream stream, unsigned salt) {
    CUlaunchAttribute attribute;
    CUlaunchConfig configuration = programmatic(stream, &attribute, 1);
    void *arguments[] = {&table, &salt};
    MUST(CALL(cuLaunchKernelEx, &configuration, kernel, arguments, NULL));
}

static void pdl_in(CUstream stream, unsigned salt) {
    compute(stream, salt);
    launch_programmatic(check, stream, salt);
    finish();
}

static void one_stream(void) { first = new_stream(); }

RELIES(pdl, NULL, 0) { pdl_in(NULL, salt); }
RELIES(pdl_legacy, NULL, 0) { pdl_in(CU_STREAM_LEGACY, salt); }
RELIES(pdl_per_thread, NULL, 0) { pdl_in(CU_STREAM_PER_THREAD, salt); }
RELIES(pdl_created, one_stream, 0) { pdl_in(first, salt); }

RELIES(pdl_twin, NULL, 0) {
    CUlaunchAttribute attribute;
    CUlaunchConfig configuration = programmatic(NULL, &attribute, 1);
    void *arguments[] = {&table, &salt};
    compute(CU_STREAM_PER_THREAD, salt);
    MUST(CALL(cuLaunchKernelEx_ptsz, &configuration, check, arguments, NULL));
    finish();
}

/* The kernel overtakes although it is not the first submission behind the free. */
RELIES(pdl_behind_other, two_streams, 0) {
    compute(first, salt);
    MUST(CALL(cuMemsetD8Async, seen, 0, BYTES, second));
    launch_programmatic(check, first, salt);
    finish();
}

RELIES(pdl_chain, NULL, 0) {
    compute(NULL, salt);
    launch_programmatic(check, NULL, salt);
    free_some();
    launch_programmatic(make, NULL, salt + 100);
    free_some();
    launch_programmatic(check, NULL, salt + 100);
    finish();
}

static void *launch_pdl_elsewhere(void *salt) {
    MUST(CALL(cuCtxSetCurrent, context));
    launch_programmatic(check, CU_STREAM_LEGACY, (unsigned)(uintptr_t)salt);
    return NULL;
}

RELIES(pdl_other_thread, NULL, 0) {
    compute(NULL, salt);
    pthread_join(start_thread(launch_pdl_elsewhere, (void *)(uintptr_t)salt), NULL);
    finish();
}

/* ---- streams that are, were or will be */

static void read_by(CUstream stream, unsigned salt) {
    launch(check, stream, table, salt);
    finish_first(stream);
}

static void destroy_default(void) {
    first = new_stream();
    EXPECT(CALL(cuStreamDestroy_v2, NULL) != CUDA_SUCCESS);
}
static void destroy_legacy(void) {
    first = new_stream();
    EXPECT(CALL(cuStreamDestroy_v2, CU_STREAM_LEGACY) != CUDA_SUCCESS);
}
static void destroy_default_first_variant(void) {
    first = new_stream();
    EXPECT(CALL(cuStreamDestroy, NULL) != CUDA_SUCCESS);
}

static void across(unsigned salt) {
    compute(first, salt);
    read_by(NULL, salt);
}

RELIES_ROW(stream_destroy_default, destroy_default, across, 0);
RELIES_ROW(stream_destroy_legacy, destroy_legacy, across, 0);
RELIES_ROW(stream_destroy_default_v1, destroy_default_first_variant, across, 0);

RELIES(stream_destroyed_before_free, NULL, 0) {
    CUdeviceptr scratch = allocate(SCRATCH);
    CUstream stream = new_stream();
    launch(make, stream, table, salt);
    MUST(CALL(cuStreamDestroy_v2, stream));
    release(scratch);
    read_by(NULL, salt);
}

RELIES(stream_destroyed_after_free, NULL, 0) {
    CUstream stream = new_stream();
    compute(stream, salt);
    MUST(CALL(cuStreamDestroy_v2, stream));
    read_by(NULL, salt);
}

RELIES(stream_replaced_after_free, NULL, 0) {
    CUstream stream = new_stream(), next;
    compute(stream, salt);
    MUST(CALL(cuStreamDestroy, stream));
    MUST(CALL(cuStreamCreateWithPriority, &next, CU_STREAM_NON_BLOCKING, 0));
    read_by(next, salt);
    MUST(CALL(cuStreamDestroy_v2, next));
}

RELIES(stream_created_after_free, NULL, 0) {
    CUstream stream;
    compute(NULL, salt);
    stream = new_stream();
    read_by(stream, salt);
    MUST(CALL(cuStreamDestroy_v2, stream));
}

/* ---- threads that hand over a table by a lock, each with a stream of another kind */

enum { THREADS = 3, STEPS = 12 };
static CUstream stream_of[THREADS];
static int turn;
static unsigned first_salt;
static bool submits_between, frees_twice, twin;

static void launch_own(CUfunction kernel, CUstream stream, unsigned salt) {
    void *arguments[] = {&table, &salt};
    if (twin)
        MUST(CALL(cuLaunchKernel_ptsz, kernel, 1, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL));
    else
        launch(kernel, stream, table, salt);
}

static void *take_turns(void *argument) {
    int own = (int)(intptr_t)argument;
    MUST(CALL(cuCtxSetCurrent, context));
    for (int step = own; step < STEPS; step += THREADS) {
        while (__atomic_load_n(&turn, __ATOMIC_ACQUIRE) != step)
            sched_yield();
        CUdeviceptr scratch = allocate(SCRATCH), other = allocate(SCRATCH);
        if (step)
            launch_own(check, stream_of[own], first_salt + (unsigned)step - 1);
        if (submits_between)
            release(allocate(SCRATCH));
        launch_own(make, stream_of[own], first_salt + (unsigned)step);
        release(scratch);
        if (submits_between)
            MUST(CALL(cuMemsetD8Async, seen, 0, 64, stream_of[own]));
        if (frees_twice)
            release(other);
        __atomic_store_n(&turn, step + 1, __ATOMIC_RELEASE);
        if (!frees_twice) /* beside the next one's work */
            release(other);
    }
    return NULL;
}

static void chain(unsigned salt) {
    pthread_t threads[THREADS];
    first_salt = salt * 100;
    turn = 0;
    seen = seen ? seen : allocate(BYTES);
    for (intptr_t i = 0; i < THREADS; i++)
        threads[i] = start_thread(take_turns, (void *)i);
    for (int i = 0; i < THREADS; i++)
        EXPECT(pthread_join(threads[i], NULL) == 0);
    finish();
}

static void chain_created(void) {
    for (int i = 0; i < THREADS; i++)
        stream_of[i] = new_stream();
}
static void chain_mixed(void) {
    stream_of[0] = NULL;
    stream_of[1] = new_stream();
    stream_of[2] = CU_STREAM_PER_THREAD;
}
static void chain_per_thread(void) {
    for (int i = 0; i < THREADS; i++)
        stream_of[i] = CU_STREAM_PER_THREAD;
}
static void chain_twin(void) { twin = true; }
static void chain_blocking(void) {
    for (int i = 0; i < THREADS; i++)
        MUST(CALL(cuStreamCreate, &stream_of[i], CU_STREAM_DEFAULT));
}
static void chain_submits(void) {
    chain_created();
    submits_between = true;
}
static void chain_frees_twice(void) {
    chain_created();
    submits_between = frees_twice = true;
}

RELIES_ROW(chain_created, chain_created, chain, 0);
RELIES_ROW(chain_mixed, chain_mixed, chain, 0);
RELIES_ROW(chain_per_thread, chain_per_thread, chain, 0);
RELIES_ROW(chain_twin, chain_twin, chain, 0);
RELIES_ROW(chain_blocking, chain_blocking, chain, 0);
RELIES_ROW(chain_submits, chain_submits, chain, 0);
RELIES_ROW(chain_frees_twice, chain_frees_twice, chain, 0);

/* ---- frees with submissions between: each covers what came before it */

RELIES(second_free, two_streams, 0) {
    compute(first, salt);
    launch(check, second, table, salt);
    launch(make, second, table, salt + 100);
    free_some();
    launch(make, first, table, salt + 200);
    free_some();
    read_by(second, salt + 200);
}

RELIES(free_by_free, two_streams, 0) {
    CUdeviceptr a = allocate(SCRATCH), b = allocate(SCRATCH);
    launch(make, first, table, salt);
    release(a);
    launch(check, first, table, salt);
    launch(make, first, table, salt + 100);
    release(b);
    read_by(second, salt + 100);
}

/* ---- the first submission behind the free, of each kind */

static void expect_seen(CUstream stream, unsigned salt) {
    finish_first(stream);
    launch(check, NULL, seen, salt);
    finish();
}

static void expect_byte(CUstream stream, unsigned char byte) {
    unsigned char bytes[BYTES];
    finish_first(stream);
    MUST(CALL(cuMemcpyDtoH_v2, bytes, table, BYTES));
    note_wrong(!all_bytes_are(bytes, byte, BYTES));
}

RELIES(first_memcpy, two_streams, 0) {
    compute(first, salt);
    MUST(CALL(cuMemcpyAsync, seen, table, BYTES, second));
    expect_seen(second, salt);
}
RELIES(first_copy, two_streams, 0) {
    compute(first, salt);
    MUST(CALL(cuMemcpyDtoDAsync_v2, seen, table, BYTES, second));
    expect_seen(second, salt);
}
RELIES(first_sync_copy, two_streams, 0) {
    compute(first, salt);
    MUST(CALL(cuMemcpyDtoD_v2, seen, table, BYTES));
    expect_seen(NULL, salt);
}
RELIES(first_peer_copy, two_streams, 0) {
    compute(first, salt);
    MUST(CALL(cuMemcpyPeerAsync, seen, context, table, context, BYTES, second));
    expect_seen(second, salt);
}
RELIES(first_rows, two_streams, 0) {
    CUDA_MEMCPY2D rows = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcDevice = table,
                          .srcPitch = 256,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstDevice = seen,
                          .dstPitch = 256,
                          .WidthInBytes = 256,
                          .Height = BYTES / 256};
    compute(first, salt);
    MUST(CALL(cuMemcpy2DAsync_v2, &rows, second));
    expect_seen(second, salt);
}
RELIES(first_copy_down, two_streams, 0) {
    unsigned down[WORDS];
    compute(first, salt);
    MUST(CALL(cuMemcpyDtoHAsync_v2, down, table, BYTES, second));
    note_wrong(!holds(down, salt));
    finish();
}
RELIES(first_sync_down, two_streams, 0) {
    unsigned down[WORDS];
    compute(first, salt);
    MUST(CALL(cuMemcpyDtoH_v2, down, table, BYTES));
    note_wrong(!holds(down, salt));
    finish();
}
RELIES(first_copy_up, two_streams, 0) {
    unsigned char up[BYTES];
    memset(up, (int)salt, BYTES);
    compute(first, salt);
    MUST(CALL(cuMemcpyHtoDAsync_v2, table, up, BYTES, second));
    expect_byte(second, (unsigned char)salt);
}
RELIES(first_set, two_streams, 0) {
    compute(first, salt);
    MUST(CALL(cuMemsetD8Async, table, (unsigned char)salt, BYTES, second));
    expect_byte(second, (unsigned char)salt);
}
RELIES(first_sync_set, two_streams, 0) {
    compute(first, salt);
    MUST(CALL(cuMemsetD8_v2, table, (unsigned char)salt, BYTES));
    expect_byte(NULL, (unsigned char)salt);
}
RELIES(first_cooperative, two_streams, 0) {
    void *arguments[] = {&table, &salt};
    compute(first, salt);
    MUST(CALL(cuLaunchCooperativeKernel, check, 1, 1, 1, 1, 1, 1, 0, second, arguments));
    finish();
}
RELIES(first_extended, two_streams, 0) {
    CUlaunchAttribute attribute;
    CUlaunchConfig configuration = programmatic(second, &attribute, 0);
    void *arguments[] = {&table, &salt};
    compute(first, salt);
    MUST(CALL(cuLaunchKernelEx, &configuration, check, arguments, NULL));
    finish();
}
RELIES(first_value, two_streams, 0) {
    unsigned word;
    compute(first, salt);
    MUST(CALL(cuStreamWriteValue32_v2, second, table, 7, 0));
    finish_first(second);
    MUST(CALL(cuMemcpyDtoH_v2, &word, table, sizeof word));
    note_wrong(word != 7);
}
/* What waits for the event runs behind all that is before it. */
RELIES(first_record, two_streams, 0) {
    CUevent event;
    MUST(CALL(cuEventCreate, &event, CU_EVENT_DISABLE_TIMING));
    compute(first, salt);
    MUST(CALL(cuEventRecord, event, second));
    MUST(CALL(cuStreamWaitEvent, NULL, event, 0));
    read_by(NULL, salt);
    MUST(CALL(cuEventDestroy_v2, event));
}
RELIES(first_pool_free, two_streams, 0) {
    CUdeviceptr pooled, scratch = allocate(SCRATCH);
    MUST(CALL(cuMemAllocAsync, &pooled, BYTES, second));
    MUST(CALL(cuStreamSynchronize, second));
    launch(make, first, pooled, salt);
    release(scratch);
    MUST(CALL(cuMemFreeAsync, pooled, second));
    MUST(CALL(cuStreamSynchronize, second));
    finish();
}

static CUgraphExec reading;

/* A graph that reads the table. */
static void graph_streams(void) {
    CUgraph graph;
    CUgraphNode node;
    unsigned salt = 1;
    void *arguments[] = {&table, &salt};
    CUDA_KERNEL_NODE_PARAMS_v2 parameters = {.func = NULL,
                                             .gridDimX = 1,
                                             .gridDimY = 1,
                                             .gridDimZ = 1,
                                             .blockDimX = 1,
                                             .blockDimY = 1,
                                             .blockDimZ = 1,
                                             .kernelParams = arguments};
    two_streams();
    parameters.func = check;
    MUST(CALL(cuGraphCreate, &graph, 0));
    MUST(CALL(cuGraphAddKernelNode_v2, &node, graph, NULL, 0, &parameters));
    MUST(CALL(cuGraphInstantiateWithFlags, &reading, graph, 0));
}
RELIES(first_graph, graph_streams, 0) {
    MUST(CALL(cuMemsetD8_v2, table, 0, BYTES));
    finish();
    compute(first, 1);
    MUST(CALL(cuGraphLaunch, reading, second));
    finish();
}

#ifdef PLUGIN
__attribute__((visibility("default"))) int relies_order(int count, char **words);
int relies_order(int count, char **words)
#else
int main(int count, char **words)
#endif
{
    return RUN_CASE("relies_order");
}
