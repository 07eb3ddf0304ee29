/* Cohen's estimator of nnz(C) (estimate.h), one thread for each key of a row.
 *
 * draw: an exponential key for each column of B and key number. reach: minima over each row of B. estimate: minima of
 * those over each row of A, then (keys - 1) / their sum, added up over all rows. Cost: keys x (nnz(A) + nnz(B)) reads.
 * Memory: 4 bytes x keys x (rows and columns of B). */
#include "spgemm/estimate.h"
#include "spgemm/kernels.h"
#include "spgemm/random.h"

#include <cmath>

namespace {

constexpr int BLOCK = 256, KEYS = SPG_COHEN_KEYS;
static_assert(KEYS <= 32 && 32 % KEYS == 0, "the keys of a row are in one warp");

__global__ void __launch_bounds__(BLOCK) draw(uint64_t seed, int64_t count, float *drawn) {
    int64_t i = static_cast<int64_t>(blockIdx.x) * BLOCK + threadIdx.x;
    if (i < count)
        drawn[i] = static_cast<float>(-log(spg_unit_at(seed, static_cast<uint64_t>(i))));
}

/* Minimum of the thread's key over the row's entries. */
__device__ float minimum(const spg_operand &m, int64_t row, const float *from) {
    float least = INFINITY;
    for (int32_t k = m.offsets[row]; k < m.offsets[row + 1]; k++)
        least = fminf(least, from[static_cast<int64_t>(m.indices[k]) * KEYS + threadIdx.x % KEYS]);
    return least;
}

__global__ void __launch_bounds__(BLOCK) reach(spg_operand b, const float *drawn, float *reached) {
    int64_t i = static_cast<int64_t>(blockIdx.x) * BLOCK + threadIdx.x;
    if (i / KEYS < b.rows)
        reached[i] = minimum(b, i / KEYS, drawn);
}

__global__ void __launch_bounds__(BLOCK) estimate(spg_operand a, const float *reached, double *total) {
    int64_t row = (static_cast<int64_t>(blockIdx.x) * BLOCK + threadIdx.x) / KEYS;
    double sum = static_cast<double>(row < a.rows ? minimum(a, row, reached) : INFINITY);
    for (int step = KEYS / 2; step > 0; step /= 2)
        sum += __shfl_xor_sync(~0u, sum, step);
    double entries = (KEYS - 1) / sum; /* 0 for a row that reaches no column */
    /* One addition for each warp. All threads of a row hold its estimate. */
    for (int step = KEYS; step < 32; step *= 2)
        entries += __shfl_xor_sync(~0u, entries, step);
    if (threadIdx.x % 32 == 0 && entries > 0)
        atomicAdd(total, entries);
}

unsigned blocks_of(int64_t threads) { return static_cast<unsigned>((threads + BLOCK - 1) / BLOCK); }

} // namespace

cudaError_t spg_launch_cohen(const spg_operand *a, const spg_operand *b, uint64_t seed, float *drawn, float *reached,
                             double *total, cudaStream_t stream) {
    int64_t keys = static_cast<int64_t>(b->columns) * KEYS;
    if (!a->stored || !b->stored)
        return cudaSuccess;
    draw<<<blocks_of(keys), BLOCK, 0, stream>>>(seed, keys, drawn);
    reach<<<blocks_of(static_cast<int64_t>(b->rows) * KEYS), BLOCK, 0, stream>>>(*b, drawn, reached);
    estimate<<<blocks_of(static_cast<int64_t>(a->rows) * KEYS), BLOCK, 0, stream>>>(*a, reached, total);
    return cudaGetLastError();
}
