/* Rows that may exceed the largest hash table, by ranges of columns. A task is a few consecutive ranges of one row; a
 * block of threads computes one task after the other, so the ranges of a long row are spread over the device.
 *
 * 1. Each thread finds the part of a row of B that lies in the range, by search; it remembers the end for the task's
 * next range if A's row has at most one entry for each thread. Parts without entries are dropped.
 * 2. Each warp takes a part and adds its products to a dense accumulator of the range in shared memory. A bit for each
 *    column marks it as occupied. The warps take turns in the order of A's entries (turns.cuh). A part's columns
 *    differ, so no atomic addition is needed, and sums are the same in every run.
 * 3. A prefix sum of bit counts numbers the columns. The entries before this range are known from the tasks of the same
 *    row before it: they have lower tickets, so they run already or have ended. The row comes out sorted.
 *
 * The symbolic phase (NUMERIC = false) has bits only, so its ranges are 32 times as wide. The last task of a row adds
 * up.
 *
 * Cost: the intermediate products, a binary search for each entry of A's row and each range, and SPG_RANGE slots to
 * clear and to scan for each range (spg_work_by_ranges). Memory: shared SPG_RANGE x (a value + 2 bits); global 8 bytes
 * for each row. */
#include "spgemm/kernels.h"
#include "spgemm/spread.cuh"
#include "spgemm/turns.cuh"

namespace {

constexpr int BLOCK = 512, WARPS = BLOCK / 32;
constexpr int AHEAD = 4; /* entries of B that a thread reads before it adds the first */
constexpr int TASKS = 8; /* of each block, at least, if there are so many ranges */
constexpr int WORDS = SPG_RANGE / 32, EACH = WORDS / 32;
static_assert(WORDS % 32 == 0, "one warp sums all words");

/* progress[item]: after the numeric tasks of `n` ranges, n << 33 | whether the row was denied << 32 | entries; in the
 * symbolic phase n << 32 | entries. */
using Progress = unsigned long long;
constexpr int NUMBER_AT = 33;
constexpr Progress DENIED = Progress{1} << 32;

/* Parts of rows of B within the range. */
template <typename T> struct Parts {
    int32_t from[BLOCK], length[BLOCK];
    T factor[BLOCK];
    int used[WARPS];
};

template <typename T, bool NUMERIC> struct Range {
    static constexpr int columns = NUMERIC ? SPG_RANGE : 32 * SPG_RANGE, words = columns / 32;
    T sums[NUMERIC ? columns : 1];
    unsigned occupied[words];        /* one bit for each column */
    int before[NUMERIC ? words : 1]; /* bits set in the words before this one */
    Parts<T> parts;
    Progress task;
    int count; /* bits set in all words */
    int turn, written;
    bool denied;
};

__device__ int32_t lower_bound(const int32_t *columns, int32_t from, int32_t to, int64_t column) {
    while (from < to) {
        int32_t middle = from + (to - from) / 2;
        if (columns[middle] < column)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
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

/* Finds the parts for entries first to first + BLOCK - 1 of A. Returns their number; parts stay in the order of A.
 * *cursor: where the thread's part begins, -1 = not known; then where it ends. */
template <typename T, bool NUMERIC>
__device__ int find_parts(Range<T, NUMERIC> &r, const spg_operand &a, const spg_operand &b, int32_t first, int32_t end,
                          int64_t low, int32_t *cursor) {
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, at = 0, total = 0;
    int32_t k = first + static_cast<int32_t>(threadIdx.x), from = 0, length = 0;
    if (k < end) {
        int32_t middle = a.indices[k], last = b.offsets[middle + 1];
        from = b.offsets[middle];
        if (*cursor >= 0)
            from = *cursor;
        else if (low > 0)
            from = lower_bound(b.indices, from, last, low);
        if (low + r.columns < b.columns)
            last = lower_bound_near(b.indices, from, last, low + r.columns);
        *cursor = last;
        length = last - from;
    }
    unsigned some = __ballot_sync(~0u, length > 0);
    if (lane == 0)
        r.parts.used[warp] = __popc(some);
    __syncthreads();
    for (int i = 0; i < WARPS; i++) {
        at += i < warp ? r.parts.used[i] : 0;
        total += r.parts.used[i];
    }
    at += __popc(some & ((1u << lane) - 1));
    if (length > 0) {
        r.parts.from[at] = from;
        r.parts.length[at] = length;
        if (NUMERIC)
            r.parts.factor[at] = static_cast<const T *>(a.values)[k];
    }
    __syncthreads();
    return total;
}

/* Adds one part's products; it is the block's turn number `mine`. */
template <typename T, bool NUMERIC>
__device__ void add_part(Range<T, NUMERIC> &r, const spg_operand &b, int part, int64_t low, int mine,
                         spg_order ordered) {
    int32_t from = r.parts.from[part], length = r.parts.length[part];
    T factor = NUMERIC ? r.parts.factor[part] : T(0);
    for (int32_t first = 0; first < length; first += 32 * AHEAD) {
        int position[AHEAD];
        T value[AHEAD], sum[AHEAD];
#pragma unroll
        for (int j = 0; j < AHEAD; j++) {
            int32_t l = first + 32 * j + static_cast<int32_t>(threadIdx.x % 32);
            position[j] = l < length ? static_cast<int>(b.indices[from + l] - low) : -1;
            if (NUMERIC && l < length)
                value[j] = static_cast<const T *>(b.values)[from + l];
        }
#pragma unroll
        for (int j = 0; j < AHEAD; j++)
            if (position[j] >= 0)
                atomicOr(&r.occupied[position[j] / 32], 1u << (position[j] % 32));
        if (!NUMERIC)
            continue;
        if (ordered && first == 0)
            spg_turn_wait(&r.turn, mine, ordered);
#pragma unroll
        for (int j = 0; j < AHEAD; j++)
            if (position[j] >= 0 && ordered)
                sum[j] = r.sums[position[j]];
#pragma unroll
        for (int j = 0; j < AHEAD; j++)
            if (position[j] >= 0 && ordered)
                r.sums[position[j]] = sum[j] + factor * value[j];
            else if (position[j] >= 0)
                atomicAdd(&r.sums[position[j]], factor * value[j]);
    }
    if (NUMERIC && ordered)
        spg_turn_pass(&r.turn, mine);
}

template <typename T, bool NUMERIC>
__device__ void add_products(Range<T, NUMERIC> &r, const spg_operand &a, const spg_operand &b, int32_t row, int64_t low,
                             int32_t *cursor, spg_order ordered) {
    int32_t end = a.offsets[row + 1];
    int turns = 0;
    for (int32_t first = a.offsets[row]; first < end; first += BLOCK) {
        if (end - a.offsets[row] > BLOCK)
            *cursor = -1;
        int parts = find_parts(r, a, b, first, end, low, cursor);
        for (int part = threadIdx.x / 32; part < parts; part += WARPS)
            add_part(r, b, part, low, turns + part, ordered);
        turns += parts;
        __syncthreads();
    }
}

/* Sets before[] and count from occupied[]; done by the first warp. */
template <typename T> __device__ void number(Range<T, true> &r) {
    int lane = threadIdx.x, sum = 0;
    if (threadIdx.x >= 32)
        return;
    for (int i = 0; i < EACH; i++)
        sum += __popc(r.occupied[lane * EACH + i]);
    int up_to = sum;
    for (int step = 1; step < 32; step *= 2) {
        int other = __shfl_up_sync(~0u, up_to, step);
        if (lane >= step)
            up_to += other;
    }
    if (lane == 31)
        r.count = up_to;
    int before = up_to - sum;
    for (int i = 0; i < EACH; i++) {
        r.before[lane * EACH + i] = before;
        before += __popc(r.occupied[lane * EACH + i]);
    }
}

/* Sets written and denied from the row's ranges before this one, and publishes this range; done by one thread. The
 * first range requests memory for the row. */
template <typename T>
__device__ void follow(Range<T, true> &r, const spg_target &c, int32_t row, int64_t range, int64_t ranges,
                       Progress *progress) {
    Progress state = 0;
    if (range == 0) {
        if (c.spread.size && c.size[row] > c.spread.size && !spg_spread_request(c.spread, row, c.size[row]))
            state = DENIED;
    } else {
        while (static_cast<int64_t>((state = *static_cast<volatile Progress *>(progress)) >> NUMBER_AT) != range)
            __nanosleep(20);
        __threadfence();
        state &= (Progress{1} << NUMBER_AT) - 1;
    }
    r.denied = (state & DENIED) != 0;
    r.written = static_cast<int>(state & (DENIED - 1));
    state += static_cast<Progress>(r.count);
    if (range == ranges - 1)
        c.size[row] = static_cast<int32_t>(state & (DENIED - 1));
    __threadfence();
    *static_cast<volatile Progress *>(progress) = static_cast<Progress>(range + 1) << NUMBER_AT | state;
}

template <typename T>
__device__ void write(Range<T, true> &r, const spg_target &c, int32_t row, int64_t low, bool extra) {
    T *values = static_cast<T *>(c.values);
    int size = c.spread.size;
    int64_t start = size ? spg_first_chunk(&c.spread, row) : c.start[row];
    /* Another block may have set it. */
    int64_t first_extra = extra ? static_cast<volatile int32_t *>(c.spread.first_extra)[row] : 0;
    for (int i = threadIdx.x; i < SPG_RANGE; i += BLOCK) {
        unsigned word = r.occupied[i / 32], bit = 1u << (i % 32);
        if (!(word & bit))
            continue;
        int32_t rank = r.written + r.before[i / 32] + __popc(word & (bit - 1));
        int64_t slot = size ? spg_spread_slot(&c.spread, start, first_extra, rank) : start + rank;
        c.columns[slot] = static_cast<int32_t>(low + i);
        values[slot] = r.sums[i];
        r.sums[i] = 0; /* for the next range */
    }
}

template <typename T, bool NUMERIC> __device__ void clear(Range<T, NUMERIC> &r) {
    for (int i = threadIdx.x; NUMERIC && i < r.columns; i += BLOCK)
        r.sums[i] = 0;
}

template <typename T>
__device__ void finish(Range<T, true> &r, const spg_target &c, int32_t row, int64_t range, int64_t ranges,
                       Progress *progress) {
    bool extra = c.spread.size && c.size[row] > c.spread.size;
    number(r);
    __syncthreads();
    if (threadIdx.x == 0)
        follow(r, c, row, range, ranges, progress);
    __syncthreads();
    if (r.denied)
        clear(r);
    else
        write(r, c, row, range * SPG_RANGE, extra);
}

template <typename T>
__device__ void finish(Range<T, false> &r, const spg_target &c, int32_t row, int64_t, int64_t ranges,
                       Progress *progress) {
    int sum = 0;
    for (int i = threadIdx.x; i < r.words; i += BLOCK)
        sum += __popc(r.occupied[i]);
    for (int step = 16; step > 0; step /= 2)
        sum += __shfl_xor_sync(~0u, sum, step);
    if (threadIdx.x % 32 == 0)
        atomicAdd(&r.count, sum);
    __syncthreads();
    if (threadIdx.x != 0)
        return;
    Progress before = atomicAdd(progress, Progress{1} << 32 | static_cast<Progress>(r.count));
    if (static_cast<int64_t>(before >> 32) != ranges - 1)
        return;
    int32_t entries = static_cast<int32_t>(before & (DENIED - 1)) + r.count;
    c.size[row] = entries;
    if (c.spread.size)
        spg_spread_defer_counted(c.spread, row, entries);
}

template <typename T, bool NUMERIC>
__device__ void range_of_row(Range<T, NUMERIC> &r, const spg_operand &a, const spg_operand &b, const spg_target &c,
                             int32_t row, int64_t range, int64_t ranges, Progress *progress, int32_t *cursor,
                             spg_order ordered) {
    if (threadIdx.x == 0)
        r.turn = r.count = 0;
    for (int i = threadIdx.x; i < r.words; i += BLOCK)
        r.occupied[i] = 0;
    __syncthreads();
    add_products(r, a, b, row, range * r.columns, cursor, ordered);
    finish(r, c, row, range, ranges, progress);
    __syncthreads();
}

/* A task has `each` ranges; a row has `tasks` tasks. */
template <typename T, bool NUMERIC>
__global__ void __launch_bounds__(BLOCK)
    range_rows(spg_operand a, spg_operand b, const int32_t *list, int32_t count, int64_t ranges, int64_t each,
               int64_t tasks, spg_target c, Progress *progress, spg_order ordered) {
    extern __shared__ __align__(16) unsigned char memory[];
    Range<T, NUMERIC> &r = *reinterpret_cast<Range<T, NUMERIC> *>(memory);
    clear(r);
    for (;;) {
        if (threadIdx.x == 0)
            r.task = atomicAdd(&progress[count], Progress{1});
        __syncthreads();
        int64_t item = static_cast<int64_t>(r.task) / tasks, range = static_cast<int64_t>(r.task) % tasks * each;
        int64_t end = min(range + each, ranges);
        int32_t cursor = -1;
        if (item >= count)
            return;
        for (; range < end; range++)
            range_of_row(r, a, b, c, list[item], range, ranges, &progress[item], &cursor, ordered);
    }
}

template <typename T, bool NUMERIC>
cudaError_t launch(const spg_operand &a, const spg_operand &b, const int32_t *list, int32_t rows, const spg_target &c,
                   Progress *progress, cudaStream_t stream) {
    using R = Range<T, NUMERIC>;
    int device = 0, processors = 0, blocks = 0;
    int64_t ranges = (static_cast<int64_t>(b.columns) + R::columns - 1) / R::columns;
    cudaError_t status = cudaFuncSetAttribute(range_rows<T, NUMERIC>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                              static_cast<int>(sizeof(R)));
    if (status == cudaSuccess)
        status = cudaGetDevice(&device);
    if (status == cudaSuccess)
        status = cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
    if (status == cudaSuccess)
        status = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, range_rows<T, NUMERIC>, BLOCK, sizeof(R));
    if (status == cudaSuccess)
        status = cudaMemsetAsync(progress, 0, (static_cast<size_t>(rows) + 1) * sizeof *progress, stream);
    if (status != cudaSuccess)
        return status;
    int64_t grid = static_cast<int64_t>(processors) * (blocks ? blocks : 1);
    /* Enough tasks for each block that the last ones end at about the same time. */
    int64_t each = rows * ranges / (grid * TASKS);
    each = each < 1 ? 1 : each < ranges ? each : ranges;
    int64_t tasks = (ranges + each - 1) / each;
    unsigned blocks_used = static_cast<unsigned>(rows * tasks < grid ? rows * tasks : grid);
    range_rows<T, NUMERIC><<<blocks_used, BLOCK, sizeof(R), stream>>>(a, b, list, rows, ranges, each, tasks, c,
                                                                      progress, spg_order_wanted());
    return cudaGetLastError();
}

} // namespace

cudaError_t spg_launch_ranges(spg_precision precision, const spg_operand *a, const spg_operand *b, const int32_t *list,
                              int32_t rows, const spg_target *c, unsigned long long *progress, cudaStream_t stream) {
    if (!rows)
        return cudaSuccess;
    if (!c->values)
        return launch<float, false>(*a, *b, list, rows, *c, progress, stream);
    if (precision == SPG_FLOAT)
        return launch<float, true>(*a, *b, list, rows, *c, progress, stream);
    return launch<double, true>(*a, *b, list, rows, *c, progress, stream);
}
