/* The kernel of the thesis (listing 2.1): one thread computes one row of C.
 *
 * The thread forms dot products of A's row with columns of B, by merging two sorted lists of indices. B is transposed
 * beforehand. Two things differ from the listing: a dot product is summed in a register, not in C, and only columns
 * between the first and the last possible one are tried; B's rows give these. When the row's slots are used up, the
 * row stops at the next column that has a product, and resumes there in the next round (3.2).
 *
 * Cost: for each row, the tried columns x the length of both lists. That is far more than the intermediate products
 * unless rows have narrow column ranges. Memory: 4 bytes for each row, to resume.
 * Source: thesis, listing 2.1, sections 3.2 and 5.3 (one launch for all rounds). */
#include "spgemm/kernels.h"

#include <climits>
#include <cooperative_groups.h>

namespace {

constexpr int BLOCK = 128;

struct Problem {
    spg_operand a, b, by_columns;
    spg_target c;
    int32_t *resume;
};

struct Window {
    int32_t first, last;
};

__device__ Window window_of(const spg_operand &a, const spg_operand &b, int32_t row) {
    Window w = {INT_MAX, -1};
    for (int32_t k = a.offsets[row]; k < a.offsets[row + 1]; k++) {
        int32_t from = b.offsets[a.indices[k]], to = b.offsets[a.indices[k] + 1];
        if (from == to)
            continue;
        w.first = min(w.first, b.indices[from]);
        w.last = max(w.last, b.indices[to - 1]);
    }
    return w;
}

/* The dot product of A's row with column `column` of B. Returns whether it has a product at all. The symbolic phase
 * stops at the first one. */
template <typename T, bool NUMERIC> __device__ bool dot(const Problem &p, int32_t row, int32_t column, T *sum) {
    int32_t i = p.a.offsets[row], i_end = p.a.offsets[row + 1];
    int32_t j = p.by_columns.offsets[column], j_end = p.by_columns.offsets[column + 1];
    bool any = false;
    *sum = 0;
    while (i < i_end && j < j_end) {
        int32_t left = p.a.indices[i], right = p.by_columns.indices[j];
        if (left == right) {
            any = true;
            if (!NUMERIC)
                return true;
            *sum += static_cast<const T *>(p.a.values)[i] * static_cast<const T *>(p.by_columns.values)[j];
        }
        i += left <= right;
        j += right <= left;
    }
    return any;
}

/* Computes the row from where the round before stopped. `slot` is the slot of its next entry, `room` the number of free
 * slots, `count` the number of entries so far. Returns whether the row is finished. */
template <typename T, bool NUMERIC>
__device__ bool compute_row(const Problem &p, int32_t row, int64_t slot, int64_t room, int32_t count, bool resumed) {
    Window w = window_of(p.a, p.b, row);
    T sum;
    for (int32_t column = resumed ? p.resume[row] : w.first; column <= w.last; column++) {
        if (!dot<T, NUMERIC>(p, row, column, &sum))
            continue;
        if (NUMERIC) {
            if (room-- == 0) {
                p.resume[row] = column;
                p.c.size[row] = count + 1;
                return false;
            }
            p.c.columns[slot] = column;
            static_cast<T *>(p.c.values)[slot++] = sum;
        }
        count++;
    }
    p.c.size[row] = count;
    return true;
}

template <typename T, bool NUMERIC> __global__ void dot_rows(Problem p, const int32_t *list, int32_t rows) {
    int64_t item = static_cast<int64_t>(blockIdx.x) * BLOCK + threadIdx.x;
    if (item >= rows)
        return;
    int32_t row = list ? list[item] : static_cast<int32_t>(item);
    const spg_chunks &chunks = p.c.chunks;
    if (!chunks.size) {
        compute_row<T, NUMERIC>(p, row, NUMERIC ? p.c.start[row] : 0, INT64_MAX, 0, false);
        return;
    }
    int32_t before = chunks.rounds - 1;
    compute_row<T, NUMERIC>(p, row, (chunks.first[before] + item) * chunks.size, chunks.size, before * chunks.size,
                            before > 0);
}

/* Runs rounds until all rows are finished or the slots run out. Unfinished rows are listed in any order: this kernel
 * never searches a row's chunks. */
template <typename T>
__global__ void dot_rounds(Problem p, int32_t *owner, int64_t *first, int64_t slots, spg_progress *progress,
                           int32_t *unfinished) {
    cooperative_groups::grid_group grid = cooperative_groups::this_grid();
    int64_t thread = grid.thread_rank(), threads = grid.size();
    int32_t size = p.c.chunks.size, round = progress->rounds, rows = progress->rows;
    int64_t chunk = progress->first;
    while (rows && (chunk + rows) * size <= slots) {
        int32_t *unfinished_rows = owner + chunk + rows;
        for (int64_t item = thread; item < rows; item += threads) {
            int32_t row = owner[chunk + item];
            if (!compute_row<T, true>(p, row, (chunk + item) * size, size, round * size, round > 0))
                unfinished_rows[atomicAdd(&unfinished[round], 1)] = row;
        }
        grid.sync();
        chunk += rows;
        rows = *static_cast<volatile int32_t *>(&unfinished[round]);
        round++;
        if (thread == 0)
            first[round] = chunk;
    }
    /* No thread reads `progress` any more: either all threads have passed a grid synchronisation, or no round ran and
     * nothing is written. */
    if (thread == 0 && round != progress->rounds)
        *progress = {chunk, rows, round};
}

unsigned blocks_of(int64_t count) { return static_cast<unsigned>((count + BLOCK - 1) / BLOCK); }

template <typename T>
cudaError_t launch_persistent(Problem p, int32_t *owner, int64_t *first, int64_t slots, spg_progress *progress,
                              int32_t *unfinished, cudaStream_t stream) {
    int device = 0, processors = 0, blocks = 0;
    cudaError_t status = cudaGetDevice(&device);
    if (status == cudaSuccess)
        status = cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
    if (status == cudaSuccess)
        status = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, dot_rounds<T>, BLOCK, 0);
    if (status != cudaSuccess)
        return status;
    void *arguments[] = {&p, &owner, &first, &slots, &progress, &unfinished};
    return cudaLaunchCooperativeKernel(dot_rounds<T>, dim3(static_cast<unsigned>(processors * blocks)), dim3(BLOCK),
                                       arguments, 0, stream);
}

} // namespace

cudaError_t spg_launch_dots(spg_precision precision, const spg_operand *a, const spg_operand *b,
                            const spg_operand *by_columns, const int32_t *list, int32_t rows, const spg_target *c,
                            int32_t *resume, cudaStream_t stream) {
    Problem p = {*a, *b, *by_columns, *c, resume};
    if (!rows)
        return cudaSuccess;
    if (!c->values)
        dot_rows<float, false><<<blocks_of(rows), BLOCK, 0, stream>>>(p, list, rows);
    else if (precision == SPG_FLOAT)
        dot_rows<float, true><<<blocks_of(rows), BLOCK, 0, stream>>>(p, list, rows);
    else
        dot_rows<double, true><<<blocks_of(rows), BLOCK, 0, stream>>>(p, list, rows);
    return cudaGetLastError();
}

cudaError_t spg_launch_dots_persistent(spg_precision precision, const spg_operand *a, const spg_operand *b,
                                       const spg_operand *by_columns, const spg_target *c, int32_t *resume,
                                       int32_t *owner, int64_t *first, int64_t slots, spg_progress *progress,
                                       int32_t *unfinished, cudaStream_t stream) {
    Problem p = {*a, *b, *by_columns, *c, resume};
    if (precision == SPG_FLOAT)
        return launch_persistent<float>(p, owner, first, slots, progress, unfinished, stream);
    return launch_persistent<double>(p, owner, first, slots, progress, unfinished, stream);
}
