// Memory that runs out, and programs that lean on what cudaFree waits for.
#include <algorithm>
#include <condition_variable>
#include <mutex>

#include "turmoil.h"

static const size_t MIB = (size_t)1 << 20;

// ---- nearly all memory is taken

static bool try_allocate(Block &block, size_t bytes, unsigned pattern) {
    cudaError_t got = cudaMalloc(&block.address, bytes);
    if (got == cudaErrorMemoryAllocation) {
        (void)cudaGetLastError();
        return false;
    }
    CHECK(got);
    block.words = bytes / sizeof(unsigned);
    block.pattern = pattern;
    return true;
}

// Takes all but a rest in large pieces. What threads ask for beyond is bounded: memory of the host may serve them.
static std::vector<Block> take_nearly_all(size_t *rest) {
    std::vector<Block> taken;
    size_t free_bytes, total;
    CHECK(cudaMemGetInfo(&free_bytes, &total));
    *rest = std::min(free_bytes / 4, 1024 * MIB);
    for (size_t piece = 4096 * MIB; piece >= 4 * MIB; piece /= 2)
        for (Block block; free_bytes > *rest + piece && try_allocate(block, piece, (unsigned)taken.size());) {
            taken.push_back(block);
            free_bytes -= piece;
        }
    return taken;
}

void memory(const Plan &plan) {
    size_t rest;
    std::atomic<unsigned long> refused{0};
    cudaStream_t stream;
    counter_make();
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    std::vector<cudaStream_t> streams(plan.threads);
    for (auto &one : streams)
        CHECK(cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking));
    std::vector<Block> taken = take_nearly_all(&rest);
    for (const Block &block : taken)
        write_on({block.address, std::min(block.words, 4 * MIB / sizeof(unsigned)), block.pattern}, stream);
    in_threads(plan, plan.threads, [&](unsigned number, std::mt19937 &random) {
        std::vector<Block> held;
        size_t held_bytes = 0, most = rest * 2 / plan.threads; // together twice of what is there
        while (plan.goes_on()) {
            Block block;
            size_t bytes = std::min(most, std::max(rest >> (3 + random() % 8), 4096 + rest % 4096));
            bool got = held_bytes + bytes <= most && try_allocate(block, bytes, (unsigned)random());
            if (got) {
                write_on(block, streams[number]);
                verify_on(block, streams[number]);
                held.push_back(block);
                held_bytes += bytes;
            } else {
                refused++;
            }
            if (!held.empty() && (!got || random() % 3 == 0)) {
                size_t which = random() % held.size();
                verify_on(held[which], streams[number]);
                held_bytes -= held[which].words * sizeof(unsigned);
                CHECK(cudaFree(held[which].address));
                held.erase(held.begin() + (long)which);
            }
            rounds++;
        }
        CHECK(cudaStreamSynchronize(streams[number]));
        for (Block &block : held)
            CHECK(cudaFree(block.address));
        CHECK(cudaStreamDestroy(streams[number]));
    });
    for (const Block &block : taken) {
        verify_on({block.address, std::min(block.words, 4 * MIB / sizeof(unsigned)), block.pattern}, stream);
        CHECK(cudaFree(block.address));
    }
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaStreamDestroy(stream));
    counter_take();
    std::fprintf(stderr, "%zu pieces of nearly all, %lu times none was to be had\n", taken.size(), refused.load());
}

// ---- leaning on the free

// Threads that go on together, round by round.
class Meeting {
    std::mutex lock;
    std::condition_variable all_there;
    unsigned missing, size, number = 0;

  public:
    explicit Meeting(unsigned count) : missing(count), size(count) {}
    void wait() {
        std::unique_lock<std::mutex> hold(lock);
        unsigned mine = number;
        if (--missing == 0) {
            missing = size;
            number++;
            all_there.notify_all();
        }
        all_there.wait(hold, [&] { return number != mine; });
    }
};

struct Table { // made by whoever comes first, under the lock
    std::mutex lock;
    unsigned *words = nullptr;
    unsigned pattern = 0;
    bool there = false;
};

static const size_t TABLE_WORDS = (size_t)1 << (20 - 2 * (SMALLER / 2));
static const long long A_WHILE = 2000000; // cycles: some 1 ms

static unsigned long count_device(unsigned long long *counter) {
    unsigned long long found;
    CHECK(cudaMemcpy(&found, counter, sizeof found, cudaMemcpyDeviceToHost));
    CHECK(cudaMemset(counter, 0, sizeof found));
    CHECK(cudaDeviceSynchronize());
    return (unsigned long)found;
}

// The temporary is used on this thread's stream, and its free makes the table complete for everyone.
static void make_table(Table &table, cudaStream_t stream) {
    Block temporary;
    temporary.words = TABLE_WORDS;
    temporary.pattern = table.pattern;
    CHECK(cudaMalloc(&temporary.address, TABLE_WORDS * sizeof(unsigned)));
    linger_on(stream, A_WHILE);
    write_on(temporary, stream);
    CHECK(cudaMemcpyAsync(table.words, temporary.address, TABLE_WORDS * sizeof(unsigned), cudaMemcpyDeviceToDevice,
                          stream));
    verify_on(temporary, stream);
    CHECK(cudaFree(temporary.address));
    table.there = true;
}

// Pinned memory is read right behind the free of the block that was copied to it.
static void read_behind_free(std::mt19937 &random, cudaStream_t stream, unsigned *pinned, size_t words) {
    Block block;
    block.words = words;
    block.pattern = (unsigned)random();
    pinned[0] = pinned[words - 1] = ~block.pattern;
    CHECK(cudaMalloc(&block.address, words * sizeof(unsigned)));
    write_on(block, stream);
    linger_on(stream, A_WHILE);
    CHECK(cudaMemcpyAsync(pinned, block.address, words * sizeof(unsigned), cudaMemcpyDeviceToHost, stream));
    CHECK(cudaFree(block.address));
    const volatile unsigned *read = pinned;
    broken_on_host += read[0] != block.pattern || read[words - 1] != block.pattern + (unsigned)(words - 1);
    CHECK(cudaStreamSynchronize(stream));
}

// With an even seed the host reads nothing: where the library tells programs apart, that is another one.
void lean(const Plan &plan) {
    const bool host_reads = plan.seed % 2 != 0;
    Table table;
    Meeting meeting(plan.threads);
    std::atomic<bool> last{false};
    unsigned long long *differing;
    counter_make();
    CHECK(cudaMalloc(&differing, sizeof *differing));
    CHECK(cudaMemset(differing, 0, sizeof *differing));
    CHECK(cudaMalloc(&table.words, TABLE_WORDS * sizeof(unsigned)));
    CHECK(cudaDeviceSynchronize());
    in_threads(plan, plan.threads, [&](unsigned number, std::mt19937 &random) {
        const size_t words = 1 << 14;
        unsigned *pinned = nullptr;
        cudaStream_t stream;
        CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
        if (host_reads)
            CHECK(cudaHostAlloc(&pinned, words * sizeof(unsigned), cudaHostAllocDefault));
        for (;;) {
            meeting.wait();
            if (number == 0) {
                CHECK(cudaDeviceSynchronize());
                broken_on_device += count_device(differing) != 0;
                table.pattern = (unsigned)random();
                table.there = false;
                last = !plan.goes_on();
                rounds++;
            }
            meeting.wait();
            if (last)
                break;
            {
                std::lock_guard<std::mutex> hold(table.lock);
                if (!table.there)
                    make_table(table, stream);
            }
            // No synchronisation: the free that came behind the table has waited for it.
            expect_on({table.words, TABLE_WORDS, table.pattern}, differing, stream);
            CHECK(cudaStreamSynchronize(stream));
            if (host_reads && random() % 4 == 0)
                read_behind_free(random, stream, pinned, words);
        }
        CHECK(cudaFreeHost(pinned));
        CHECK(cudaStreamDestroy(stream));
    });
    CHECK(cudaFree(table.words));
    CHECK(cudaFree(differing));
    counter_take();
}
