/* Rows that may exceed the largest hash table: one block computes a row by ranges of SPG_RANGE columns.
 *
 * The block holds a dense accumulator of one range in shared memory, and a bit for each column that occurs. Each entry
 * of A's row has a cursor into its row of B, so every intermediate product is made once. After a range, the block
 * numbers the occurring columns by a prefix sum of bit counts and writes them: the row comes out sorted. Ranges without
 * products are skipped, because every warp reports the next column that it saw.
 *
 * Cost: the intermediate products, plus SPG_RANGE slots to clear and to scan for each range that occurs. Memory: shared
 * SPG_RANGE x (a value + 1 bit); global 4 bytes for each entry of A (cursors). */
#include "spgemm/kernels.h"
#include "spgemm/spread.cuh"

#include <climits>

namespace {

constexpr int BLOCK = 512, WARPS = BLOCK / 32, WORDS = SPG_RANGE / 32;
static_assert(WORDS % 32 == 0, "one warp sums all words");

template <typename T> struct Range {
    T sums[SPG_RANGE];
    unsigned occupied[WORDS]; /* one bit for each column */
    int before[WORDS];        /* bits set in the words before this one */
    int count, low;           /* bits set in all words; first column of the next range */
};

/* Sets the row's cursors, and r.low to the first column. */
template <typename T>
__device__ void start_row(Range<T> &r, const spg_operand &a, const spg_operand &b, int32_t row, int32_t *cursor) {
    int low = INT_MAX;
    if (threadIdx.x == 0)
        r.low = INT_MAX;
    __syncthreads();
    for (int32_t k = a.offsets[row] + threadIdx.x; k < a.offsets[row + 1]; k += BLOCK) {
        int32_t at = b.offsets[a.indices[k]];
        cursor[k] = at;
        if (at < b.offsets[a.indices[k] + 1])
            low = min(low, b.indices[at]);
    }
    atomicMin(&r.low, low);
    __syncthreads();
}

/* Adds the products of columns low to low + SPG_RANGE - 1, one warp for each entry of A, and advances the cursors.
 * Returns the first column after the range that this warp saw. */
template <typename T, bool NUMERIC>
__device__ int add_products(Range<T> &r, const spg_operand &a, const spg_operand &b, int32_t row, int low,
                            int32_t *cursor) {
    int lane = threadIdx.x % 32, next = INT_MAX;
    for (int32_t k = a.offsets[row] + threadIdx.x / 32; k < a.offsets[row + 1]; k += WARPS) {
        int32_t end = b.offsets[a.indices[k] + 1], at = cursor[k];
        T factor = NUMERIC ? static_cast<const T *>(a.values)[k] : T(0);
        unsigned inside;
        int32_t column;
        do {
            column = lane < end - at ? b.indices[at + lane] : INT_MAX;
            /* No column is below `low`, so the difference does not overflow. */
            bool mine = column != INT_MAX && column - low < SPG_RANGE;
            if (mine) {
                int position = column - low;
                atomicOr(&r.occupied[position / 32], 1u << (position % 32));
                if (NUMERIC)
                    atomicAdd(&r.sums[position], factor * static_cast<const T *>(b.values)[at + lane]);
            }
            inside = __ballot_sync(~0u, mine);
            at += __popc(inside);
        } while (inside == ~0u);
        /* Columns ascend: the first one outside the range follows the last one inside. */
        next = min(next, __shfl_sync(~0u, column, __popc(inside)));
        __syncwarp();
        if (lane == 0)
            cursor[k] = at;
    }
    return next;
}

/* Sets before[] and count from occupied[]; done by the first warp. */
template <typename T> __device__ void number(Range<T> &r) {
    int lane = threadIdx.x, sum = 0;
    constexpr int EACH = WORDS / 32;
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

template <typename T>
__device__ void write(const Range<T> &r, const spg_target &c, int32_t row, int low, int32_t written) {
    T *values = static_cast<T *>(c.values);
    int size = c.spread.size;
    int64_t start = size ? spg_first_chunk(&c.spread, row) : c.start[row];
    int64_t first_extra = size && c.size[row] > size ? c.spread.first_extra[row] : 0;
    for (int i = threadIdx.x; i < SPG_RANGE; i += BLOCK) {
        unsigned word = r.occupied[i / 32], bit = 1u << (i % 32);
        if (!(word & bit))
            continue;
        int32_t rank = written + r.before[i / 32] + __popc(word & (bit - 1));
        int64_t slot = size ? spg_spread_slot(&c.spread, start, first_extra, rank) : start + rank;
        c.columns[slot] = low + i;
        values[slot] = r.sums[i];
    }
}

/* A row's chunks can be requested only when all of its entries are counted. So the row is computed later. */
__device__ void defer(const spg_spread &spread, int32_t row, int32_t entries) {
    if (!entries)
        return;
    unsigned long long chunks = static_cast<unsigned long long>(spg_extra_chunks(entries, spread.size));
    atomicAdd(&spread.chunk_counts->counted, chunks);
    spg_spread_defer(spread, row);
}

template <typename T, bool NUMERIC>
__global__ void __launch_bounds__(BLOCK)
    range_rows(spg_operand a, spg_operand b, const int32_t *list, int32_t count, spg_target c, int32_t *cursor) {
    extern __shared__ __align__(16) unsigned char memory[];
    Range<T> &r = *reinterpret_cast<Range<T> *>(memory);
    __shared__ bool denied;
    for (int32_t item = blockIdx.x; item < count; item += gridDim.x) {
        int32_t row = list[item], written = 0;
        if (threadIdx.x == 0)
            denied = NUMERIC && c.spread.size && c.size[row] > c.spread.size &&
                     !spg_spread_request(c.spread, row, c.size[row]);
        start_row(r, a, b, row, cursor);
        if (denied) {
            __syncthreads(); /* until every thread has read `denied` */
            continue;
        }
        int low = r.low;
        while (low != INT_MAX) {
            for (int i = threadIdx.x; NUMERIC && i < SPG_RANGE; i += BLOCK)
                r.sums[i] = 0;
            for (int i = threadIdx.x; i < WORDS; i += BLOCK)
                r.occupied[i] = 0;
            __syncthreads(); /* until every thread has read r.low */
            if (threadIdx.x == 0)
                r.low = INT_MAX;
            __syncthreads();
            int next = add_products<T, NUMERIC>(r, a, b, row, low, cursor);
            if (threadIdx.x % 32 == 0)
                atomicMin(&r.low, next);
            __syncthreads();
            number(r);
            __syncthreads();
            if (NUMERIC)
                write(r, c, row, low, written);
            written += r.count;
            low = r.low;
            __syncthreads();
        }
        if (threadIdx.x == 0) {
            c.size[row] = written;
            if (!NUMERIC && c.spread.size)
                defer(c.spread, row, written);
        }
        __syncthreads();
    }
}

template <typename T, bool NUMERIC>
cudaError_t launch(const spg_operand &a, const spg_operand &b, const int32_t *list, int32_t rows, const spg_target &c,
                   int32_t *cursor, cudaStream_t stream) {
    int device = 0, processors = 0, blocks = 0;
    cudaError_t status = cudaFuncSetAttribute(range_rows<T, NUMERIC>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                              static_cast<int>(sizeof(Range<T>)));
    if (status == cudaSuccess)
        status = cudaGetDevice(&device);
    if (status == cudaSuccess)
        status = cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
    if (status == cudaSuccess)
        status =
            cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, range_rows<T, NUMERIC>, BLOCK, sizeof(Range<T>));
    if (status != cudaSuccess)
        return status;
    int64_t grid = static_cast<int64_t>(processors) * (blocks ? blocks : 1);
    unsigned blocks_used = static_cast<unsigned>(rows < grid ? rows : grid);
    range_rows<T, NUMERIC><<<blocks_used, BLOCK, sizeof(Range<T>), stream>>>(a, b, list, rows, c, cursor);
    return cudaGetLastError();
}

} // namespace

cudaError_t spg_launch_ranges(spg_precision precision, const spg_operand *a, const spg_operand *b, const int32_t *list,
                              int32_t rows, const spg_target *c, int32_t *cursor, cudaStream_t stream) {
    if (!rows)
        return cudaSuccess;
    if (!c->values)
        return launch<float, false>(*a, *b, list, rows, *c, cursor, stream);
    if (precision == SPG_FLOAT)
        return launch<float, true>(*a, *b, list, rows, *c, cursor, stream);
    return launch<double, true>(*a, *b, list, rows, *c, cursor, stream);
}
