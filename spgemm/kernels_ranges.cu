/* Rows that no table holds: a block forms one by ranges of SPG_RANGE columns, with a dense accumulator in
 * shared memory. Every entry of A's row has a cursor into its row of B, so that each product is made once;
 * ranges without products are passed over, and the row comes out sorted. Memory beside shared memory: a
 * cursor for each entry of A. */
#include "spgemm/kernels.h"
#include "spgemm/spread.cuh"

#include <climits>

namespace {

constexpr int BLOCK = 512, WARPS = BLOCK / 32, WORDS = SPG_RANGE / 32;
static_assert(WORDS % 32 == 0, "a warp adds up the words");

template <typename T> struct Range {
    T sums[SPG_RANGE];
    unsigned there[WORDS]; /* a bit a column */
    int before[WORDS];     /* columns there in the words before */
    int count, low;        /* columns in all words; first column of the range to come */
};

/* Makes the row's cursors; r.low gets the first column. */
template <typename T>
__device__ void begin_row(Range<T> &r, const spg_operand &a, const spg_operand &b, int32_t row, int32_t *cursor) {
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

/* Products of columns low to low + SPG_RANGE - 1; a warp an entry of A. Moves the cursors; `next` becomes the
 * first column behind the range, of what this warp saw. */
template <typename T, bool FORM>
__device__ int add_products(Range<T> &r, const spg_operand &a, const spg_operand &b, int32_t row, int low,
                            int32_t *cursor) {
    int lane = threadIdx.x % 32, next = INT_MAX;
    for (int32_t k = a.offsets[row] + threadIdx.x / 32; k < a.offsets[row + 1]; k += WARPS) {
        int32_t end = b.offsets[a.indices[k] + 1], at = cursor[k];
        T factor = FORM ? static_cast<const T *>(a.values)[k] : T(0);
        unsigned inside;
        int32_t column;
        do {
            column = lane < end - at ? b.indices[at + lane] : INT_MAX;
            /* Columns are not below `low`, so the difference does not overflow. */
            bool mine = column != INT_MAX && column - low < SPG_RANGE;
            if (mine) {
                int place = column - low;
                atomicOr(&r.there[place / 32], 1u << (place % 32));
                if (FORM)
                    atomicAdd(&r.sums[place], factor * static_cast<const T *>(b.values)[at + lane]);
            }
            inside = __ballot_sync(~0u, mine);
            at += __popc(inside);
        } while (inside == ~0u);
        /* Columns ascend: the first that is not inside follows those that are. */
        next = min(next, __shfl_sync(~0u, column, __popc(inside)));
        __syncwarp();
        if (lane == 0)
            cursor[k] = at;
    }
    return next;
}

/* before[] and count from there[]; by the first warp. */
template <typename T> __device__ void number(Range<T> &r) {
    int lane = threadIdx.x, sum = 0;
    constexpr int EACH = WORDS / 32;
    if (threadIdx.x >= 32)
        return;
    for (int i = 0; i < EACH; i++)
        sum += __popc(r.there[lane * EACH + i]);
    int upto = sum;
    for (int step = 1; step < 32; step *= 2) {
        int other = __shfl_up_sync(~0u, upto, step);
        if (lane >= step)
            upto += other;
    }
    if (lane == 31)
        r.count = upto;
    int before = upto - sum;
    for (int i = 0; i < EACH; i++) {
        r.before[lane * EACH + i] = before;
        before += __popc(r.there[lane * EACH + i]);
    }
}

template <typename T>
__device__ void write(const Range<T> &r, const spg_target &c, int32_t row, int low, int32_t written) {
    T *values = static_cast<T *>(c.values);
    int size = c.spread.size;
    int64_t start = size ? spg_first_piece(&c.spread, row) : c.start[row];
    int64_t more = size && c.size[row] > size ? c.spread.more[row] : 0;
    for (int i = threadIdx.x; i < SPG_RANGE; i += BLOCK) {
        unsigned word = r.there[i / 32], bit = 1u << (i % 32);
        if (!(word & bit))
            continue;
        int32_t rank = written + r.before[i / 32] + __popc(word & (bit - 1));
        int64_t place = size ? spg_spread_place(&c.spread, start, more, rank) : start + rank;
        c.columns[place] = low + i;
        values[place] = r.sums[i];
    }
}

/* Where such a row's entries go is known only when all of them have been counted. */
__device__ void put_off(const spg_spread &spread, int32_t row, int32_t entries) {
    if (!entries)
        return;
    unsigned long long pieces = static_cast<unsigned long long>(spg_further_pieces(entries, spread.size));
    atomicAdd(&spread.spill->later, pieces);
    spg_spread_leave(spread, row);
}

template <typename T, bool FORM>
__global__ void __launch_bounds__(BLOCK)
    range_rows(spg_operand a, spg_operand b, const int32_t *list, int32_t count, spg_target c, int32_t *cursor) {
    extern __shared__ __align__(16) unsigned char memory[];
    Range<T> &r = *reinterpret_cast<Range<T> *>(memory);
    __shared__ bool denied;
    for (int32_t item = blockIdx.x; item < count; item += gridDim.x) {
        int32_t row = list[item], written = 0;
        if (threadIdx.x == 0)
            denied =
                FORM && c.spread.size && c.size[row] > c.spread.size && !spg_spread_take(c.spread, row, c.size[row]);
        begin_row(r, a, b, row, cursor);
        if (denied) {
            __syncthreads(); /* all have read it */
            continue;
        }
        int low = r.low;
        while (low != INT_MAX) {
            for (int i = threadIdx.x; FORM && i < SPG_RANGE; i += BLOCK)
                r.sums[i] = 0;
            for (int i = threadIdx.x; i < WORDS; i += BLOCK)
                r.there[i] = 0;
            __syncthreads(); /* r.low was read by all */
            if (threadIdx.x == 0)
                r.low = INT_MAX;
            __syncthreads();
            int next = add_products<T, FORM>(r, a, b, row, low, cursor);
            if (threadIdx.x % 32 == 0)
                atomicMin(&r.low, next);
            __syncthreads();
            number(r);
            __syncthreads();
            if (FORM)
                write(r, c, row, low, written);
            written += r.count;
            low = r.low;
            __syncthreads();
        }
        if (threadIdx.x == 0) {
            c.size[row] = written;
            if (!FORM && c.spread.size)
                put_off(c.spread, row, written);
        }
        __syncthreads();
    }
}

template <typename T, bool FORM>
cudaError_t launch(const spg_operand &a, const spg_operand &b, const int32_t *list, int32_t rows, const spg_target &c,
                   int32_t *cursor, cudaStream_t stream) {
    int device = 0, processors = 0, blocks = 0;
    cudaError_t status = cudaFuncSetAttribute(range_rows<T, FORM>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                              static_cast<int>(sizeof(Range<T>)));
    if (status == cudaSuccess)
        status = cudaGetDevice(&device);
    if (status == cudaSuccess)
        status = cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
    if (status == cudaSuccess)
        status = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, range_rows<T, FORM>, BLOCK, sizeof(Range<T>));
    if (status != cudaSuccess)
        return status;
    int64_t grid = static_cast<int64_t>(processors) * (blocks ? blocks : 1);
    unsigned taken = static_cast<unsigned>(rows < grid ? rows : grid);
    range_rows<T, FORM><<<taken, BLOCK, sizeof(Range<T>), stream>>>(a, b, list, rows, c, cursor);
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
