/* Rows of a C of few columns (SPG_NARROW): B is tall and skinny. A row has a sum for each column, so nothing is
 * searched and nothing is sorted. A warp computes a row; a block computes a row of many intermediate products.
 *
 * 1. add: the threads of a warp take the entries of one row of B, whose columns differ, so additions are plain reads
 * and writes. The entries of several rows of B are read before the first one is added. The warps of a block take equal
 *    parts of A's row, and have sums of their own, which are added in the order of the warps. So C has the same bits in
 *    every run.
 * 2. Columns that occur are marked, a byte each. Votes of 32 columns count them and give their ranks.
 * 3. write: the entries come out in the order of columns.
 *
 * Cost: one addition in shared memory for each intermediate product, and a look at each column of C for each row.
 * Shared memory: a value and a byte for each column and warp. */
#include "spgemm/kernels.h"
#include "spgemm/operand.cuh"
#include "spgemm/spread.cuh"

namespace {

constexpr int WARPS = 8, BLOCK = 32 * WARPS;
constexpr int AHEAD = 4; /* rows of B that are read before the first one is added */

template <typename T> using Operand = spg_typed_operand<T>;

/* Memory of a warp: sums of the columns, which are `columns` or a few more, and marks. */
template <typename T> struct Room {
    T *sums;
    unsigned char *marks;

    __device__ Room(unsigned char *memory, int warp, int columns, bool numeric)
        : sums(reinterpret_cast<T *>(memory) + (numeric ? warp * columns : 0)),
          marks(memory + (numeric ? WARPS * columns * sizeof(T) : 0) + warp * columns) {}
};

/* An entry of A: its row of B, and its value. */
template <typename T> struct Term {
    T factor = 0;
    int32_t from = 0, length = 0;
};

template <typename T> __device__ T shuffled(T value, int lane) {
    if constexpr (sizeof(T) > 8) {
        return {__shfl_sync(~0u, value.re, lane), __shfl_sync(~0u, value.im, lane)};
    } else if constexpr (spg_has_value<T>) {
        return __shfl_sync(~0u, value, lane);
    } else {
        return value;
    }
}
template <> __device__ spg_complex<float> shuffled(spg_complex<float> value, int lane) {
    return {__shfl_sync(~0u, value.re, lane), __shfl_sync(~0u, value.im, lane)};
}

template <typename R> __device__ spg_min_plus<R> shuffled(spg_min_plus<R> value, int lane) {
    return spg_min_plus<R>::of(__shfl_sync(~0u, value.number, lane));
}

/* Adds entry number `at` of the term's row of B, for each thread that has one. */
template <typename T, bool NUMERIC> __device__ void add(const Room<T> &room, T factor, int32_t column, const T &value) {
    if (column >= 0) {
        if (NUMERIC)
            room.sums[column] = spg_plus_product(room.sums[column], factor, value);
        room.marks[column] = 1;
    }
    __syncwarp();
}

/* Adds the products of A's entries first to end - 1, by one warp. */
template <typename T, bool NUMERIC>
__device__ void add_all(const Operand<T> &a, const Operand<T> &b, int32_t first, int32_t end, const Room<T> &room) {
    int lane = threadIdx.x % 32;
    for (int32_t base = first; base < end; base += 32) {
        Term<T> mine;
        if (lane < end - base) {
            int32_t middle = a.indices[base + lane];
            mine.from = b.offsets[middle];
            mine.length = b.offsets[middle + 1] - mine.from;
            if (NUMERIC)
                mine.factor = spg_read_value(a.values, base + lane);
        }
        int here = static_cast<int>(min(end - base, 32));
        for (int j = 0; j < here; j += AHEAD) {
            int32_t from[AHEAD], length[AHEAD], column[AHEAD];
            T factor[AHEAD], value[AHEAD];
#pragma unroll
            for (int i = 0; i < AHEAD; i++) {
                /* Threads beyond the last entry of A have rows of no length. */
                from[i] = __shfl_sync(~0u, mine.from, j + i);
                length[i] = __shfl_sync(~0u, mine.length, j + i);
                factor[i] = NUMERIC ? shuffled(mine.factor, j + i) : T(0);
                column[i] = lane < length[i] ? b.indices[from[i] + lane] : -1;
                value[i] = NUMERIC && lane < length[i] ? spg_read_value(b.values, from[i] + lane) : T(0);
            }
#pragma unroll
            for (int i = 0; i < AHEAD; i++) {
                add<T, NUMERIC>(room, factor[i], column[i], value[i]);
                for (int32_t at = 32; at < length[i]; at += 32) {
                    int32_t l = from[i] + at + lane;
                    bool has = at + lane < length[i];
                    add<T, NUMERIC>(room, factor[i], has ? b.indices[l] : -1,
                                    NUMERIC && has ? spg_read_value(b.values, l) : T(0));
                }
            }
        }
    }
}

/* Writes the row, and returns its entries; `row` < 0: only counts. A warp calls it. */
template <typename T>
__device__ int write(const spg_target &c, int32_t row, const Room<T> &room, int columns, int64_t start,
                     int64_t first_extra) {
    int before = 0, lane = threadIdx.x % 32;
    for (int base = 0; base < columns; base += 32) {
        int column = base + lane;
        bool there = column < columns && room.marks[column];
        unsigned all = __ballot_sync(~0u, there);
        if (there && row >= 0) {
            int rank = before + __popc(all & ((1u << lane) - 1));
            int64_t slot = c.spread.size ? spg_spread_slot(&c.spread, start, first_extra, rank) : start + rank;
            c.columns[slot] = column;
            spg_write_value(static_cast<T *>(c.values), slot, room.sums[column]);
        }
        before += __popc(all);
    }
    return before;
}

/* Stores the size of the row and requests its extra chunks. Returns whether the row is written, in all threads. */
__device__ bool report(const spg_target &c, int32_t row, int count) {
    int written = 1;
    if (threadIdx.x % 32 == 0) {
        c.size[row] = count;
        if (c.values && c.spread.size && count > c.spread.size)
            written = spg_spread_request(c.spread, row, count);
    }
    return __shfl_sync(~0u, written, 0);
}

/* SHARED: the warps of a block share a row. */
template <typename T, bool NUMERIC, bool SHARED>
__global__ void __launch_bounds__(BLOCK)
    narrow_rows(Operand<T> a, Operand<T> b, const int32_t *list, int32_t rows, int columns, spg_target c) {
    extern __shared__ __align__(16) unsigned char memory[];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, padded = (columns + 15) / 16 * 16;
    int64_t item = static_cast<int64_t>(blockIdx.x) * (SHARED ? 1 : WARPS) + (SHARED ? 0 : warp);
    Room<T> room(memory, warp, padded, NUMERIC);
    for (int i = lane; i < padded; i += 32) {
        room.marks[i] = 0;
        if (NUMERIC)
            room.sums[i] = 0;
    }
    __syncwarp();
    if (item >= rows)
        return; /* a whole warp, of a block whose warps do not wait for each other */
    int32_t row = list[item], first = a.offsets[row], end = a.offsets[row + 1];
    if (SHARED) {
        int32_t each = ((end - first) / WARPS / 32 + 1) * 32;
        int64_t mine = first + static_cast<int64_t>(warp) * each;
        first = static_cast<int32_t>(min(mine, static_cast<int64_t>(end)));
        end = static_cast<int32_t>(min(mine + each, static_cast<int64_t>(end)));
    }
    add_all<T, NUMERIC>(a, b, first, end, room);
    if (SHARED) {
        __syncthreads();
        Room<T> all(memory, 0, padded, NUMERIC);
        for (int i = threadIdx.x; i < padded; i += BLOCK) {
            T sum = 0;
            unsigned char mark = 0;
            for (int w = 0; w < WARPS; w++) {
                if (NUMERIC)
                    sum += all.sums[w * padded + i];
                mark |= all.marks[w * padded + i];
            }
            all.marks[i] = mark;
            if (NUMERIC)
                all.sums[i] = sum;
        }
        __syncthreads();
        if (warp != 0)
            return;
    }
    int count = write(c, -1, room, columns, 0, 0);
    if (!report(c, row, count) || !NUMERIC)
        return;
    int64_t start = c.spread.size ? spg_first_chunk(&c.spread, row) : c.start[row];
    /* Thread 0 of the warp may have set it. */
    bool extra = c.spread.size && count > c.spread.size;
    write(c, row, room, columns, start, extra ? static_cast<volatile int32_t *>(c.spread.first_extra)[row] : 0);
}

template <typename T, bool NUMERIC, bool SHARED>
cudaError_t launch_rows(const spg_operand &a, const spg_operand &b, const int32_t *list, int32_t rows,
                        const spg_target &c, cudaStream_t stream) {
    size_t padded = (static_cast<size_t>(b.columns) + 15) / 16 * 16;
    size_t shared = WARPS * padded * ((NUMERIC ? sizeof(T) : 0) + 1);
    unsigned blocks = SHARED ? static_cast<unsigned>(rows) : static_cast<unsigned>((rows - 1) / WARPS + 1);
    cudaError_t status = cudaSuccess;
    if (shared > 48 * 1024)
        status = cudaFuncSetAttribute(narrow_rows<T, NUMERIC, SHARED>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                      static_cast<int>(shared));
    if (status != cudaSuccess)
        return status;
    narrow_rows<T, NUMERIC, SHARED>
        <<<blocks, BLOCK, shared, stream>>>(Operand<T>(a), Operand<T>(b), list, rows, b.columns, c);
    return cudaGetLastError();
}

template <typename T>
cudaError_t launch_numeric(bool shared, const spg_operand &a, const spg_operand &b, const int32_t *list, int32_t rows,
                           const spg_target &c, cudaStream_t stream) {
    return shared ? launch_rows<T, true, true>(a, b, list, rows, c, stream)
                  : launch_rows<T, true, false>(a, b, list, rows, c, stream);
}

} // namespace

cudaError_t spg_launch_narrow_rows(int bin, spg_precision precision, const spg_operand *a, const spg_operand *b,
                                   const int32_t *list, int32_t rows, const spg_target *c, cudaStream_t stream) {
    bool shared = bin >= SPG_WARP_BINS;
    if (!rows)
        return cudaSuccess;
    if (!c->values)
        return shared ? launch_rows<spg_pattern, false, true>(*a, *b, list, rows, *c, stream)
                      : launch_rows<spg_pattern, false, false>(*a, *b, list, rows, *c, stream);
    return SPG_BY_VALUE(precision, launch_numeric, shared, *a, *b, list, rows, *c, stream);
}
