// What the rows of tools/bench/alloc and the replayer share: error check, clock, spread of samples, true use of the
// card's memory, and the allocator that a run measures.
#ifndef GPUMEM_BENCH_H
#define GPUMEM_BENCH_H

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

// Ends the program: 77 without a GPU, else 1.
#define CHECK(call)                                                                                 \
    do {                                                                                            \
        cudaError_t error = (call);                                                                 \
        if (error != cudaSuccess) {                                                                 \
            std::fprintf(stderr, "bench: %s: %s\n", #call, cudaGetErrorString(error));              \
            std::exit(error == cudaErrorNoDevice || error == cudaErrorInsufficientDriver ? 77 : 1); \
        }                                                                                           \
    } while (0)

// The contender inside this process. Policies of the preloaded library are measured through `native`.
struct allocator {
    void *(*allocate)(size_t bytes); // ends the program on failure
    void (*release)(void *block);
    void (*trim)(); // gives back what is kept; the card is idle afterwards
    bool plain;     // cudaMalloc and cudaFree themselves
};

// "native", "async" (cudaMallocAsync on the default stream, from a pool that keeps what is freed), or the path of a
// library that exports bench_allocate, bench_release and bench_trim. Ends the program for anything else.
allocator find_allocator(const std::string &name);

struct options {
    allocator contender;
    std::vector<std::string> rows; // prefixes of the rows wanted; empty = all
    int samples = 11;
    int passes = 0;      // of the longer kernel, see calibrate()
    bool memory = false; // measure memory in use as well, in an untimed pass
};
extern options bench;

double now(); // nanoseconds

// Bytes of the card in use, all processes together, from NVML: no library in this process stands between. 0 where NVML
// is not known.
size_t card_used();
bool card_known();

// Largest card_used() seen by a thread of its own between construction and stop(). Never runs beside a timed sample.
class sampler {
  public:
    sampler();
    ~sampler();
    size_t stop();
    int count() const; // samples so far

  private:
    struct state;
    state *shared;
};

struct row {
    std::string name;
    int repetitions;               // a sample; 0 = as many as fill about two milliseconds, at least `least`
    std::function<void(int)> body; // runs that many repetitions
    size_t live = 0;               // most bytes live at once; 0 = no memory figures
    int least = 4;
    std::function<size_t()> probe; // where set: card_used() at its highest, found in a slow pass of its own
    std::function<void()> before;  // where set: runs before each sample, untimed
    size_t used = 0; // card_used() before the row took its first blocks; 0: it takes none before measure()
};

// Samples the rows in turn, so that figures that are compared saw the same machine. Prints a line for each:
// name, repetitions, nanoseconds a repetition as min, median, max; with --memory `live=` and `reserved=` in bytes: the
// most in use beyond what was in use before the first row took a block.
void measure(const std::vector<row> &rows);
bool wanted(const std::string &name);
void print_times(const std::string &name, int repetitions, std::vector<double> times, const std::string &more = "");

// A kernel on the default stream that reads and writes the first `bytes` of the block, `passes` operations an element.
void launch_work(void *block, size_t bytes, int passes);

// Rows, by file.
void pair_rows();
void thread_rows();
void mixed_rows();
void pattern_rows();
void managed_rows();
void kernel_rows();
void free_behind_row();
void busy_rows();
void first_touch_rows();
void managed_first_touch_rows();
void thrust_rows();
int calibrate(double nanoseconds); // passes of the longer kernel that take so long

#endif
