// Allocation with work of the card in flight.
#include "bench.h"

#include <algorithm>

namespace {

const size_t MIB = 1 << 20;
const int BURST = 48;

__global__ void work(float *block, int count, int passes) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    float value = block[i];
    for (int pass = 0; pass < passes; pass++)
        value = value * 0.999f + 1;
    block[i] = value;
}

__global__ void linger(long long nanoseconds) {
    long long begin, now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
    do
        asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    while (now - begin < nanoseconds);
}

// Ends when the host raises the flag, or after 200 ms: a full launch queue must not hang.
__global__ void gate(volatile int *flag) {
    long long begin, now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
    do
        asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    while (!*flag && now - begin < 200000000);
}

void kernels_alone(void *block, int passes, int n) {
    for (int i = 0; i < n; i++)
        launch_work(block, MIB, passes);
    CHECK(cudaDeviceSynchronize());
}

void kernels_on_fresh_blocks(int passes, int n) {
    allocator contender = bench.contender;
    for (int i = 0; i < n; i++) {
        void *block = contender.allocate(MIB);
        launch_work(block, MIB, passes);
        contender.release(block);
    }
    CHECK(cudaDeviceSynchronize());
}

// Streams whose queues hold about a millisecond of short kernels each, released at once.
class busy_streams {
  public:
    explicit busy_streams(int count) : streams(count) {
        for (auto &stream : streams)
            CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
        CHECK(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
        CHECK(cudaEventCreateWithFlags(&opened, cudaEventDisableTiming));
        CHECK(cudaHostAlloc((void **)&flag, sizeof(*flag), cudaHostAllocMapped));
    }
    void start() {
        *flag = 0;
        gate<<<1, 1, 0, first>>>(flag);
        CHECK(cudaEventRecord(opened, first));
        for (auto stream : streams) {
            CHECK(cudaStreamWaitEvent(stream, opened, 0));
            for (int i = 0; i < 20; i++)
                linger<<<1, 1, 0, stream>>>(50000);
        }
        *flag = 1;
    }
    bool still_busy() {
        bool busy = false;
        for (auto stream : streams)
            busy |= cudaStreamQuery(stream) == cudaErrorNotReady;
        return busy;
    }
    ~busy_streams() {
        CHECK(cudaDeviceSynchronize());
        for (auto stream : streams)
            CHECK(cudaStreamDestroy(stream));
        CHECK(cudaStreamDestroy(first));
        CHECK(cudaEventDestroy(opened));
        CHECK(cudaFreeHost((void *)flag));
    }

  private:
    std::vector<cudaStream_t> streams;
    cudaStream_t first;
    cudaEvent_t opened;
    volatile int *flag;
};

} // namespace

void launch_work(void *block, size_t bytes, int passes) {
    int count = (int)(bytes / sizeof(float));
    if (count)
        work<<<(count + 255) / 256, 256>>>((float *)block, count, passes);
}

int calibrate(double nanoseconds) {
    float *block;
    CHECK(cudaMalloc((void **)&block, MIB));
    int low = 1, high = 4096;
    while (low < high) {
        int middle = (low + high) / 2;
        std::vector<double> times;
        for (int i = 0; i < 5; i++) {
            double begin = now();
            kernels_alone(block, middle, 1000);
            times.push_back((now() - begin) / 1000);
        }
        if (*std::min_element(times.begin(), times.end()) < nanoseconds)
            low = middle + 1;
        else
            high = middle;
    }
    CHECK(cudaFree(block));
    return low;
}

// The same loop with a lasting block and with a fresh one each time, at a kernel that ends before the next launch, and
// at a longer one.
void kernel_rows() {
    if (!wanted("kernel-") && !wanted("loop-"))
        return;
    void *lasting;
    CHECK(cudaMalloc(&lasting, MIB));
    for (bool longer : {false, true})
        if (int passes = longer ? bench.passes : 1) {
            std::string which = longer ? "long" : "short";
            measure({{"kernel-" + which, 2000, [=](int n) { kernels_alone(lasting, passes, n); }},
                     {"loop-" + which, 2000, [=](int n) { kernels_on_fresh_blocks(passes, n); }, MIB}});
        }
    CHECK(cudaFree(lasting));
}

// Host time of one free while a kernel of 1 ms runs; `busy=` says in how many samples that kernel still ran when the
// free returned.
void free_behind_row() {
    if (!wanted("free-behind-1ms"))
        return;
    std::vector<double> times;
    int busy = 0;
    for (int i = -3; i < bench.samples; i++) {
        void *block = bench.contender.allocate(MIB);
        linger<<<1, 1>>>(1000000);
        double begin = now();
        bench.contender.release(block);
        double taken = now() - begin;
        if (i >= 0) {
            times.push_back(taken);
            busy += cudaStreamQuery(0) == cudaErrorNotReady;
        }
        CHECK(cudaDeviceSynchronize());
    }
    print_times("free-behind-1ms", 1, times, " busy=" + std::to_string(busy));
}

// 48 pairs of 1 MiB in a row, fewer than the 64 MiB that a cache may keep waiting. `busy=` as above: 0 means the
// contender waited.
void busy_rows() {
    for (int count : {1, 16, 100}) {
        std::string name = "busy-streams:" + std::to_string(count);
        if (!wanted(name))
            continue;
        bench.contender.trim();
        busy_streams streams(count);
        std::vector<double> times;
        int busy = 0;
        for (int i = -2; i < bench.samples; i++) {
            streams.start();
            double begin = now();
            for (int k = 0; k < BURST; k++)
                bench.contender.release(bench.contender.allocate(MIB));
            double taken = (now() - begin) / BURST;
            if (i >= 0) {
                times.push_back(taken);
                busy += streams.still_busy();
            }
            CHECK(cudaDeviceSynchronize());
        }
        print_times(name, BURST, times, " busy=" + std::to_string(busy));
    }
}

// A pair whose block a kernel writes for the first time: where pages move at first touch, this is where it shows.
void first_touch_rows() {
    for (size_t bytes : {MIB, 32 * MIB}) {
        measure({{"first-touch:" + std::to_string(bytes), 0, [=](int n) {
                      for (int i = 0; i < n; i++) {
                          void *block = bench.contender.allocate(bytes);
                          launch_work(block, bytes, 1);
                          CHECK(cudaStreamSynchronize(0));
                          bench.contender.release(block);
                      }
                  }}});
    }
}

void managed_first_touch_rows() {
    for (size_t bytes : {MIB, 32 * MIB})
        measure({{"managed-first-touch:" + std::to_string(bytes), 0, [=](int n) {
                      for (int i = 0; i < n; i++) {
                          void *block;
                          CHECK(cudaMallocManaged(&block, bytes));
                          launch_work(block, bytes, 1);
                          CHECK(cudaStreamSynchronize(0));
                          CHECK(cudaFree(block));
                      }
                  }}});
}
