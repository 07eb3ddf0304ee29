/* Steps 3 and 4 of kernels_table.cu: the used slots of a row's table are sorted by their columns, and written to C.
 * S: the Shape of table_insert.cuh. */
#ifndef SPG_TABLE_SORT_CUH
#define SPG_TABLE_SORT_CUH

#include "spgemm/entries.cuh"
#include "spgemm/kernels.h"
#include "spgemm/network.cuh"
#include "spgemm/spread.cuh"
#include "spgemm/warp.cuh"

namespace {

/* The number of a used table slot: number i of the thread. */
template <typename S, typename KEY = uint32_t> __device__ KEY number_of(int32_t column, int i) {
    return (static_cast<KEY>(column) << S::log2_slots | threadIdx.x % S::threads) + i * S::threads;
}

/* Replaces the table's columns by the numbers of its used slots, for a group inside a warp. Returns how many these are.
 */
template <typename S> __device__ int gather(int32_t *table, uint32_t *numbers) {
    const int thread = threadIdx.x % S::threads;
    int32_t column[S::each];
    int used = S::each;
#pragma unroll
    for (int i = 0; i < S::each; i++) {
        column[i] = table[i * S::threads + thread];
        used += column[i] >> 31; /* SPG_EMPTY is negative */
    }
    int up_to = spg_sum_up_to<S::threads>(used);
    __syncwarp();
    uint32_t *to = numbers + (up_to - used);
#pragma unroll
    for (int i = 0; i < S::each; i++) {
        if (column[i] >= 0)
            to[i] = number_of<S>(column[i], i);
        to += column[i] >> 31;
    }
    __syncwarp();
    return __shfl_sync(~0u, up_to, S::threads - 1, S::threads);
}

/* Sorts the numbers of gather() with the smallest network that holds those of each row of the warp: K numbers a thread,
 * where SMALLER were too few. */
template <typename S, int K = S::each / (S::large ? 2 : 4), int SMALLER = 0>
__device__ void sort_gathered(uint32_t *sorted, int count) {
    if constexpr (K < S::each)
        if (!__all_sync(~0u, count <= K * S::threads)) {
            constexpr int larger = K < 6 ? K + 1 : K < 8 ? 8 : K + 4;
            sort_gathered<S, larger, K>(sorted, count);
            return;
        }
    uint32_t key[K];
#pragma unroll
    for (int i = 0; i < K; i++) {
        int at = i * S::threads + static_cast<int>(threadIdx.x % S::threads);
        key[i] = (S::lanes == 32 && i < SMALLER) || at < count ? sorted[at] : ~0u;
    }
    spg_network<S::threads, K>::sort(key, sorted);
}

/* Sets before[] from the marks. Returns the number of bits that are set. */
template <int THREADS> __device__ int count_marks(Marks<THREADS> &marks) {
    constexpr int PARTS = MARK_WORDS / 4;
    static_assert(MARK_WORDS == 8, "a thread stores before[] at once");
    const int thread = threadIdx.x, lane = thread % 32;
    uint4 part[PARTS];
    int count[MARK_WORDS], sum = 0;
#pragma unroll
    for (int i = 0; i < PARTS; i++) {
        part[i] = reinterpret_cast<const uint4 *>(marks.bits)[thread * PARTS + i];
        count[4 * i] = __popc(part[i].x);
        count[4 * i + 1] = __popc(part[i].y);
        count[4 * i + 2] = __popc(part[i].z);
        count[4 * i + 3] = __popc(part[i].w);
    }
#pragma unroll
    for (int i = 0; i < MARK_WORDS; i++)
        sum += count[i];
    int up_to = spg_sum_up_to<32>(sum);
    if (lane == 31)
        marks.sums[thread / 32] = up_to;
    __syncthreads();
    int warps_up_to = spg_sum_up_to<32>(lane < THREADS / 32 ? marks.sums[lane % (THREADS / 32)] : 0);
    int before = __shfl_sync(~0u, warps_up_to, (thread / 32 + 31) % 32);
    before = (thread < 32 ? 0 : before) + up_to - sum;
    uint32_t two[4];
#pragma unroll
    for (int i = 0; i < MARK_WORDS; i++) {
        two[i / 2] = i % 2 ? two[i / 2] | static_cast<uint32_t>(before) << 16 : static_cast<uint32_t>(before);
        before += count[i];
    }
    reinterpret_cast<uint4 *>(marks.before)[thread] = {two[0], two[1], two[2], two[3]};
    __syncthreads();
    return __shfl_sync(~0u, warps_up_to, 31);
}

/* Replaces the table's columns by the sorted numbers of its used slots, for a block. The rank of a column is the number
 * of marks before its own. Marks hold a part of the columns at a time. Does nothing and returns false if the row's
 * columns need too many parts. */
template <typename S, typename KEY>
__device__ bool sort_by_marks(const int32_t *table, KEY *sorted, Marks<S::threads> &marks) {
    constexpr int MOST_PARTS = 10; /* a network takes about as long */
    constexpr unsigned COLUMNS = Marks<S::threads>::columns;
    const int thread = threadIdx.x;
    int32_t column[S::each], least = INT32_MAX, most = -1;
    if (thread == 0) {
        marks.least = INT32_MAX;
        marks.most = -1;
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < S::each; i++) {
        column[i] = table[i * S::threads + thread];
        least = min(least, column[i] >= 0 ? column[i] : INT32_MAX);
        most = max(most, column[i]);
    }
    least = -__reduce_max_sync(~0u, -least);
    most = __reduce_max_sync(~0u, most);
    if (thread % 32 == 0) {
        atomicMin(&marks.least, least);
        atomicMax(&marks.most, most);
    }
    __syncthreads();
    int64_t left = int64_t{marks.most} - marks.least;
    unsigned first = static_cast<unsigned>(marks.least);
    if (left >= int64_t{MOST_PARTS} * COLUMNS)
        return false;
    for (int done = 0; left >= 0; left -= COLUMNS, first += COLUMNS) {
        for (int i = 0; i < MARK_WORDS / 4; i++)
            reinterpret_cast<uint4 *>(marks.bits)[i * S::threads + thread] = {0, 0, 0, 0};
        __syncthreads();
#pragma unroll
        for (int i = 0; i < S::each; i++) {
            unsigned at = static_cast<unsigned>(column[i]) - first;
            if (column[i] >= 0 && at < COLUMNS)
                atomicOr(&marks.bits[at / 32], 1u << at % 32);
        }
        __syncthreads();
        int here = count_marks(marks);
#pragma unroll
        for (int i = 0; i < S::each; i++) {
            unsigned at = static_cast<unsigned>(column[i]) - first;
            if (column[i] >= 0 && at < COLUMNS) {
                unsigned lower = marks.bits[at / 32] & ((1u << at % 32) - 1);
                sorted[done + marks.before[at / 32] + __popc(lower)] = number_of<S, KEY>(column[i], i);
            }
        }
        done += here;
        __syncthreads();
    }
    return true;
}

/* The same by a network. The rest of the memory holds larger numbers. */
template <typename S> __device__ void sort_all(int32_t *table, uint32_t *sorted) {
    uint32_t key[S::each];
#pragma unroll
    for (int i = 0; i < S::each; i++) {
        int32_t column = table[i * S::threads + static_cast<int>(threadIdx.x)];
        key[i] = column == SPG_EMPTY ? ~0u : number_of<S>(column, i);
    }
    spg_network<S::threads, S::each>::sort(key, sorted);
}

template <typename S> __device__ void sort_all(int32_t *table, uint64_t *sorted) {
    int thread = threadIdx.x % S::threads;
    int32_t column[S::each];
#pragma unroll
    for (int i = 0; i < S::each; i++)
        column[i] = table[i * S::threads + thread];
    spg_row_sync<S::threads>();
#pragma unroll
    for (int i = 0; i < S::each; i++) {
        sorted[i * S::threads + thread] = column[i] == SPG_EMPTY ? ~uint64_t{0} : number_of<S, uint64_t>(column[i], i);
    }
    for (int run = 2; run <= S::slots; run *= 2) {
        for (int stride = run / 2; stride > 0; stride /= 2) {
            spg_row_sync<S::threads>();
            for (int pair = thread; pair < S::slots / 2; pair += S::threads) {
                int low = (pair & ~(stride - 1)) * 2 | (pair & (stride - 1));
                if (low & run)
                    spg_order_pair(sorted[low + stride], sorted[low]);
                else
                    spg_order_pair(sorted[low], sorted[low + stride]);
            }
        }
    }
    spg_row_sync<S::threads>();
}

/* Replaces the table's columns by the sorted numbers of its used slots. */
template <typename S, typename KEY> __device__ void sort(int32_t *table, KEY *sorted, void *memory) {
    if constexpr (S::whole)
        if (sort_by_marks<S>(table, sorted, *static_cast<Marks<S::threads> *>(memory)))
            return;
    sort_all<S>(table, sorted);
}

/* Writes the entries of ranks `from` to `to` - 1 of a sorted row to the slots of their ranks, from `slot` on. */
template <typename T, typename S, typename KEY>
__device__ void write_ranks(const spg_target &c, int64_t slot, int from, int to, const KEY *sorted, const T *sums) {
    int32_t *columns = c.columns + slot;
    T *values = static_cast<T *>(c.values) + slot;
#pragma unroll 4
    for (int rank = from + static_cast<int>(threadIdx.x % S::threads); rank < to; rank += S::threads) {
        KEY key = sorted[rank];
        columns[rank] = static_cast<int32_t>(key >> S::log2_slots);
        spg_write_value(values, rank, sums[key & (S::slots - 1)]);
    }
}

/* Writes the sorted row to its slots. */
template <typename T, typename S, typename KEY>
__device__ void write(const spg_target &c, int32_t row, const KEY *sorted, const T *sums, int count) {
    const spg_spread &spread = c.spread;
    if (!spread.size) {
        write_ranks<T, S>(c, c.start[row], 0, spg_most_of_row(c, row, count), sorted, sums);
        return;
    }
    int inside = min(count, spread.size);
    write_ranks<T, S>(c, spg_spread_slot(&spread, spg_first_chunk(&spread, row), 0, 0), 0, inside, sorted, sums);
    if (inside < count)
        write_ranks<T, S>(c, spg_spread_slot(&spread, 0, spread.first_extra[row], inside) - inside, inside, count,
                          sorted, sums);
}

} // namespace

#endif
