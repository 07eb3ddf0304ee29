/* Looks at a whole matrix:
 *
 * - check: offsets ascend from 0 to the number of entries; columns are in range, ascend, and are unique in each row.
 *   The offsets are checked first, because the columns are found by them. Cost: one read of offsets and columns.
 * - hash: a number of 64 bits for the pattern, a sum of mixed pairs (place, number), so the order of threads does not
 *   matter. Two patterns of equal sizes have the same number with a chance of about 2^-64. Cost: as check. */
#include "spgemm/kernels.h"
#include "spgemm/random.h"

#include <algorithm>

namespace {

constexpr int BLOCK = 256;
constexpr int64_t BLOCKS = 4096; /* at most */

unsigned blocks_of(int64_t threads) { return static_cast<unsigned>(std::min((threads + BLOCK - 1) / BLOCK, BLOCKS)); }

__device__ void report(spg_flaws *flaws, int32_t row) {
    if (row < *static_cast<volatile int32_t *>(&flaws->row))
        atomicMin(&flaws->row, row);
}

/* O: int32_t or int64_t. */
template <typename O>
__global__ void __launch_bounds__(BLOCK) check_offsets(spg_operand m, const O *offsets, spg_flaws *flaws) {
    int64_t step = static_cast<int64_t>(gridDim.x) * BLOCK;
    for (int64_t i = static_cast<int64_t>(blockIdx.x) * BLOCK + threadIdx.x; i <= m.rows; i += step) {
        int64_t before = i ? offsets[i - 1] : 0, here = offsets[i];
        if (here < before || (i == 0 && here != 0) || (i == m.rows && here != m.stored) || here > m.stored)
            report(flaws, static_cast<int32_t>(i ? i - 1 : 0));
    }
}

/* A warp takes a row. Nothing is read if an offset is wrong. */
template <typename O>
__global__ void __launch_bounds__(BLOCK)
    check_columns(spg_operand m, const O *offsets, const spg_flaws *of_offsets, spg_flaws *flaws) {
    if (of_offsets->row != INT32_MAX)
        return;
    int64_t step = static_cast<int64_t>(gridDim.x) * BLOCK / 32;
    for (int64_t row = (static_cast<int64_t>(blockIdx.x) * BLOCK + threadIdx.x) / 32; row < m.rows; row += step) {
        int64_t begin = offsets[row], end = offsets[row + 1];
        for (int64_t k = begin + threadIdx.x % 32; k < end; k += 32) {
            int32_t column = m.indices[k];
            if (column < 0 || column >= m.columns || (k > begin && m.indices[k - 1] >= column))
                report(flaws, static_cast<int32_t>(row));
        }
    }
}

__global__ void __launch_bounds__(BLOCK) hash_pattern(spg_operand m, unsigned long long *hash) {
    int64_t step = static_cast<int64_t>(gridDim.x) * BLOCK, count = m.rows + int64_t{1} + m.stored;
    unsigned long long sum = 0;
    for (int64_t i = static_cast<int64_t>(blockIdx.x) * BLOCK + threadIdx.x; i < count; i += step) {
        int32_t number = i <= m.rows ? m.offsets[i] : m.indices[i - m.rows - 1];
        sum += spg_random_at(static_cast<uint32_t>(number), static_cast<uint64_t>(i));
    }
    for (int lanes = 16; lanes > 0; lanes /= 2)
        sum += __shfl_xor_sync(~0u, sum, lanes);
    if (threadIdx.x % 32 == 0)
        atomicAdd(hash, sum);
}

template <typename O>
cudaError_t launch_check(const spg_operand &m, const O *offsets, bool columns, spg_flaws *flaws, cudaStream_t stream) {
    check_offsets<O><<<blocks_of(static_cast<int64_t>(m.rows) + 1), BLOCK, 0, stream>>>(m, offsets, &flaws[0]);
    if (columns && m.stored && m.rows)
        check_columns<O>
            <<<blocks_of(static_cast<int64_t>(m.rows) * 32), BLOCK, 0, stream>>>(m, offsets, &flaws[0], &flaws[1]);
    return cudaGetLastError();
}

} // namespace

cudaError_t spg_launch_check(const spg_operand *m, const int64_t *wide, bool columns, spg_flaws flaws[2],
                             cudaStream_t stream) {
    return wide ? launch_check(*m, wide, columns, flaws, stream)
                : launch_check(*m, static_cast<const int32_t *>(m->offsets), columns, flaws, stream);
}

cudaError_t spg_launch_hash(const spg_operand *m, unsigned long long *hash, cudaStream_t stream) {
    hash_pattern<<<blocks_of(static_cast<int64_t>(m->rows) + 1 + m->stored), BLOCK, 0, stream>>>(*m, hash);
    return cudaGetLastError();
}
