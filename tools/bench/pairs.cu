// Pairs of allocation and free on an idle card: by size, by threads, mixed, and managed memory.
#include "bench.h"

#include <atomic>
#include <cmath>
#include <random>
#include <thread>

namespace {

const size_t KIB = 1 << 10, MIB = 1 << 20;

void pairs(size_t bytes, int repetitions) {
    allocator contender = bench.contender;
    for (int i = 0; i < repetitions; i++)
        contender.release(contender.allocate(bytes));
}

// While one block is there: native memory is in use only then.
size_t used_with(size_t bytes) {
    void *block = bench.contender.allocate(bytes);
    size_t used = card_used();
    bench.contender.release(block);
    return used;
}

// Threads that stay, so that starting them is in no figure. Each runs the repetitions of its own size; the calling
// thread is one of them, so that no further one needs a processor.
class crew {
  public:
    explicit crew(const std::vector<size_t> &sizes) : own(sizes[0]) {
        for (size_t i = 1; i < sizes.size(); i++)
            threads.emplace_back([this, bytes = sizes[i]] {
                CHECK(cudaSetDevice(0));
                for (int done = 0;;) {
                    while (round == done)
                        std::this_thread::yield();
                    done = round;
                    if (!repetitions)
                        return;
                    pairs(bytes, repetitions);
                    busy--;
                }
            });
    }
    void run(int n) {
        repetitions = n;
        busy = (int)threads.size();
        round++;
        pairs(own, n);
        while (busy)
            std::this_thread::yield();
    }
    ~crew() {
        repetitions = 0;
        round++;
        for (auto &thread : threads)
            thread.join();
    }

  private:
    size_t own;
    std::vector<std::thread> threads;
    std::atomic<int> round{0}, busy{0}, repetitions{0};
};

void thread_row(const std::string &name, const std::vector<size_t> &sizes) {
    if (!wanted(name))
        return;
    size_t live = 0;
    for (size_t bytes : sizes)
        live += bytes;
    crew workers(sizes);
    measure({{name, 0, [&](int n) { workers.run(n); }, live, 64}});
}

} // namespace

void pair_rows() {
    for (size_t bytes :
         {(size_t)1, (size_t)512, 4 * KIB, 64 * KIB, MIB, 2 * MIB, 32 * MIB, 64 * MIB, 256 * MIB, 1024 * MIB})
        measure({{"pair:" + std::to_string(bytes), 0, [=](int n) { pairs(bytes, n); }, bytes, 4,
                  [=] { return used_with(bytes); }}});
}

// A repetition is one pair in every thread: the figure is what a pair takes as its thread sees it.
void thread_rows() {
    for (size_t count : {1, 2, 4, 8, 16}) {
        thread_row("threads-same:" + std::to_string(count), std::vector<size_t>(count, MIB));
        std::vector<size_t> sizes;
        for (size_t i = 0; i < count; i++)
            sizes.push_back((i + 1) * 256 * KIB);
        thread_row("threads-different:" + std::to_string(count), sizes);
    }
}

// What native memory takes for a block: whole pages of 2 MiB from 1 MiB on.
static size_t taken(size_t bytes) {
    size_t unit = bytes >= MIB ? 2 * MIB : 512;
    return (bytes + unit - 1) / unit * unit;
}

// A repetition frees one of many live blocks and allocates another; the sizes are the same for everybody.
static void replacement_row(const std::string &name, int slots, double low, double high, bool by_logarithm) {
    if (!wanted(name))
        return;
    const int steps = 8192 + slots;
    std::mt19937 random(42);
    std::vector<int> slot(steps);
    std::vector<size_t> bytes(steps), held(slots, 0);
    size_t live = 0, most = 0;
    for (int i = 0; i < steps; i++) {
        slot[i] = i < slots ? i : (int)(random() % slots);
        double part = random() / 4294967296.0;
        bytes[i] = (size_t)(by_logarithm ? low * std::pow(high / low, part) : low + (high - low) * part);
        live += taken(bytes[i]) - held[slot[i]];
        held[slot[i]] = taken(bytes[i]);
        most = std::max(most, live);
    }
    bench.contender.trim();
    size_t used = bench.memory && card_known() ? card_used() : 0;
    std::vector<void *> blocks(slots, nullptr);
    int next = slots;
    for (int i = 0; i < slots; i++)
        blocks[i] = bench.contender.allocate(bytes[i]);
    measure({{name,
              512,
              [&](int n) {
                  for (int i = 0; i < n; i++, next = next + 1 < steps ? next + 1 : slots) {
                      void *&block = blocks[slot[next]];
                      bench.contender.release(block);
                      block = bench.contender.allocate(bytes[next]);
                  }
              },
              most,
              4,
              {},
              {},
              used}});
    for (void *block : blocks)
        bench.contender.release(block);
}

// The first row has the name under which older results have it; the others say live blocks, largest size, and how sizes
// are drawn.
void mixed_rows() {
    replacement_row("mixed", 64, 512, 64.0 * MIB, true);
    for (int slots : {64, 256, 4096})
        for (size_t most : {64 * KIB, 4 * MIB, 64 * MIB})
            for (bool by_logarithm : {false, true})
                if (slots * most <= 32 * 1024 * MIB) // of a card
                    replacement_row("mixed:" + std::to_string(slots) + ":" + std::to_string(most) +
                                        (by_logarithm ? ":log" : ":uniform"),
                                    slots, 512, (double)most, by_logarithm);
}

// Managed memory by the program's own call, which no policy moves.
void managed_rows() {
    if (!bench.contender.plain)
        return;
    managed_first_touch_rows();
    measure({{"managed-pair:1048576", 0, [](int n) {
                  for (int i = 0; i < n; i++) {
                      void *block;
                      CHECK(cudaMallocManaged(&block, MIB));
                      CHECK(cudaFree(block));
                  }
              }}});
}
