// Captures that are begun and left in every way.
//
// Natively, too, the driver (580) dies of SIGSEGV in one run of ten: its cuMemAlloc and cuMemFree look at streams that
// capture, and one that another thread destroys meanwhile is read after its end. Such a run ends with status 77.
#include <csignal>
#include <cstring>
#include <dlfcn.h>
#include <execinfo.h>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <unistd.h>

#include "turmoil.h"

enum Way { LAUNCHED, UNUSED, DESTROYED, THREAD_ENDS, THROWN, INVALID, ALLOCATED, WAYS };

struct Left { // a stream whose capture nobody ends
    cudaStream_t stream;
    Block block;
};

static std::mutex lock;
static std::vector<Left> left;
static const size_t MOST_LEFT = 6;

static cudaStream_t make_stream() {
    cudaStream_t stream;
    PATIENTLY(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return stream;
}

// A stream that still captures: where it may not be destroyed so, its capture is ended first.
static void destroy(cudaStream_t stream) {
    cudaError_t error = cudaStreamDestroy(stream);
    if (error != cudaSuccess) {
        cudaGraph_t graph = nullptr;
        (void)cudaGetLastError();
        (void)cudaStreamEndCapture(stream, &graph);
        if (graph)
            CHECK(cudaGraphDestroy(graph));
        (void)cudaGetLastError();
        PATIENTLY(cudaStreamDestroy(stream));
    }
}

struct Guard {
    cudaStream_t stream = make_stream();
    ~Guard() { destroy(stream); }
};

static bool begin(cudaStream_t stream, cudaStreamCaptureMode mode) {
    cudaError_t error = cudaStreamBeginCapture(stream, mode);
    (void)cudaGetLastError();
    return error == cudaSuccess;
}

static void capture_use(cudaStream_t stream, const Block &block) {
    write_on(block, stream);
    verify_on(block, stream);
}

static cudaGraph_t end(cudaStream_t stream) {
    cudaGraph_t graph = nullptr;
    cudaError_t error = cudaStreamEndCapture(stream, &graph);
    (void)cudaGetLastError();
    return error == cudaSuccess ? graph : nullptr;
}

static void launch(cudaGraph_t graph, std::mt19937 &random) {
    cudaGraphExec_t exec;
    cudaStream_t stream = make_stream();
    PATIENTLY(cudaGraphInstantiate(&exec, graph, 0));
    for (unsigned i = 0, times = random() % 3; i <= times; i++)
        PATIENTLY(cudaGraphLaunch(exec, stream));
    PATIENTLY(cudaStreamSynchronize(stream));
    PATIENTLY(cudaGraphExecDestroy(exec));
    PATIENTLY(cudaStreamDestroy(stream));
}

static void throw_out(Block &block) {
    Guard guard;
    if (begin(guard.stream, cudaStreamCaptureModeRelaxed))
        capture_use(guard.stream, block);
    throw std::runtime_error("in the middle of a capture");
}

static void destroy_left(size_t most) {
    std::unique_lock<std::mutex> hold(lock);
    while (left.size() > most) {
        Left one = left.back();
        left.pop_back();
        hold.unlock();
        destroy(one.stream);
        release(one.block);
        hold.lock();
    }
}

static void leave_to_others(cudaStream_t stream, const Block &block) {
    std::lock_guard<std::mutex> hold(lock);
    left.push_back({stream, block});
}

static void capture_once(std::mt19937 &random, cudaStreamCaptureMode mode) {
    Way way = (Way)(random() % WAYS);
    Block block = allocate(random);
    cudaStream_t stream = nullptr;
    if (way == THROWN) {
        try {
            throw_out(block);
        } catch (const std::runtime_error &) {
        }
        release(block);
        return;
    }
    if (way == THREAD_ENDS) {
        std::thread([&] {
            stream = make_stream();
            if (begin(stream, mode == cudaStreamCaptureModeGlobal ? cudaStreamCaptureModeRelaxed : mode))
                capture_use(stream, block);
        }).join();
        leave_to_others(stream, block);
        destroy_left(MOST_LEFT);
        return;
    }
    stream = make_stream();
    cudaGraph_t graph = nullptr;
    Block inside;
    if (begin(stream, mode)) {
        capture_use(stream, block);
        if (way == ALLOCATED && mode == cudaStreamCaptureModeRelaxed &&
            cudaMalloc(&inside.address, 4096 * sizeof(unsigned)) == cudaSuccess) {
            inside.words = 4096;
            inside.pattern = (unsigned)random();
            capture_use(stream, inside);
        }
        if (way == INVALID)
            (void)cudaStreamSynchronize(stream);
        (void)cudaGetLastError();
        if (way != DESTROYED)
            graph = end(stream);
    }
    if (graph && (way == LAUNCHED || way == ALLOCATED))
        launch(graph, random);
    if (graph)
        PATIENTLY(cudaGraphDestroy(graph));
    if (inside.address)
        release(inside);
    // The block goes before the stream that captured it, unless that still captures and forbids it, or after it.
    if (random() % 2 && cudaFree(block.address) == cudaSuccess)
        block.address = nullptr;
    (void)cudaGetLastError();
    destroy(stream);
    if (block.address)
        release(block);
}

static void plain(std::mt19937 &random, cudaStream_t stream) {
    Block block = allocate(random);
    write_on(block, stream);
    verify_on(block, stream);
    release(block);
}

// SIGSEGV below the driver's own cuMemAlloc or cuMemFree ends the program with status 77, any other as usual.
static void died(int) {
    void *frames[64];
    Dl_info info;
    std::signal(SIGSEGV, SIG_DFL);
    for (int i = 0, count = backtrace(frames, 64); i < count; i++)
        if (dladdr(frames[i], &info) && std::strstr(info.dli_fname, "libcuda.so") && info.dli_sname &&
            (!std::strcmp(info.dli_sname, "cuMemAlloc_v2") || !std::strcmp(info.dli_sname, "cuMemFree_v2"))) {
            static const char text[] = "the driver died in its own look at captures\n";
            (void)!write(STDERR_FILENO, text, sizeof text - 1);
            _exit(77);
        }
}

void captures(const Plan &plan) {
    void *frame;
    backtrace(&frame, 1); // loads what the handler needs
    std::signal(SIGSEGV, died);
    counter_make();
    bool global = plan.seed % 3 == 0; // such a capture forbids the other threads' calls, too, while it lasts
    in_threads(plan, plan.threads, [&](unsigned number, std::mt19937 &random) {
        cudaStream_t stream = make_stream();
        while (plan.goes_on()) {
            auto mode = random() % 2 ? cudaStreamCaptureModeRelaxed : cudaStreamCaptureModeThreadLocal;
            if (number % 2 == 0)
                capture_once(random, global && random() % 8 == 0 ? cudaStreamCaptureModeGlobal : mode);
            else
                plain(random, stream);
            rounds++;
        }
        PATIENTLY(cudaStreamSynchronize(stream));
        PATIENTLY(cudaStreamDestroy(stream));
    });
    destroy_left(0);
    counter_take();
}
