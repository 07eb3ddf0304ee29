// Kernels on every sort of stream, and blocks that are freed in other places than they were used.
#include <thread>

#include "in_flight.h"

static cudaStream_t &own_stream(Trial &trial) { return (cudaStream_t &)trial.own[0]; }

static void on_own(Trial &trial) { work_on(trial, own_stream(trial)); }
static void destroy_own(Trial &trial) { CHECK(cudaStreamDestroy(own_stream(trial))); }

static void on_legacy(Trial &trial) { work_on(trial, cudaStreamLegacy); }
static void on_per_thread(Trial &trial) { work_on(trial, cudaStreamPerThread); }
static void on_non_blocking(Trial &trial) { work_on(trial, trial.stream); }

// The thread is gone, its stream's work is not.
static void on_ended_thread(Trial &trial) {
    std::thread([&] { work_on(trial, cudaStreamPerThread); }).join();
}

static const char *prepare_blocking(Trial &trial) {
    NEED(cudaStreamCreate(&own_stream(trial)));
    return nullptr;
}

static const char *prepare_priority(Trial &trial) {
    int least, greatest;
    NEED(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    NEED(cudaStreamCreateWithPriority(&own_stream(trial), cudaStreamNonBlocking, greatest));
    return nullptr;
}

static const char *prepare_destroyed(Trial &trial) {
    NEED(cudaStreamCreateWithFlags(&own_stream(trial), cudaStreamNonBlocking));
    return nullptr;
}

static void on_destroyed(Trial &trial) {
    on_own(trial);
    destroy_own(trial);
}

// Kernels of a stream that waits for another one.
static const char *prepare_event(Trial &trial) {
    NEED(cudaEventCreateWithFlags((cudaEvent_t *)&trial.own[1], cudaEventDisableTiming));
    return nullptr;
}

static void on_event(Trial &trial) {
    cudaEvent_t event = (cudaEvent_t)trial.own[1];
    linger_on(trial, trial.second);
    CHECK(cudaEventRecord(event, trial.second));
    CHECK(cudaStreamWaitEvent(trial.stream, event, 0));
    use_on(trial, trial.stream);
    end_on(trial, trial.stream);
}

static void destroy_event(Trial &trial) { CHECK(cudaEventDestroy((cudaEvent_t)trial.own[1])); }

// own: stream, green context, its context
static const char *prepare_green(Trial &trial) {
    CUdevResource all, part;
    CUdevResourceDesc description;
    unsigned parts = 1;
    NEED(cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM));
    NEED(cuDevSmResourceSplitByCount(&part, &parts, &all, NULL, 0, all.sm.smCount / 4));
    NEED(cuDevResourceGenerateDesc(&description, &part, 1));
    NEED(cuGreenCtxCreate((CUgreenCtx *)&trial.own[1], description, 0, CU_GREEN_CTX_DEFAULT_STREAM));
    NEED(cuCtxFromGreenCtx((CUcontext *)&trial.own[2], (CUgreenCtx)trial.own[1]));
    NEED(cuGreenCtxStreamCreate((CUstream *)&trial.own[0], (CUgreenCtx)trial.own[1], CU_STREAM_NON_BLOCKING, 0));
    return nullptr;
}

static void on_green(Trial &trial) {
    CUcontext popped;
    MUST(cuCtxPushCurrent((CUcontext)trial.own[2]));
    on_own(trial);
    MUST(cuCtxPopCurrent(&popped));
}

static void destroy_green(Trial &trial) {
    CUcontext popped;
    MUST(cuCtxPushCurrent((CUcontext)trial.own[2]));
    destroy_own(trial);
    MUST(cuCtxPopCurrent(&popped));
    MUST(cuGreenCtxDestroy((CUgreenCtx)trial.own[1]));
}

static void free_in_thread(unsigned *block) {
    std::thread([&] { CHECK(cudaFree(block)); }).join();
}

static void free_from_far(unsigned *block) {
    CHECK(cudaSetDevice(1));
    CHECK(cudaFree(block));
    CHECK(cudaSetDevice(0));
}

std::vector<Kind> stream_kinds() {
    return {
        {"legacy stream", nullptr, on_legacy, nullptr, nullptr, LARGE, 1},
        {"per-thread stream", nullptr, on_per_thread, nullptr, nullptr, LARGE, 1},
        {"per-thread stream of a thread that ended", nullptr, on_ended_thread, nullptr, nullptr, LARGE, 1},
        {"non-blocking stream", nullptr, on_non_blocking, nullptr, nullptr, LARGE, 1},
        {"blocking stream", prepare_blocking, on_own, nullptr, destroy_own, LARGE, 1},
        {"priority stream", prepare_priority, on_own, nullptr, destroy_own, LARGE, 1},
        {"destroyed stream", prepare_destroyed, on_destroyed, nullptr, nullptr, LARGE, 1},
        {"stream behind an event", prepare_event, on_event, nullptr, destroy_event, LARGE, 1},
        {"green context", prepare_green, on_green, nullptr, destroy_green, LARGE, 1},
        {"freed by a new thread", nullptr, on_non_blocking, nullptr, nullptr, LARGE, 1, false, free_in_thread},
        {"freed with another GPU current", nullptr, on_non_blocking, nullptr, nullptr, LARGE, 2, false, free_from_far},
    };
}
