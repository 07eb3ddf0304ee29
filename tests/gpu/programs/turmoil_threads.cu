// Threads and scopes that end in the middle of things.
#include <memory>
#include <pthread.h>
#include <stdexcept>
#include <unistd.h>

#include "turmoil.h"

// ---- cancellation, deferred: it takes effect where a thread, or a library it is in, calls what may block

struct Worker {
    pthread_t thread;
    std::mt19937 random;
    cudaStream_t stream;
    std::atomic<unsigned *> block{nullptr};
};

static void free_block(void *argument) {
    unsigned *block = ((Worker *)argument)->block.exchange(nullptr);
    if (block)
        CHECK(cudaFree(block));
}

static void *allocate_for_ever(void *argument) {
    Worker *worker = (Worker *)argument;
    pthread_cleanup_push(free_block, worker);
    for (;;) {
        Block block = {nullptr, random_words(worker->random), (unsigned)worker->random()};
        CHECK(cudaMalloc(&block.address, block.words * sizeof(unsigned)));
        worker->block = block.address;
        if (worker->random() % 4 == 0) {
            write_on(block, worker->stream);
            verify_on(block, worker->stream);
        }
        worker->block = nullptr;
        CHECK(cudaFree(block.address));
        rounds++;
        pthread_testcancel();
    }
    pthread_cleanup_pop(1);
    return nullptr;
}

static void start(Worker &worker) {
    if (pthread_create(&worker.thread, nullptr, allocate_for_ever, &worker)) {
        std::fprintf(stderr, "no thread\n");
        std::exit(1);
    }
}

static void cancel(Worker &worker) {
    void *result;
    pthread_cancel(worker.thread);
    if (pthread_join(worker.thread, &result) || result != PTHREAD_CANCELED) {
        std::printf("a cancelled thread ended otherwise\n");
        std::exit(1);
    }
    free_block(&worker);
}

void cancels(const Plan &plan) {
    std::mt19937 random(plan.seed);
    std::vector<Worker> workers(plan.threads);
    unsigned long cancelled = plan.threads;
    counter_make();
    for (unsigned i = 0; i < plan.threads; i++) {
        workers[i].random.seed(plan.seed * 7919 + i);
        CHECK(cudaStreamCreateWithFlags(&workers[i].stream, cudaStreamNonBlocking));
        start(workers[i]);
    }
    while (plan.goes_on()) {
        Worker &worker = workers[random() % workers.size()];
        usleep(random() % 3000);
        cancel(worker);
        start(worker);
        cancelled++;
    }
    for (Worker &worker : workers) {
        cancel(worker);
        CHECK(cudaStreamSynchronize(worker.stream));
        CHECK(cudaStreamDestroy(worker.stream));
    }
    counter_take();
    std::fprintf(stderr, "%lu cancelled\n", cancelled);
}

// ---- exceptions

struct Scope {
    Block block;
    explicit Scope(std::mt19937 &random) : block(allocate(random)) {}
    ~Scope() { release(block); }
    Scope(const Scope &) = delete;
};

static void go_deeper(std::mt19937 &random, cudaStream_t stream, unsigned depth) {
    Scope scope(random);
    write_on(scope.block, stream);
    verify_on(scope.block, stream);
    void *much = nullptr;
    if (depth == 0 && random() % 2 && cudaMalloc(&much, (size_t)1 << 50) != cudaSuccess) { // more than any card has
        (void)cudaGetLastError();
        throw std::bad_alloc();
    }
    if (depth == 0)
        throw std::runtime_error("deep enough");
    try {
        go_deeper(random, stream, depth - 1);
    } catch (const std::runtime_error &) {
        verify_on(scope.block, stream); // it is alive here
        throw;
    }
}

void exceptions(const Plan &plan) {
    counter_make();
    in_threads(plan, plan.threads, [&](unsigned, std::mt19937 &random) {
        cudaStream_t stream;
        CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
        while (plan.goes_on()) {
            try {
                go_deeper(random, stream, random() % 6);
            } catch (const std::exception &) {
                rounds++;
            }
        }
        CHECK(cudaStreamSynchronize(stream));
        CHECK(cudaStreamDestroy(stream));
    });
    counter_take();
}

// ---- threads that live for a few blocks, and leave some to the next

void churn(const Plan &plan) {
    std::atomic<unsigned *> left[64] = {};
    counter_make();
    in_threads(plan, plan.threads, [&](unsigned, std::mt19937 &random) {
        while (plan.goes_on())
            std::thread([&] {
                cudaStream_t stream;
                CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
                for (unsigned i = 0, count = 1 + random() % 4; i < count; i++) {
                    Block block = allocate(random);
                    write_on(block, stream);
                    verify_on(block, stream);
                    if (random() % 2) {
                        release(block);
                    } else {
                        unsigned *other = left[random() % 64].exchange(block.address);
                        CHECK(cudaFree(other));
                    }
                }
                CHECK(cudaStreamSynchronize(stream));
                CHECK(cudaStreamDestroy(stream));
                rounds++;
            }).join();
    });
    for (auto &block : left)
        CHECK(cudaFree(block.exchange(nullptr)));
    counter_take();
}
