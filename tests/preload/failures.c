/* Makes every kind of allocation and handles errors: a failed call is noted and skipped, and a failed free is
 * repeated once. At the end nothing may remain: neither a block in the driver nor an error in the order of work.
 *
 * FAILURES_COUNT=NAME prints how often the driver's function NAME was called. */
#include <cuda.h>
#include <cuda_runtime_api.h>

#include "program.h"
#include "simcuda.h"

enum { SIZE = 1 << 17, ROUNDS = 12, WIDTH = 1000, HEIGHT = 20 };

static int failed;

static int bad(cudaError_t error) {
    cudaGetLastError();
    return error != cudaSuccess;
}

/* The address if the allocation succeeded, else NULL. */
static void *outcome(cudaError_t error, const char *call, long long size, void *memory) {
    if (bad(error)) {
        note("fail", call, size, NULL);
        failed++;
        return NULL;
    }
    note_alloc(call, size, memory);
    return memory;
}

static void *plain(size_t size) {
    void *memory = NULL;
    cudaError_t error = cudaMalloc(&memory, size);
    return outcome(error, "cuMemAlloc", (long long)size, memory);
}

static void *pitched(void) {
    void *memory = NULL;
    size_t pitch = 0;
    cudaError_t error = cudaMallocPitch(&memory, &pitch, WIDTH, HEIGHT);
    EXPECT(error != cudaSuccess || pitch >= WIDTH);
    return outcome(error, "cuMemAllocPitch", WIDTH * HEIGHT, memory);
}

static void *ordered(cudaStream_t stream) {
    void *memory = NULL;
    cudaError_t error = cudaMallocAsync(&memory, SIZE, stream);
    return outcome(error, "cuMemAllocAsync", SIZE, memory);
}

static void *managed(void) {
    void *memory = NULL;
    cudaError_t error = cudaMallocManaged(&memory, SIZE, cudaMemAttachGlobal);
    return outcome(error, "cuMemAllocManaged", SIZE, memory);
}

static void *pinned(void) {
    void *memory = NULL;
    cudaError_t error = cudaMallocHost(&memory, SIZE);
    return outcome(error, "cuMemHostAlloc", SIZE, memory);
}

enum how { BY_FREE, BY_FREE_ASYNC, BY_FREE_HOST };

static cudaError_t free_once(void *memory, enum how how, cudaStream_t stream) {
    return how == BY_FREE        ? cudaFree(memory)
           : how == BY_FREE_HOST ? cudaFreeHost(memory)
                                 : cudaFreeAsync(memory, stream);
}

/* The note is written before the free, because another thread may get the address right after it. A failed attempt
 * has its own note. */
static void let_go(void *memory, enum how how, cudaStream_t stream) {
    static const char *const calls[] = {"cuMemFree", "cuMemFreeAsync", "cuMemFreeHost"};
    if (!memory)
        return;
    if (bad(free_once(memory, how, stream))) {
        note("free_fail", calls[how], ANY_BYTES, memory);
        failed++;
        MUST(free_once(memory, how, stream));
    }
    note_free(calls[how], memory);
}

static void try_round_trip(void *memory, size_t size, unsigned char value) {
    if (memory)
        round_trip(memory, size, value);
}

static void plain_blocks(void) {
    void *held[ROUNDS];
    for (int i = 0; i < ROUNDS; i++)
        held[i] = plain(SIZE);
    for (int i = 0; i < ROUNDS; i++)
        try_round_trip(held[i], SIZE, (unsigned char)i);
    for (int i = 0; i < ROUNDS; i++)
        let_go(held[i], BY_FREE, NULL);
    for (int i = 0; i < ROUNDS; i++) {
        void *memory = plain(SIZE + (size_t)i % 3);
        try_round_trip(memory, SIZE, (unsigned char)(i + 100));
        let_go(memory, BY_FREE, NULL);
    }
    void *rows = pitched();
    try_round_trip(rows, WIDTH * HEIGHT, 9);
    let_go(rows, BY_FREE, NULL);
}

static void ordered_blocks(cudaStream_t stream) {
    static unsigned char host[SIZE];
    for (int i = 0; i < 4; i++) {
        void *memory = ordered(stream);
        if (memory) {
            MUST(cudaMemsetAsync(memory, i + 1, SIZE, stream));
            MUST(cudaMemcpyAsync(host, memory, SIZE, cudaMemcpyDeviceToHost, stream));
        }
        let_go(memory, BY_FREE_ASYNC, stream);
        EXPECT(cudaDeviceSynchronize() == cudaSuccess || cudaDeviceSynchronize() == cudaSuccess);
        cudaGetLastError();
        EXPECT(!memory || all_bytes_are(host, (unsigned char)(i + 1), SIZE));
    }
    void *mixed = ordered(stream);
    EXPECT(cudaDeviceSynchronize() == cudaSuccess || cudaDeviceSynchronize() == cudaSuccess);
    let_go(mixed, BY_FREE, NULL);
    mixed = plain(SIZE);
    let_go(mixed, BY_FREE_ASYNC, stream);
}

/* Blocks that are freed while a stream captures wait for the end of the capture. */
static void blocks_around_a_capture(cudaStream_t stream) {
    cudaGraph_t graph = NULL;
    void *before = plain(SIZE);
    if (bad(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed))) {
        failed++;
    } else {
        enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
        cudaThreadExchangeStreamCaptureMode(&mode);
        let_go(before, BY_FREE, NULL);
        before = NULL;
        void *amid = plain(SIZE);
        let_go(amid, BY_FREE, NULL);
        if (bad(cudaStreamEndCapture(stream, &graph))) {
            failed++;
            MUST(cudaStreamEndCapture(stream, &graph)); /* otherwise the stream would capture forever */
        }
        if (graph)
            cudaGraphDestroy(graph);
        cudaThreadExchangeStreamCaptureMode(&mode);
    }
    let_go(before, BY_FREE, NULL);
    let_go(plain(SIZE), BY_FREE, NULL);
}

int main(void) {
    cudaStream_t stream = NULL;
    void *warm = NULL;
    for (int i = 0; i < 3 && !warm; i++) { /* the initialisation of CUDA may meet the failure */
        if (!bad(cudaMalloc(&warm, 512)))
            break;
        note("fail", "cuMemAlloc", 512, NULL);
        failed++;
    }
    EXPECT(warm != NULL);
    note_alloc("cuMemAlloc", 512, warm);
    for (int i = 0; i < 3 && !stream; i++)
        failed += bad(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    EXPECT(stream != NULL);
    plain_blocks();
    ordered_blocks(stream);
    blocks_around_a_capture(stream);
    void *shared = managed();
    if (shared)
        memset(shared, 5, SIZE);
    let_go(shared, BY_FREE, NULL);
    let_go(pinned(), BY_FREE_HOST, NULL);
    EXPECT(cudaDeviceSynchronize() == cudaSuccess || cudaDeviceSynchronize() == cudaSuccess);
    let_go(warm, BY_FREE, NULL);
    EXPECT(cudaStreamDestroy(stream) == cudaSuccess || cudaStreamDestroy(stream) == cudaSuccess);

    EXPECT(cudaDeviceSynchronize() == cudaSuccess || cudaDeviceSynchronize() == cudaSuccess);
    const char *counted = getenv("FAILURES_COUNT");
    printf("calls %llu\n", (unsigned long long)(counted ? simcuda_calls(counted) : 0));
    printf("violations %llu %s\n", (unsigned long long)simcuda_violations(), simcuda_last_violation());
    printf("blocks %zu\n", simcuda_live_blocks());
    simcuda_set_failures("");
    MUST(cudaDeviceReset()); /* destroys the pools as well */
    printf("used %zu\n", simcuda_used(0));
    printf("failed %d\n", failed);
    printf("ok failures\n");
    return 0;
}
