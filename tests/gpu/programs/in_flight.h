// What a kind of work in flight gets, and what it is made of.
#ifndef GPU_IN_FLIGHT_H
#define GPU_IN_FLIGHT_H

#include <cstddef>
#include <vector>

#include <cuda.h>
#include <cuda_runtime.h>

#include "../check.h"

static const unsigned HELD = 0x10000000, WRITTEN = 0x20000000; // word i of a block is one of these + i

struct Trial {
    unsigned *block; // of device 0; holds HELD when work is put in flight, and is freed behind that work
    size_t words;
    unsigned *target;                 // as many words on device 0 that live on
    unsigned *far_target;             // the same on device 1; NULL with one GPU
    unsigned *pageable, *pinned;      // the same of host memory; pinned is NULL until a kind takes it
    unsigned long long *wrong[2];     // of each device: words that work in flight found changed
    unsigned long long host_wrong;    // the same, found by check
    unsigned *done;                   // becomes 1 at the end of the work
    cudaStream_t stream, second, far; // non-blocking ones; `far` is device 1's
    long long cycles;                 // of a kernel that lingers
    void *own[4];                     // what prepare left for the others
};

// On stream: a kernel that takes some 20 ms; work that expects HELD in the block and leaves WRITTEN; the end of the
// work; all three.
void linger_on(const Trial &trial, cudaStream_t stream);
void use_on(const Trial &trial, cudaStream_t stream);
void end_on(const Trial &trial, cudaStream_t stream);
void work_on(const Trial &trial, cudaStream_t stream);
void fill_on(unsigned *words, size_t count, unsigned pattern, cudaStream_t stream);
// Work in flight expects these words to hold `pattern`.
void expect_on(const Trial &trial, const unsigned *words, unsigned pattern, cudaStream_t stream);
void expect_on_host(Trial &trial, const unsigned *words, unsigned pattern);

struct Kind {
    const char *name;
    const char *(*prepare)(Trial &trial); // what may take memory or wait; returns why there is no such kind, or NULL
    void (*launch)(Trial &trial);         // puts work in flight, without waiting for it
    void (*check)(Trial &trial);          // when all work is done; may be NULL
    void (*destroy)(Trial &trial);        // undoes prepare; may be NULL
    size_t bytes;                         // of the block
    int devices;
    bool managed;                  // the block is the program's own managed memory
    void (*free)(unsigned *block); // cudaFree, unless NULL
};

#ifdef SIM_TWINS
static const size_t LARGE = (size_t)1 << 20; // kernels run on the host
#else
static const size_t LARGE = (size_t)8 << 20; // a fence of its own in gpumem: more than a batch of frees may hold
#endif
static const size_t SMALL = 32 << 10; // pageable copies of so much are staged: the call returns before the copy

std::vector<Kind> stream_kinds();
std::vector<Kind> copy_kinds();
std::vector<Kind> graph_kinds();
std::vector<Kind> device_kinds();

// In prepare: an error says that there is none of this kind here.
#define NEED(call)                                  \
    do {                                            \
        const char *need_failed = error_text(call); \
        if (need_failed) {                          \
            (void)cudaGetLastError();               \
            return need_failed;                     \
        }                                           \
    } while (0)

static inline const char *error_text(cudaError_t error) { return error ? cudaGetErrorString(error) : nullptr; }
static inline const char *error_text(CUresult error) {
    const char *text = "unknown error";
    return error && cuGetErrorString(error, &text) ? "unknown error" : error ? text : nullptr;
}

#define MUST(call)                                                                           \
    do {                                                                                     \
        const char *must_failed = error_text(call);                                          \
        if (must_failed) {                                                                   \
            std::fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, must_failed); \
            std::exit(1);                                                                    \
        }                                                                                    \
    } while (0)

#endif
