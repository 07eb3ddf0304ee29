/* Kernels that cut the rows of a product into slabs, and change the width of row offsets.
 *
 * - even_cuts: one thread for each cut searches the row where its share of the work begins. A row costs its
 *   intermediate products and one more, so rows without products are shared evenly, too.
 * - limited_cuts: one thread makes slabs of as many rows as a limit allows. A longer row is a slab of its own. There
 * are few slabs, because the limit is near 2^31.
 * - narrow, widen: offsets of a slab with 32 bits begin with 0, those of the whole matrix have 64 bits. */
#include "spgemm/find.cuh"
#include "spgemm/kernels.h"

namespace {

constexpr int BLOCK = 256;

unsigned blocks_of(int64_t threads) { return static_cast<unsigned>((threads + BLOCK - 1) / BLOCK); }

/* The first row in low to high whose sum of costs before it is at least `wanted`; high if there is none. */
__device__ int32_t first_row(const int64_t *start, int32_t low, int32_t high, int64_t wanted, int64_t row_cost) {
    return spg_first(low, high, [&](int32_t row) { return start[row] + row_cost * row >= wanted; });
}

__global__ void __launch_bounds__(BLOCK) even_cuts(const int64_t *start, int32_t rows, int32_t parts, int32_t *cut) {
    int32_t i = static_cast<int32_t>(blockIdx.x * BLOCK + threadIdx.x);
    if (i > parts)
        return;
    int64_t total = start[rows] + rows;
    /* total * i may exceed 64 bits. */
    int64_t wanted = total / parts * i + total % parts * i / parts;
    cut[i] = i == parts ? rows : first_row(start, 0, rows, wanted, 1);
}

__global__ void limited_cuts(const int64_t *start, int32_t rows, int64_t most, int32_t *cut, int32_t *parts) {
    int32_t at = 0, count = 0;
    cut[0] = 0;
    while (at < rows) {
        int32_t next = first_row(start, at + 1, rows, start[at] + most + 1, 0);
        /* Row `next` is the first with more before it than the limit, so the slab ends before the row that reaches it.
         */
        at = start[next] - start[at] <= most || next == at + 1 ? next : next - 1;
        cut[++count] = at;
    }
    *parts = count;
}

__global__ void __launch_bounds__(BLOCK) narrow(const int64_t *from, int64_t base, int64_t count, int32_t *to) {
    int64_t i = static_cast<int64_t>(blockIdx.x) * BLOCK + threadIdx.x;
    if (i < count)
        to[i] = static_cast<int32_t>(from[i] - base);
}

__global__ void __launch_bounds__(BLOCK) widen(const int32_t *from, int64_t base, int64_t count, int64_t *to) {
    int64_t i = static_cast<int64_t>(blockIdx.x) * BLOCK + threadIdx.x;
    if (i < count)
        to[i] = from[i] + base;
}

} // namespace

cudaError_t spg_launch_even_cuts(const int64_t *start, int32_t rows, int32_t parts, int32_t *cut, cudaStream_t stream) {
    even_cuts<<<blocks_of(static_cast<int64_t>(parts) + 1), BLOCK, 0, stream>>>(start, rows, parts, cut);
    return cudaGetLastError();
}

cudaError_t spg_launch_limited_cuts(const int64_t *start, int32_t rows, int64_t most, int32_t *cut, int32_t *parts,
                                    cudaStream_t stream) {
    limited_cuts<<<1, 1, 0, stream>>>(start, rows, most, cut, parts);
    return cudaGetLastError();
}

cudaError_t spg_launch_narrow(const int64_t *from, int64_t base, int64_t count, int32_t *to, cudaStream_t stream) {
    if (count)
        narrow<<<blocks_of(count), BLOCK, 0, stream>>>(from, base, count, to);
    return cudaGetLastError();
}

cudaError_t spg_launch_widen(const int32_t *from, int64_t base, int64_t count, int64_t *to, cudaStream_t stream) {
    if (count)
        widen<<<blocks_of(count), BLOCK, 0, stream>>>(from, base, count, to);
    return cudaGetLastError();
}
