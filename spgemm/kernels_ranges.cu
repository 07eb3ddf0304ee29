/* Rows that may exceed the largest hash table. The columns of C are cut into segments; a task is one segment of one
 * row, so a long row is spread over several blocks of threads.
 *
 * 1. The block marks the columns that occur, a bit each, in shared memory. The symbolic phase (NUMERIC = false) counts
 *    the bits and ends here; the last task of a row adds up. Its segments are twice as wide.
 * 2. A prefix sum of bit counts gives each column its rank, so only columns that occur need a sum. The entries before
 *    this segment are known from the tasks of the same row before it: they have lower tickets, so they run already or
 *    have ended.
 * 3. Sums are added up in shared memory, WINDOW ranks at a time. The warps take turns (turns.cuh), so sums are the same
 *    in every run. A window's part of a row of B is found by binary search, if the segment has several windows.
 * 4. The columns of set bits and the sums are written. The row comes out sorted.
 *
 * Cost: the intermediate products twice, first only their columns; for each segment, a read of its bits; for each entry
 * of A's row, binary searches for each segment and window (spg_work_by_ranges). Memory: shared, 2 bits for each column
 * of a segment and WINDOW values; global, 8 bytes for each row. */
#include "spgemm/entries.cuh"
#include "spgemm/find.cuh"
#include "spgemm/kernels.h"
#include "spgemm/spread.cuh"
#include "spgemm/turns.cuh"
#include "spgemm/value.cuh"
#include "spgemm/warp.cuh"

namespace {

constexpr int BLOCK = 512, WARPS = BLOCK / 32;
template <typename T> constexpr int WINDOW = sizeof(T) > 8 ? 4096 : 8192; /* sums in shared memory */

/* progress[item]: after the numeric tasks of `n` segments, n << 33 | whether the row was denied << 32 | entries; in the
 * symbolic phase n << 32 | entries. */
using Progress = unsigned long long;
constexpr int NUMBER_AT = 33;
constexpr Progress DENIED = Progress{1} << 32;

template <typename T, bool NUMERIC> struct Segment {
    static constexpr int columns = NUMERIC ? SPG_SEGMENT : 2 * SPG_SEGMENT, words = columns / 32;
    T sums[NUMERIC ? WINDOW<T> : 1];
    unsigned occupied[words];        /* one bit for each column */
    int before[NUMERIC ? words : 1]; /* bits set in the words before this one */
    spg_terms<T, BLOCK> terms;
    int64_t border[SPG_SEGMENT / WINDOW<T> + 1]; /* first column of each window, and the end of the last one */
    Progress task;
    int counts[WARPS]; /* bits set in the words of each warp's threads */
    int written;
    bool denied;
};

/* One segment of one row. */
struct Task {
    int32_t row, first, end; /* entries of A */
    int64_t low, high;       /* columns */
};

__device__ int32_t lower_bound(const int32_t *columns, int32_t from, int32_t to, int64_t column) {
    return spg_first(from, to, [&](int32_t k) { return columns[k] >= column; });
}

/* The same, where the result is probably near `from`. */
__device__ int32_t lower_bound_near(const int32_t *columns, int32_t from, int32_t to, int64_t column) {
    int64_t step = 1;
    while (step < to - from && columns[from + step] < column) {
        from += static_cast<int32_t>(step);
        step *= 2;
    }
    return lower_bound(columns, from, static_cast<int32_t>(min(from + step, static_cast<int64_t>(to))), column);
}

/* The part of entry k's row of B with columns low to high - 1. from, end: a wider part; from = -1: none is known. */
__device__ void narrow(const spg_operand &a, const spg_operand &b, int32_t k, int64_t low, int64_t high, int32_t *from,
                       int32_t *end) {
    if (*from < 0) {
        spg_entries row = spg_entries_of(b, a.indices[k]);
        *from = row.first;
        *end = row.end;
    }
    if (low > 0)
        *from = lower_bound(b.indices, *from, *end, low);
    if (high < b.columns)
        *end = lower_bound_near(b.indices, *from, *end, high);
}

/* Stores the terms of BLOCK entries of A, from `first` on, for columns low to high - 1. Returns the number of turns. */
template <typename T, bool NUMERIC>
__device__ int set_terms(Segment<T, NUMERIC> &s, const spg_operand &a, const spg_operand &b, const Task &task,
                         int32_t first, int64_t low, int64_t high) {
    int32_t k = first + static_cast<int32_t>(threadIdx.x), from = -1, end = -1;
    T factor = 0;
    if (k < task.end) {
        narrow(a, b, k, low, high, &from, &end);
        if (NUMERIC)
            factor = spg_read_value(static_cast<const T *>(a.values), k);
    }
    return spg_terms_set(s.terms, from, end, factor);
}

template <typename T, bool NUMERIC>
__device__ void mark(Segment<T, NUMERIC> &s, const spg_operand &b, int turns, int64_t low) {
    int at = 0;
    for (int number = threadIdx.x / 32; number < turns; number += WARPS) {
        spg_turn<T> turn = spg_turn_at(s.terms, number, &at);
        int column[SPG_AHEAD];
#pragma unroll
        for (int j = 0; j < SPG_AHEAD; j++) {
            int32_t l = turn.from + 32 * j + static_cast<int32_t>(threadIdx.x % 32);
            column[j] = l < turn.end ? static_cast<int>(b.indices[l] - low) : -1;
        }
#pragma unroll
        for (int j = 0; j < SPG_AHEAD; j++)
            if (static_cast<unsigned>(column[j]) < s.columns) /* others lie there if the row is not sorted */
                atomicOr(&s.occupied[column[j] / 32], 1u << (column[j] % 32));
    }
}

/* Marks all columns of the task that occur. Returns the number of turns of the last terms that were stored. */
template <typename T, bool NUMERIC>
__device__ int mark_all(Segment<T, NUMERIC> &s, const spg_operand &a, const spg_operand &b, const Task &task) {
    int turns = 0;
    for (int i = threadIdx.x; i < s.words; i += BLOCK)
        s.occupied[i] = 0;
    for (int32_t first = task.first; first < task.end; first += BLOCK) {
        turns = set_terms(s, a, b, task, first, task.low, task.high);
        mark(s, b, turns, task.low);
        __syncthreads();
    }
    return turns;
}

/* Adds the products of the terms to the sums of the window that begins with rank `base`. */
template <typename T> __device__ void add(Segment<T, true> &s, const spg_operand &b, int turns, int64_t low, int base) {
    int at = 0, warps = spg_turn_warps<true>(WARPS);
    if (static_cast<int>(threadIdx.x / 32) >= warps)
        return;
    for (int number = threadIdx.x / 32; number < turns; number += warps) {
        spg_turn<T> turn = spg_turn_at(s.terms, number, &at);
        int rank[SPG_AHEAD];
        T value[SPG_AHEAD], sum[SPG_AHEAD];
#pragma unroll
        for (int j = 0; j < SPG_AHEAD; j++) {
            int32_t l = turn.from + 32 * j + static_cast<int32_t>(threadIdx.x % 32);
            rank[j] = l < turn.end ? static_cast<int>(b.indices[l] - low) : -1;
            value[j] = l < turn.end ? spg_read_value(static_cast<const T *>(b.values), l) : T(0);
        }
#pragma unroll
        for (int j = 0; j < SPG_AHEAD; j++) {
            if (static_cast<unsigned>(rank[j]) < s.columns) {
                unsigned lower = s.occupied[rank[j] / 32] & ((1u << (rank[j] % 32)) - 1);
                rank[j] = s.before[rank[j] / 32] + __popc(lower) - base;
            }
            if (rank[j] >= WINDOW<T>)
                rank[j] = -1;
        }
        spg_turn_wait<true>(&s.terms.turn, number);
#pragma unroll
        for (int j = 0; j < SPG_AHEAD; j++)
            sum[j] = rank[j] >= 0 ? s.sums[rank[j]] : T(0);
#pragma unroll
        for (int j = 0; j < SPG_AHEAD; j++)
            if (rank[j] >= 0)
                s.sums[rank[j]] = spg_plus_product(sum[j], turn.factor, value[j]);
        spg_turn_pass<true>(&s.terms.turn, number, turns);
    }
}

/* Sets before[] and the borders of windows from occupied[]. Returns the number of bits. */
template <typename T> __device__ int number(Segment<T, true> &s, const Task &task) {
    constexpr int each = Segment<T, true>::words / BLOCK; /* words of a thread */
    int first = static_cast<int>(threadIdx.x) * each, sum = 0, total = 0;
    for (int i = 0; i < each; i++)
        sum += __popc(s.occupied[first + i]);
    int up_to = spg_sum_up_to<32>(sum);
    if (threadIdx.x % 32 == 31)
        s.counts[threadIdx.x / 32] = up_to;
    __syncthreads();
    int before = up_to - sum;
    for (int i = 0; i < WARPS; i++) {
        before += i < static_cast<int>(threadIdx.x / 32) ? s.counts[i] : 0;
        total += s.counts[i];
    }
    for (int i = 0; i < each; i++) {
        unsigned word = s.occupied[first + i];
        s.before[first + i] = before;
        int start = (before + WINDOW<T> - 1) / WINDOW<T> * WINDOW<T>; /* rank of the next window's first entry */
        if (start < before + __popc(word)) {
            for (int skip = start - before; skip > 0; skip--)
                word &= word - 1;
            s.border[start / WINDOW<T>] = task.low + 32 * (first + i) + __ffs(static_cast<int>(word)) - 1;
        }
        before += __popc(s.occupied[first + i]);
    }
    if (threadIdx.x == 0)
        s.border[(total + WINDOW<T> - 1) / WINDOW<T>] = task.high;
    return total;
}

/* Sets written and denied from the row's segments before this one, and publishes this one; done by one thread. The
 * first segment requests memory for the row. */
template <typename T>
__device__ void follow(Segment<T, true> &s, const spg_target &c, int32_t row, int count, int32_t most, int64_t segment,
                       int64_t segments, Progress *progress) {
    Progress state = 0;
    if (segment == 0) {
        if (c.spread.size && c.size[row] > c.spread.size && !spg_spread_request(c.spread, row, c.size[row]))
            state = DENIED;
    } else {
        while (static_cast<int64_t>((state = *static_cast<volatile Progress *>(progress)) >> NUMBER_AT) != segment)
            __nanosleep(20);
        __threadfence();
        state &= (Progress{1} << NUMBER_AT) - 1;
    }
    s.denied = (state & DENIED) != 0;
    s.written = static_cast<int>(state & (DENIED - 1));
    state += static_cast<Progress>(count);
    if (segment == segments - 1)
        c.size[row] = min(static_cast<int32_t>(state & (DENIED - 1)), most);
    __threadfence();
    *static_cast<volatile Progress *>(progress) = static_cast<Progress>(segment + 1) << NUMBER_AT | state;
}

/* Where the row's entries lie in C. */
struct Place {
    const spg_target &c;
    int32_t most; /* entries for which there is memory */
    int64_t start, first_extra;

    __device__ Place(const spg_target &target, int32_t row, int32_t slots, bool extra)
        : c(target), most(slots), start(target.spread.size ? spg_first_chunk(&target.spread, row) : target.start[row]),
          /* Another block may have set it. */
          first_extra(extra ? static_cast<volatile int32_t *>(target.spread.first_extra)[row] : 0) {}

    __device__ int64_t slot(int32_t rank) const {
        return c.spread.size ? spg_spread_slot(&c.spread, start, first_extra, rank) : start + rank;
    }
};

template <typename T> __device__ void write_columns(const Segment<T, true> &s, const Place &to, int64_t low) {
    for (int i = threadIdx.x; i < s.words; i += BLOCK) {
        int rank = s.written + s.before[i];
        for (unsigned left = s.occupied[i]; left && rank < to.most; left &= left - 1)
            to.c.columns[to.slot(rank++)] = static_cast<int32_t>(low + 32 * i + __ffs(static_cast<int>(left)) - 1);
    }
}

/* Computes and writes the sums of one window. `stored`: its terms are stored already, with so many turns; -1: not. */
template <typename T>
__device__ void window(Segment<T, true> &s, const spg_operand &a, const spg_operand &b, const Task &task, int number,
                       int count, int stored, const Place &to) {
    int base = number * WINDOW<T>, here = min(count - base, WINDOW<T>);
    for (int i = threadIdx.x; i < here; i += BLOCK)
        s.sums[i] = 0;
    if (stored >= 0) {
        __syncthreads();
        add(s, b, stored, task.low, base);
        __syncthreads();
    }
    for (int32_t first = task.first; stored < 0 && first < task.end; first += BLOCK) {
        int turns = set_terms(s, a, b, task, first, s.border[number], s.border[number + 1]);
        add(s, b, turns, task.low, base);
        __syncthreads();
    }
    for (int i = threadIdx.x; i < here && s.written + base + i < to.most; i += BLOCK)
        spg_write_value(static_cast<T *>(to.c.values), to.slot(s.written + base + i), s.sums[i]);
    __syncthreads();
}

template <typename T>
__device__ void compute(Segment<T, true> &s, const spg_operand &a, const spg_operand &b, const spg_target &c,
                        const Task &task, int64_t segment, int64_t segments, Progress *progress) {
    /* A spread has room for the exact size. */
    int32_t most = c.spread.size ? c.size[task.row] : spg_most_of_row(c, task.row, INT32_MAX);
    bool extra = c.spread.size && most > c.spread.size;
    int turns = mark_all(s, a, b, task), count = number(s, task);
    if (threadIdx.x == 0)
        follow(s, c, task.row, count, most, segment, segments, progress);
    __syncthreads();
    if (s.denied)
        return;
    Place to(c, task.row, most, extra);
    write_columns(s, to, task.low);
    bool kept = task.end - task.first <= BLOCK && count <= WINDOW<T>;
    for (int i = 0; i * WINDOW<T> < count; i++)
        window(s, a, b, task, i, count, kept ? turns : -1, to);
}

template <typename T>
__device__ void compute(Segment<T, false> &s, const spg_operand &a, const spg_operand &b, const spg_target &c,
                        const Task &task, int64_t, int64_t segments, Progress *progress) {
    int sum = 0;
    mark_all(s, a, b, task);
    for (int i = threadIdx.x; i < s.words; i += BLOCK)
        sum += __popc(s.occupied[i]);
    for (int step = 16; step > 0; step /= 2)
        sum += __shfl_xor_sync(~0u, sum, step);
    if (threadIdx.x % 32 == 0)
        s.counts[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x != 0)
        return;
    for (int i = 1; i < WARPS; i++)
        sum += s.counts[i];
    Progress before = atomicAdd(progress, Progress{1} << 32 | static_cast<Progress>(sum));
    if (static_cast<int64_t>(before >> 32) != segments - 1)
        return;
    int32_t entries = static_cast<int32_t>(before & (DENIED - 1)) + sum;
    c.size[task.row] = entries;
    if (c.spread.size)
        spg_spread_defer_counted(c.spread, task.row, entries);
}

template <typename T, bool NUMERIC>
__global__ void __launch_bounds__(BLOCK, 2) range_rows(spg_operand a, spg_operand b, const int32_t *list, int32_t count,
                                                       int64_t segments, spg_target c, Progress *progress) {
    extern __shared__ __align__(16) unsigned char memory[];
    Segment<T, NUMERIC> &s = *reinterpret_cast<Segment<T, NUMERIC> *>(memory);
    for (;;) {
        if (threadIdx.x == 0)
            s.task = atomicAdd(&progress[count], Progress{1});
        __syncthreads();
        int64_t item = static_cast<int64_t>(s.task) / segments, segment = static_cast<int64_t>(s.task) % segments;
        if (item >= count)
            return;
        int32_t row = list[item];
        int64_t low = segment * s.columns;
        spg_entries entries = spg_entries_of(a, row);
        Task task = {row, entries.first, entries.end, low, min(low + s.columns, static_cast<int64_t>(b.columns))};
        compute(s, a, b, c, task, segment, segments, &progress[item]);
        __syncthreads();
    }
}

template <typename T, bool NUMERIC>
cudaError_t launch(const spg_operand &a, const spg_operand &b, const int32_t *list, int32_t rows, const spg_target &c,
                   Progress *progress, cudaStream_t stream) {
    using S = Segment<T, NUMERIC>;
    int device = 0, processors = 0, blocks = 0;
    int64_t segments = (static_cast<int64_t>(b.columns) + S::columns - 1) / S::columns;
    cudaError_t status = cudaFuncSetAttribute(range_rows<T, NUMERIC>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                              static_cast<int>(sizeof(S)));
    if (status == cudaSuccess)
        status = cudaGetDevice(&device);
    if (status == cudaSuccess)
        status = cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
    if (status == cudaSuccess)
        status = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, range_rows<T, NUMERIC>, BLOCK, sizeof(S));
    if (status == cudaSuccess)
        status = cudaMemsetAsync(progress, 0, (static_cast<size_t>(rows) + 1) * sizeof *progress, stream);
    if (status != cudaSuccess)
        return status;
    int64_t grid = static_cast<int64_t>(processors) * (blocks ? blocks : 1), tasks = rows * segments;
    range_rows<T, NUMERIC><<<static_cast<unsigned>(tasks < grid ? tasks : grid), BLOCK, sizeof(S), stream>>>(
        a, b, list, rows, segments, c, progress);
    return cudaGetLastError();
}

template <typename T>
cudaError_t launch_numeric(const spg_operand &a, const spg_operand &b, const int32_t *list, int32_t rows,
                           const spg_target &c, Progress *progress, cudaStream_t stream) {
    return launch<T, true>(a, b, list, rows, c, progress, stream);
}

} // namespace

cudaError_t spg_launch_ranges(spg_precision precision, const spg_operand *a, const spg_operand *b, const int32_t *list,
                              int32_t rows, const spg_target *c, unsigned long long *progress, cudaStream_t stream) {
    if (!rows)
        return cudaSuccess;
    if (!c->values)
        return launch<float, false>(*a, *b, list, rows, *c, progress, stream);
    return SPG_BY_VALUE(precision, launch_numeric, *a, *b, list, rows, *c, progress, stream);
}
