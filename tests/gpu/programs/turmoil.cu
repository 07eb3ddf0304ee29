// Programs that do what CUDA allows and tidy programs do not. Kernels verify their own memory all the while.
//
// Arguments: MODE, seconds, seed, threads.
//   captures    streams are captured and left: destroyed, by a thread that ends, by an exception, invalid; blocks come
//               and go meanwhile
//   contexts    contexts of the driver come and go with blocks alive, freed, and in use
//   resets      the device is reset between rounds of threads
//   forks       other processes begin while threads allocate: children that end, execute something, fork again
//   exits       forks whose children end by exit(), not _exit()
//   cancels     threads are cancelled within their loop of cudaMalloc and cudaFree
//   exceptions  scopes with blocks are left by exceptions
//   churn       threads live for a few blocks
//   memory      nearly all memory is taken; threads ask for more than there is
//   lean        programs that lean on what cudaFree waits for; what was promised and not kept is told apart
// The last line is "ok MODE N wrong", of lean with "N device N host" behind it; exit status 1 with N > 0.
#include <cstring>
#include <string>
#include <sys/prctl.h>
#include <unistd.h>

#include "../kernels.h"
#include "../settle.h"
#include "turmoil.h"

static const struct {
    const char *name;
    void (*run)(const Plan &plan);
} modes[] = {
    {"captures", captures}, {"contexts", contexts},     {"resets", resets}, {"forks", forks},   {"exits", exits},
    {"cancels", cancels},   {"exceptions", exceptions}, {"churn", churn},   {"memory", memory}, {"lean", lean},
};

std::atomic<unsigned long> rounds, broken_on_device, broken_on_host;
static std::atomic<unsigned long long> sum_wrong;
static unsigned long long *wrong; // on the device
enum { BLOCKS = 16, THREADS = 256 };

void counter_make() {
    CHECK(cudaMalloc(&wrong, sizeof *wrong));
    CHECK(cudaMemset(wrong, 0, sizeof *wrong));
    CHECK(cudaDeviceSynchronize());
}

void counter_take() {
    unsigned long long found;
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(&found, wrong, sizeof found, cudaMemcpyDeviceToHost));
    CHECK(cudaFree(wrong));
    sum_wrong += found;
}

static bool is_of_capture(cudaError_t error) {
    return error >= cudaErrorStreamCaptureUnsupported && error <= cudaErrorStreamCaptureWrongThread;
}

void patiently(const char *what, const std::function<cudaError_t()> &call) {
    auto end = std::chrono::steady_clock::now() + std::chrono::seconds(SMALLER ? 2 : 20);
    cudaError_t error;
    while (is_of_capture(error = call()) && std::chrono::steady_clock::now() < end) {
        (void)cudaGetLastError();
        usleep(50);
    }
    if (error != cudaSuccess) {
        std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
        std::exit(1);
    }
}

size_t random_words(std::mt19937 &random) { return (size_t)256 << random() % (13 - SMALLER); }

Block allocate(std::mt19937 &random) {
    Block block;
    block.words = random_words(random);
    block.pattern = (unsigned)random();
    PATIENTLY(cudaMalloc(&block.address, block.words * sizeof(unsigned)));
    return block;
}

void release(Block &block) {
    PATIENTLY(cudaFree(block.address));
    block.address = nullptr;
}

// A capture that another thread's call made invalid refuses its launches.
static void check_launch() {
    cudaError_t launched = cudaGetLastError();
    if (!is_of_capture(launched))
        CHECK(launched);
}

void linger_on(cudaStream_t stream, long long cycles) {
    linger<<<1, 1, 0, stream>>>(cycles);
    check_launch();
}

void write_on(const Block &block, cudaStream_t stream) {
    fill<<<BLOCKS, THREADS, 0, stream>>>(block.address, block.words, block.pattern);
    check_launch();
    linger_on(stream, block.pattern % 100000);
}

void expect_on(const Block &block, unsigned long long *differing, cudaStream_t stream) {
    verify<<<BLOCKS, THREADS, 0, stream>>>(block.address, block.words, block.pattern, differing);
    check_launch();
}

void verify_on(const Block &block, cudaStream_t stream) { expect_on(block, wrong, stream); }

void in_threads(const Plan &plan, unsigned count, const std::function<void(unsigned, std::mt19937 &)> &work) {
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < count; i++)
        threads.emplace_back([&, i] {
            std::mt19937 random(plan.seed * 7919 + i);
            work(i, random);
        });
    for (auto &thread : threads)
        thread.join();
}

int main(int count, char **words) {
    Plan plan = {};
    void (*run)(const Plan &) = nullptr;
    for (const auto &mode : modes)
        if (count > 1 && std::strcmp(words[1], mode.name) == 0)
            run = mode.run;
    if (!run) {
        std::fprintf(stderr, "turmoil: MODE is not one of those in its source\n");
        return 2;
    }
    plan.self = "/proc/self/exe";
    plan.seconds = count > 2 ? std::atof(words[2]) : 2;
    plan.seed = count > 3 ? (unsigned)std::strtoul(words[3], nullptr, 10) : 1;
    plan.threads = count > 4 ? (unsigned)std::atoi(words[4]) : 8;
    plan.end = std::chrono::steady_clock::now() + std::chrono::microseconds((long long)(plan.seconds * 1e6));
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY); // a watchdog may look where it hangs
    setenv("CUDA_MODULE_LOADING", "EAGER", 0);
    run(plan);
    settle();
    std::fprintf(stderr, "%lu rounds\n", rounds.load());
    std::printf("ok %s %llu wrong", words[1], sum_wrong.load());
    if (run == lean)
        std::printf(" %lu device %lu host", broken_on_device.load(), broken_on_host.load());
    std::printf("\n");
    return sum_wrong != 0;
}
