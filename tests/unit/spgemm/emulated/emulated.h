/* An emulation of CUDA for spgemm's kernels on the host: the parts of the language and the device functions that they
 * use.
 *
 * The threads of a block are fibers. Each runs until its next barrier, then another one runs. Blocks run one after the
 * other; the blocks of a cooperative launch run together. So tests check a kernel's results, its indices and its
 * barriers, but not data races. The program ends when a thread never reaches a barrier of its group. */
#pragma once

#include <climits>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <cuda_runtime_api.h>
#include <functional>
#include <utility>

/* The runtime's headers define these as attributes that the host compiler does not know. */
#undef __global__
#undef __device__
#undef __shared__
#define __global__
#define __device__
#define __shared__ static
#undef __launch_bounds__
#define __launch_bounds__(...)

struct EmulatedIndex {
    unsigned x;
};
extern EmulatedIndex emulated_grid, emulated_thread, emulated_block; /* of the thread that runs */
#define threadIdx emulated_thread
#define blockIdx  emulated_block
#define gridDim   emulated_grid

void emulated_run(unsigned grid, unsigned block, size_t shared, bool together, const std::function<void()> &kernel);
void emulated_submit(cudaStream_t stream, const std::function<void()> &work);
unsigned char *emulated_shared();
const uint64_t *emulated_exchange(unsigned mask,
                                  uint64_t mine); /* values of all lanes; waits for the lanes of the mask */
void emulated_grid_sync();
void __syncthreads();

template <typename F, typename... A>
void emulated_launch(unsigned grid, unsigned block, size_t shared, cudaStream_t stream, const F &kernel,
                     A... arguments) {
    emulated_submit(stream, [=] { emulated_run(grid, block, shared, false, [=] { kernel(arguments...); }); });
}

inline unsigned emulated_lane() { return threadIdx.x % 32; }
inline void __syncwarp(unsigned mask = ~0u) { emulated_exchange(mask, 0); }
inline unsigned __ballot_sync(unsigned mask, int value) {
    const uint64_t *all = emulated_exchange(mask, value != 0);
    unsigned bits = 0;
    for (unsigned i = 0; i < 32; i++)
        bits |= mask >> i & 1 && all[i] ? 1u << i : 0;
    return bits;
}
template <typename T> uint64_t emulated_bits(T value) {
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof value);
    return bits;
}
template <typename T> T emulated_value(uint64_t bits) {
    T value;
    memcpy(&value, &bits, sizeof value);
    return value;
}
template <typename T> T __shfl_sync(unsigned mask, T value, int lane, int width = 32) {
    unsigned from = emulated_lane() / width * width + static_cast<unsigned>(lane) % width;
    return emulated_value<T>(emulated_exchange(mask, emulated_bits(value))[from]);
}
template <typename T> T __shfl_xor_sync(unsigned mask, T value, int lanes) {
    unsigned from = emulated_lane() ^ static_cast<unsigned>(lanes);
    return emulated_value<T>(emulated_exchange(mask, emulated_bits(value))[from]);
}
template <typename T> T __shfl_up_sync(unsigned mask, T value, int lanes) {
    unsigned lane = emulated_lane(), by = static_cast<unsigned>(lanes);
    return emulated_value<T>(emulated_exchange(mask, emulated_bits(value))[lane < by ? lane : lane - by]);
}
inline bool __any_sync(unsigned mask, int value) { return __ballot_sync(mask, value) != 0; }
inline bool __all_sync(unsigned mask, int value) { return __ballot_sync(mask, value) == mask; }
inline int __ffs(int bits) { return __builtin_ffs(bits); }
inline int __popc(unsigned bits) { return __builtin_popcount(bits); }
inline int __popcll(unsigned long long bits) { return __builtin_popcountll(bits); }

template <typename T> T min(T a, T b) { return b < a ? b : a; }
template <typename T> T max(T a, T b) { return a < b ? b : a; }
template <typename T, typename Join> T emulated_reduce(unsigned mask, T value, T start, const Join &join) {
    const uint64_t *all = emulated_exchange(mask, emulated_bits(value));
    for (unsigned i = 0; i < 32; i++)
        start = mask >> i & 1 ? join(start, emulated_value<T>(all[i])) : start;
    return start;
}
inline unsigned __reduce_add_sync(unsigned mask, unsigned value) {
    return emulated_reduce(mask, value, 0u, [](unsigned a, unsigned b) { return a + b; });
}
inline unsigned __reduce_or_sync(unsigned mask, unsigned value) {
    return emulated_reduce(mask, value, 0u, [](unsigned a, unsigned b) { return a | b; });
}
inline int __reduce_max_sync(unsigned mask, int value) {
    return emulated_reduce(mask, value, value, [](int a, int b) { return max(a, b); });
}
template <typename T, typename V> T atomicAdd(T *at, V value) {
    T was = *at;
    *at += static_cast<T>(value);
    return was;
}
inline unsigned atomicExch(unsigned *at, unsigned value) { return std::exchange(*at, value); }
inline void __threadfence() {}
inline void __threadfence_block() {}
void __nanosleep(unsigned); /* lets other threads run: a thread that waits for another one must call it */
template <typename T> T atomicOr(T *at, T value) {
    T was = *at;
    *at |= value;
    return was;
}
template <typename T> T atomicMin(T *at, T value) {
    T was = *at;
    *at = min(was, value);
    return was;
}
template <typename T> T atomicMax(T *at, T value) {
    T was = *at;
    *at = max(was, value);
    return was;
}

/* ---- templates of the runtime */

template <typename F> cudaError_t cudaFuncSetAttribute(F *, cudaFuncAttribute, int) { return cudaSuccess; }
template <typename F> cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, F *, int, size_t) {
    *blocks = 2;
    return cudaSuccess;
}
template <typename... A, size_t... I>
void emulated_apply(void (*kernel)(A...), void **arguments, std::index_sequence<I...>) {
    kernel(*static_cast<A *>(arguments[I])...);
}
template <typename... A>
cudaError_t cudaLaunchCooperativeKernel(void (*kernel)(A...), dim3 grid, dim3 block, void **arguments, size_t shared,
                                        cudaStream_t) {
    emulated_run(grid.x, block.x, shared, true,
                 [=] { emulated_apply(kernel, arguments, std::index_sequence_for<A...>()); });
    return cudaSuccess;
}
