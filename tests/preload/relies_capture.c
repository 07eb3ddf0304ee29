/* Programs in which a stream captures while others rely on the wait of cuMemFree (relies.h). Arguments: the case;
 * "kept": freed memory is to be kept for reuse. */
#include "relies.h"

static CUstream first, second, capturing;
static CUevent before;
static CUdeviceptr seen;

static void finish(void) { MUST(CALL(cuCtxSynchronize)); }

static void make_streams(void) {
    first = new_stream();
    second = new_stream();
    capturing = new_stream();
    seen = allocate(BYTES);
    MUST(CALL(cuEventCreate, &before, CU_EVENT_DISABLE_TIMING));
}

/* By another thread, as libraries do. In this mode nothing is forbidden to anyone. */
static void *begin(void *unused) {
    MUST(CALL(cuCtxSetCurrent, context));
    MUST(CALL(cuStreamBeginCapture_v2, capturing, CU_STREAM_CAPTURE_MODE_RELAXED));
    return unused;
}

static void begin_elsewhere(void) { EXPECT(pthread_join(start_thread(begin, NULL), NULL) == 0); }

static void end(void) {
    CUgraph graph;
    MUST(CALL(cuStreamEndCapture, capturing, &graph));
    MUST(CALL(cuGraphDestroy, graph));
}

/* ---- work, a free, a capture begins, and then something notices */

RELIES(unmap, make_streams, 0) {
    struct mapping mapping = map(0);
    CUdeviceptr scratch = allocate(SCRATCH);
    launch(make, first, mapping.address, salt);
    release(scratch);
    begin_elsewhere();
    MUST(CALL(cuMemUnmap, mapping.address, 2 * MIB));
    end();
    finish();
    MUST(CALL(cuMemRelease, mapping.handle));
    MUST(CALL(cuMemAddressFree, mapping.address, 4 * MIB));
}

RELIES(query, make_streams, 0) {
    CUdeviceptr scratch = allocate(SCRATCH);
    launch(make, first, table, salt);
    MUST(CALL(cuEventRecord, before, first));
    release(scratch);
    begin_elsewhere();
    note_wrong(CALL(cuEventQuery, before) != CUDA_SUCCESS);
    note_wrong(CALL(cuStreamQuery, first) != CUDA_SUCCESS);
    end();
    finish();
}

static CUcontext other;
static CUstream others;

static void make_peer(void) {
    make_streams();
    MUST(CALL(cuDevicePrimaryCtxRetain, &other, 1));
    MUST(CALL(cuCtxSetCurrent, other));
    others = new_stream();
    MUST(CALL(cuCtxSetCurrent, context));
}

static void copy_by_others(unsigned salt) {
    unsigned words[WORDS];
    MUST(CALL(cuCtxSetCurrent, other));
    MUST(CALL(cuMemcpyPeerAsync, seen, context, table, context, BYTES, others));
    MUST(CALL(cuStreamSynchronize, others));
    MUST(CALL(cuCtxSetCurrent, context));
    end();
    MUST(CALL(cuMemcpyDtoH_v2, words, seen, BYTES));
    note_wrong(!holds(words, salt));
    finish();
}

RELIES(peer_copy, make_peer, 0) {
    compute(first, salt);
    begin_elsewhere();
    copy_by_others(salt);
}

RELIES(retained_late, make_streams, 0) {
    compute(first, salt);
    begin_elsewhere();
    MUST(CALL(cuDevicePrimaryCtxRetain, &other, 1));
    MUST(CALL(cuCtxSetCurrent, other));
    others = new_stream();
    MUST(CALL(cuCtxSetCurrent, context));
    copy_by_others(salt);
    MUST(CALL(cuDevicePrimaryCtxRelease_v2, 1));
}

RELIES(exported_late, make_streams, 0) {
    CUipcMemHandle handle;
    compute(first, salt);
    begin_elsewhere();
    MUST(CALL(cuIpcGetMemHandle, &handle, table));
    note_wrong(!holds((void *)(uintptr_t)table, salt)); /* stands for the process that opens it */
    end();
    finish();
}

RELIES(other_stream, make_streams, 0) {
    compute(first, salt);
    begin_elsewhere();
    launch(check, second, table, salt);
    MUST(CALL(cuStreamSynchronize, second));
    end();
    finish();
}

/* The capture lasts: each free inside it waits, and what follows it is ordered. */
RELIES(free_inside, make_streams, 2) {
    begin_elsewhere();
    for (unsigned i = 0; i < 5; i++) {
        unsigned runs = __atomic_load_n(&made, __ATOMIC_ACQUIRE);
        compute(first, salt * 100 + i);
        note_wrong(__atomic_load_n(&made, __ATOMIC_ACQUIRE) != runs + 1);
        launch(check, second, table, salt * 100 + i);
        MUST(CALL(cuStreamSynchronize, second));
    }
    end();
    finish();
}

/* ---- other processes have the rest of the card: no byte is left for gpumem's own use */

RELIES(full_card, make_streams, 2) {
    CUdeviceptr scratch = allocate(SCRATCH);
    unsigned runs = __atomic_load_n(&made, __ATOMIC_ACQUIRE);
    begin_elsewhere();
    launch(make, first, table, salt);
    EXPECT(CALL(simcuda_set_failures, "cuMemAlloc*:1:2:1000,cuMemCreate:1:2:1000") == 0);
    release(scratch);
    note_wrong(__atomic_load_n(&made, __ATOMIC_ACQUIRE) != runs + 1);
    launch(check, second, table, salt);
    MUST(CALL(cuStreamSynchronize, second));
    EXPECT(CALL(simcuda_set_failures, NULL) == 0);
    end();
    finish();
}

/* ---- memory that is kept, and its reuse */

enum { PAIRS = 300, BLOCK = 2 * MIB, MOST_KEPT = 128 * MIB };

/* Returns the number of different addresses. */
static int pairs(int n) {
    CUdeviceptr seen[PAIRS];
    int different = 0;
    for (int i = 0; i < n; i++) {
        CUdeviceptr block = allocate(BLOCK);
        int at = 0;
        MUST(CALL(cuMemsetD8Async, block, 1, 64, first));
        release(block);
        while (at < different && seen[at] != block)
            at++;
        if (at == different)
            seen[different++] = block;
    }
    return different;
}

static bool keeps; /* whoever is preloaded keeps memory: most pairs need none of the driver's */

static void expect_reuse(void) {
    int different = pairs(PAIRS);
    note_wrong(keeps && different > PAIRS / 4);
}

RELIES(pairs_beside, make_streams, 1) {
    size_t used = CALL(simcuda_used, 0);
    begin_elsewhere();
    pairs(PAIRS);
    size_t kept = CALL(simcuda_used, 0) - used;
    note_wrong(kept > MOST_KEPT);
    end();
    expect_reuse();
    begin_elsewhere();
    pairs(PAIRS);
    end();
    expect_reuse();
}

/* The thread that alone could end the capture has ended. */
static void *begin_own(void *unused) {
    MUST(CALL(cuCtxSetCurrent, context));
    MUST(CALL(cuStreamBeginCapture_v2, capturing, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    return unused;
}

RELIES(orphan, make_streams, 1) {
    size_t used = CALL(simcuda_used, 0);
    EXPECT(pthread_join(start_thread(begin_own, NULL), NULL) == 0);
    pairs(PAIRS);
    note_wrong(CALL(simcuda_used, 0) - used > MOST_KEPT);
    expect_reuse();
}

int main(int count, char **words) {
    keeps = count > 2 && strcmp(words[2], "kept") == 0;
    return RUN_CASE("relies_capture");
}
