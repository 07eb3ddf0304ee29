/* Programs with several contexts that rely on the wait of cuMemFree (relies.h). Argument: the case. */
#include "relies.h"

static CUcontext other;
static CUstream first, second, others;
static CUdeviceptr seen;

static void finish(void) { MUST(CALL(cuCtxSynchronize)); }

static void expect_seen(unsigned salt) {
    unsigned words[WORDS];
    MUST(CALL(cuMemcpyDtoH_v2, words, seen, BYTES));
    note_wrong(!holds(words, salt));
    finish();
}

/* The other context's stream copies what this one has computed. */
static void copy_by_others(unsigned salt) {
    MUST(CALL(cuCtxSetCurrent, other));
    MUST(CALL(cuMemcpyPeerAsync, seen, context, table, context, BYTES, others));
    MUST(CALL(cuStreamSynchronize, others));
    MUST(CALL(cuCtxSetCurrent, context));
    expect_seen(salt);
}

static void use_other(CUcontext made_one) {
    other = made_one;
    MUST(CALL(cuCtxSetCurrent, other));
    others = new_stream();
    MUST(CALL(cuCtxSetCurrent, context));
}

/* ---- contexts that never allocate */

static void same_device(void) {
    CUcontext made_one;
    seen = allocate(BYTES);
    MUST(CALL(cuCtxCreate_v2, &made_one, 0, 0));
    use_other(made_one);
}

static void same_device_v4(void) {
    CUctxCreateParams parameters = {.execAffinityParams = NULL};
    CUcontext made_one;
    seen = allocate(BYTES);
    MUST(CALL(cuCtxCreate_v4, &made_one, &parameters, 0, 0));
    use_other(made_one);
}

static void peer_device(void) {
    CUcontext made_one;
    seen = allocate(BYTES);
    MUST(CALL(cuDevicePrimaryCtxRetain, &made_one, 1));
    use_other(made_one);
}

static void idle(unsigned salt) {
    compute(NULL, salt);
    copy_by_others(salt);
}

RELIES_ROW(idle_same_device, same_device, idle, 0);
RELIES_ROW(idle_same_device_v4, same_device_v4, idle, 0);
RELIES_ROW(idle_peer, peer_device, idle, 0);

/* ---- contexts that come after the free */

static void allocate_seen(void) { seen = allocate(BYTES); }

RELIES(created_late, allocate_seen, 0) {
    CUcontext made_one;
    compute(NULL, salt);
    MUST(CALL(cuCtxCreate_v2, &made_one, 0, 0));
    use_other(made_one);
    copy_by_others(salt);
    MUST(CALL(cuCtxDestroy_v2, made_one));
    MUST(CALL(cuCtxSetCurrent, context));
}

RELIES(retained_late, allocate_seen, 0) {
    CUcontext made_one;
    compute(NULL, salt);
    MUST(CALL(cuDevicePrimaryCtxRetain, &made_one, 1));
    use_other(made_one);
    copy_by_others(salt);
    MUST(CALL(cuDevicePrimaryCtxRelease_v2, 1));
}

static CUfunction check_there;

static void load_there(void) {
    CUmodule module;
    peer_device();
    MUST(CALL(cuCtxSetCurrent, other));
    MUST(CALL(cuModuleLoadData, &module, "kernels of the simulated driver"));
    check_there = kernel_of(module, "check");
    MUST(CALL(cuCtxSetCurrent, context));
}

/* The last words open this one's memory to the other device, whose kernel reads it. */
RELIES(peer_late, load_there, 1) {
    compute(NULL, salt);
    MUST(CALL(cuCtxSetCurrent, other));
    MUST(CALL(cuCtxEnablePeerAccess, context, 0));
    launch(check_there, others, table, salt);
    finish();
    MUST(CALL(cuCtxDisablePeerAccess, context));
    MUST(CALL(cuCtxSetCurrent, context));
    finish();
}

RELIES(green_late, NULL, 1) {
    CUdevResource whole;
    CUdevResourceDesc resources;
    CUgreenCtx green;
    CUstream stream;
    compute(NULL, salt);
    MUST(CALL(cuDeviceGetDevResource, 0, &whole, CU_DEV_RESOURCE_TYPE_SM));
    MUST(CALL(cuDevResourceGenerateDesc, &resources, &whole, 1));
    MUST(CALL(cuGreenCtxCreate, &green, resources, 0, CU_GREEN_CTX_DEFAULT_STREAM));
    MUST(CALL(cuGreenCtxStreamCreate, &stream, green, CU_STREAM_NON_BLOCKING, 0));
    launch(check, stream, table, salt);
    MUST(CALL(cuStreamSynchronize, stream));
    finish();
}

/* ---- contexts that end */

/* A stream of one context is destroyed with work in it, another context frees and ends. */
RELIES(stream_gone, NULL, 0) {
    CUcontext ending;
    CUdeviceptr scratch;
    MUST(CALL(cuCtxCreate_v2, &ending, 0, 0));
    free_some();
    MUST(CALL(cuCtxSetCurrent, context));
    CUstream stream = new_stream();
    launch(make, stream, table, salt);
    MUST(CALL(cuStreamDestroy_v2, stream));
    MUST(CALL(cuCtxSetCurrent, ending));
    free_some();
    MUST(CALL(cuCtxDestroy_v2, ending));
    MUST(CALL(cuCtxSetCurrent, context));
    scratch = allocate(SCRATCH);
    release(scratch);
    launch(check, NULL, table, salt);
    MUST(CALL(cuStreamSynchronize, NULL));
    finish();
}

/* Blocks of a context that ended are no memory any more; the next context often has its handle. */
RELIES(first_variant, NULL, 1) {
    CUcontext made_one;
    CUdeviceptr blocks[3];
    for (int i = 0; i < 25; i++) {
        MUST(CALL(cuCtxCreate_v2, &made_one, 0, 0));
        for (int k = 0; k < 3; k++) {
            blocks[k] = allocate(SCRATCH);
            note_wrong(CALL(cuMemsetD8_v2, blocks[k], (unsigned char)salt, SCRATCH) != CUDA_SUCCESS);
        }
        for (int k = 0; k < 3; k++)
            release(blocks[k]);
        MUST(CALL(cuCtxDestroy, made_one));
    }
    MUST(CALL(cuCtxSetCurrent, context));
}

/* ---- another thread releases the primary context while this one frees; it is not the last one to do so */

static int inside, freed;

static void stay_a_while(void) {
    set(&inside);
    for (int ms = 0; ms < 30 && !__atomic_load_n(&freed, __ATOMIC_ACQUIRE); ms++)
        usleep(1000);
}

static void *release_context(void *unused) {
    MUST(CALL(cuDevicePrimaryCtxRelease_v2, 0));
    return unused;
}

static void prepare_release(void) {
    first = new_stream();
    second = new_stream();
    CALL(simcuda_set_after, "cuDevicePrimaryCtxRelease_v2", stay_a_while);
}

static pthread_t begin_release(void) {
    CUcontext same;
    inside = freed = 0;
    MUST(CALL(cuDevicePrimaryCtxRetain, &same, 0));
    pthread_t thread = start_thread(release_context, NULL);
    await(&inside);
    return thread;
}

RELIES(primary_release, prepare_release, 2) {
    CUdeviceptr scratch = allocate(SCRATCH);
    launch(make, first, table, salt);
    pthread_t thread = begin_release();
    release(scratch);
    launch(check, second, table, salt);
    set(&freed);
    MUST(CALL(cuStreamSynchronize, second));
    EXPECT(pthread_join(thread, NULL) == 0);
    finish();
}

static void *pinned;

static void prepare_host(void) {
    prepare_release();
    MUST(CALL(cuMemHostAlloc, &pinned, BYTES, 0));
}

RELIES(primary_release_host, prepare_host, 2) {
    CUdeviceptr scratch = allocate(SCRATCH);
    launch(make, first, table, salt);
    MUST(CALL(cuMemcpyDtoHAsync_v2, pinned, table, BYTES, first));
    pthread_t thread = begin_release();
    release(scratch);
    note_wrong(!holds(pinned, salt));
    set(&freed);
    EXPECT(pthread_join(thread, NULL) == 0);
    finish();
}

/* The free came before: what it left is noticed while the context may be ending. */
static CUevent before;

static void prepare_query(void) {
    CALL(simcuda_set_after, "cuDevicePrimaryCtxRelease_v2", stay_a_while);
    MUST(CALL(cuEventCreate, &before, CU_EVENT_DISABLE_TIMING));
}

RELIES(primary_release_query, prepare_query, 2) {
    CUdeviceptr scratch = allocate(SCRATCH);
    launch(make, NULL, table, salt);
    MUST(CALL(cuEventRecord, before, NULL));
    release(scratch);
    pthread_t thread = begin_release();
    note_wrong(CALL(cuEventQuery, before) != CUDA_SUCCESS);
    set(&freed);
    EXPECT(pthread_join(thread, NULL) == 0);
    finish();
}

int main(int count, char **words) { return RUN_CASE("relies_contexts"); }
