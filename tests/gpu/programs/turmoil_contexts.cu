// Contexts that come and go.
#include <cuda.h>
#include <mutex>

#include "turmoil.h"

static void must(CUresult result, const char *call, int line) {
    const char *text = nullptr;
    if (result == CUDA_SUCCESS)
        return;
    cuGetErrorString(result, &text);
    std::fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, line, call, text ? text : "unknown error");
    std::exit(1);
}
#define MUST(call) must(call, #call, __LINE__)

struct Piece {
    CUdeviceptr address;
    size_t words;
};

static std::atomic<unsigned long> differing;

static Piece take(std::mt19937 &random) {
    Piece piece = {0, random_words(random)};
    MUST(cuMemAlloc(&piece.address, piece.words * sizeof(unsigned)));
    return piece;
}

// Set on one stream and read back on it; freed at once behind that.
static void use_and_free(std::mt19937 &random, CUstream stream, unsigned *host) {
    Piece piece = take(random);
    unsigned value = (unsigned)random();
    MUST(cuMemsetD32Async(piece.address, value, piece.words, stream));
    MUST(cuMemcpyDtoHAsync(host, piece.address, piece.words * sizeof(unsigned), stream));
    MUST(cuMemFree(piece.address));
    MUST(cuStreamSynchronize(stream));
    for (size_t i = 0; i < piece.words; i++)
        differing += host[i] != value;
}

static void live_and_die(std::mt19937 &random, CUdevice device, unsigned *host) {
    CUcontext context, popped;
    CUstream stream;
    std::vector<Piece> alive;
    MUST(cuCtxCreate(&context, NULL, 0, device));
    MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (unsigned i = 0, count = 8 + random() % 64; i < count; i++) {
        use_and_free(random, stream, host);
        if (random() % 4 == 0)
            alive.push_back(take(random));
    }
    if (random() % 2 == 0 && !alive.empty()) { // freed while another context is current
        CUcontext primary;
        MUST(cuDevicePrimaryCtxRetain(&primary, device));
        MUST(cuCtxPushCurrent(primary));
        MUST(cuMemFree(alive.back().address));
        alive.pop_back();
        MUST(cuCtxPopCurrent(&popped));
        MUST(cuDevicePrimaryCtxRelease(device));
    }
    if (random() % 2 == 0 && !alive.empty()) // goes with work in flight
        MUST(cuMemsetD32Async(alive.back().address, 1, alive.back().words, stream));
    MUST(cuCtxDestroy(context));
    rounds++;
}

void contexts(const Plan &plan) {
    CUdevice device;
    CHECK(cudaFree(nullptr));
    MUST(cuDeviceGet(&device, 0));
    in_threads(plan, plan.threads < 3 ? plan.threads : 3, [&](unsigned, std::mt19937 &random) {
        std::vector<unsigned> host((size_t)1 << 20);
        while (plan.goes_on())
            live_and_die(random, device, host.data());
    });
    if (differing)
        std::printf("%lu words were not what was set\n", differing.load()), std::exit(1);
}

// All threads have ended: then a reset is legal. Blocks alive, freed and just in use go with the context.
void resets(const Plan &plan) {
    std::mt19937 seeds(plan.seed);
    while (plan.goes_on()) {
        std::vector<Block> abandoned;
        std::mutex lock;
        Plan inner = plan;
        inner.seed = (unsigned)seeds();
        counter_make();
        in_threads(inner, plan.threads, [&](unsigned, std::mt19937 &random) {
            cudaStream_t stream;
            CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
            for (unsigned i = 0; i < 30; i++) {
                Block block = allocate(random);
                write_on(block, stream);
                verify_on(block, stream);
                if (random() % 8) {
                    release(block);
                } else {
                    std::lock_guard<std::mutex> hold(lock);
                    abandoned.push_back(block);
                }
            }
            CHECK(cudaStreamSynchronize(stream));
        });
        counter_take();
        CHECK(cudaDeviceReset());
        for (const Block &block : abandoned)
            if (cudaFree(block.address) == cudaSuccess) {
                std::printf("a block of before the reset can be freed\n");
                std::exit(1);
            }
        (void)cudaGetLastError();
        rounds++;
    }
}
