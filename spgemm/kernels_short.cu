/* Rows of C that have at most 8 entries of A, each with a row of B of at most 8 entries: stencils. Products are sorted,
 * not hashed. 8 threads compute a row, so a warp computes four.
 *
 * 1. read: the threads read one row of B after the other. A product becomes a number, column x 64 + place, where place
 *    is entry of A x 8 + entry of B. Thread t gets the numbers of entry t of A. They ascend, as B's columns do.
 * 2. merge: three levels of a bitonic network merge the 8 runs, by shuffles and in registers.
 * 3. sum: products of one column now follow each other, in the order of A's entries. They are added in that order: a
 *    thread adds its 8 numbers; a sum that began in the thread before is taken over from it. A column has at most 8
 *    products, so no sum extends over three threads.
 * 4. write: finished sums go to shared memory by their rank, and from there to C.
 *
 * Cost: for four rows some 560 instructions, of which 170 merge; tables take 1320 (NOTES.md). */
#include "spgemm/kernels.h"
#include "spgemm/operand.cuh"
#include "spgemm/spread.cuh"

namespace {

constexpr int RUN = 8, PRODUCTS = RUN * RUN, BLOCK = 256, ROWS = BLOCK / RUN;
constexpr int STRIDE = PRODUCTS + RUN; /* puts the rows of a warp on different banks */
constexpr uint32_t NONE = ~0u;

template <typename T> using Operand = spg_typed_operand<T>;

/* Memory of a row: values and then sums; A's values behind them; numbers and then columns. */
template <typename T> struct Room {
    T *values, *factors;
    uint32_t *numbers;
};

/* Reads the products. The thread's numbers are those of one entry of A. */
template <typename T, bool NUMERIC>
__device__ void read_products(const Operand<T> &a, const Operand<T> &b, int32_t first, int32_t end, const Room<T> &room,
                              uint32_t (&number)[RUN]) {
    int lane = threadIdx.x % RUN;
    int32_t from = 0, length = 0;
    if (lane < end - first) {
        int32_t middle = a.indices[first + lane];
        from = b.offsets[middle];
        length = b.offsets[middle + 1] - from;
        if (NUMERIC)
            room.factors[lane] = a.values[first + lane];
    }
    T value[RUN];
#pragma unroll
    for (int j = 0; j < RUN; j++) {
        int32_t at = __shfl_sync(~0u, from, j, RUN) + lane;
        bool has = lane < __shfl_sync(~0u, length, j, RUN);
        number[j] =
            has ? static_cast<uint32_t>(b.indices[at]) * PRODUCTS + static_cast<uint32_t>(j * RUN + lane) : NONE;
        if (NUMERIC)
            value[j] = has ? b.values[at] : T(0);
    }
#pragma unroll
    for (int j = 0; j < RUN; j++) {
        room.numbers[j * RUN + lane] = number[j];
        if (NUMERIC)
            room.values[j * RUN + lane] = value[j];
    }
    __syncwarp();
#pragma unroll
    for (int i = 0; i < RUN; i += 4) {
        uint4 four = *reinterpret_cast<const uint4 *>(&room.numbers[lane * RUN + i]);
        number[i] = four.x;
        number[i + 1] = four.y;
        number[i + 2] = four.z;
        number[i + 3] = four.w;
    }
}

/* Merges pairs of runs of THREADS threads. */
template <int THREADS> __device__ void merge(uint32_t (&number)[RUN]) {
    int lane = threadIdx.x % RUN;
    uint32_t other[RUN];
#pragma unroll
    for (int i = 0; i < RUN; i++)
        other[i] = __shfl_xor_sync(~0u, number[RUN - 1 - i], 2 * THREADS - 1);
#pragma unroll
    for (int i = 0; i < RUN; i++)
        number[i] = lane & THREADS ? max(number[i], other[i]) : min(number[i], other[i]);
#pragma unroll
    for (int apart = THREADS / 2; apart > 0; apart /= 2)
#pragma unroll
        for (int i = 0; i < RUN; i++) {
            uint32_t theirs = __shfl_xor_sync(~0u, number[i], apart);
            number[i] = lane & apart ? max(number[i], theirs) : min(number[i], theirs);
        }
#pragma unroll
    for (int apart = RUN / 2; apart > 0; apart /= 2)
#pragma unroll
        for (int i = 0; i < RUN; i++)
            if (!(i & apart)) {
                uint32_t least = min(number[i], number[i + apart]);
                number[i + apart] = max(number[i], number[i + apart]);
                number[i] = least;
            }
}

/* Bit i: the thread's number i is the last one of its column. */
__device__ unsigned last_of_columns(const uint32_t (&number)[RUN]) {
    uint32_t after = __shfl_sync(~0u, number[0], static_cast<int>(threadIdx.x % RUN + 1) % RUN, RUN);
    if (threadIdx.x % RUN == RUN - 1)
        after = NONE;
    unsigned last = 0;
#pragma unroll
    for (int i = 0; i < RUN; i++) {
        uint32_t next = i + 1 < RUN ? number[(i + 1) % RUN] : after;
        if (number[i] != NONE && (next == NONE || next / PRODUCTS != number[i] / PRODUCTS))
            last |= 1u << i;
    }
    return last;
}

/* One rounding, as in the tables, although a product is used twice. */
template <typename T> __device__ T plus_product(T sum, T factor, T value) {
#ifdef __CUDA_ARCH__
    return fma(factor, value, sum);
#else
    return factor * value + sum;
#endif
}

/* Adds the products and moves columns and sums to their ranks. */
template <typename T> __device__ void add(const uint32_t (&number)[RUN], unsigned last, int rank, const Room<T> &room) {
    T factor[RUN], value[RUN], sum = 0;
#pragma unroll
    for (int i = 0; i < RUN; i++) {
        uint32_t place = number[i] % PRODUCTS;
        factor[i] = room.factors[place / RUN];
        value[i] = room.values[place];
        sum = plus_product(i && last >> (i - 1) & 1 ? T(0) : sum, factor[i], value[i]);
    }
    T begun = __shfl_up_sync(~0u, last >> (RUN - 1) & 1 ? T(0) : sum, 1);
    sum = threadIdx.x % RUN ? begun : T(0);
    __syncwarp();
#pragma unroll
    for (int i = 0; i < RUN; i++) {
        sum = plus_product(sum, factor[i], value[i]);
        if (last >> i & 1) {
            room.numbers[rank] = number[i] / PRODUCTS;
            room.values[rank++] = sum;
            sum = 0;
        }
    }
    __syncwarp();
}

template <typename T> __device__ void write(const spg_target &c, int32_t row, int count, const Room<T> &room) {
    T *values = static_cast<T *>(c.values);
    int size = c.spread.size;
    int64_t start = size ? spg_first_chunk(&c.spread, row) : c.start[row];
    int64_t first_extra = size && count > size ? c.spread.first_extra[row] : 0;
    for (int rank = threadIdx.x % RUN; rank < count; rank += RUN) {
        int64_t slot = size ? spg_spread_slot(&c.spread, start, first_extra, rank) : start + rank;
        c.columns[slot] = static_cast<int32_t>(room.numbers[rank]);
        values[slot] = room.values[rank];
    }
}

/* Stores the size of the row, and requests its extra chunks. Returns the number of entries to write. */
__device__ int report(const spg_target &c, int32_t row, int count) {
    bool written = true;
    if (threadIdx.x % RUN == 0) {
        c.size[row] = count;
        if (c.values && c.spread.size && count > c.spread.size)
            written = spg_spread_request(c.spread, row, count);
    }
    return written ? count : 0;
}

template <typename T, bool NUMERIC>
__global__ void __launch_bounds__(BLOCK, 1024 / BLOCK)
    short_rows(Operand<T> a, Operand<T> b, const int32_t *list, int32_t rows, spg_target c) {
    extern __shared__ __align__(16) unsigned char memory[];
    int mine = threadIdx.x / RUN, lane = threadIdx.x % RUN;
    T *values = reinterpret_cast<T *>(memory) + mine * STRIDE;
    uint32_t *numbers =
        reinterpret_cast<uint32_t *>(memory + (NUMERIC ? ROWS * STRIDE * sizeof(T) : 0)) + mine * STRIDE;
    Room<T> room{values, values + PRODUCTS, numbers};
    int64_t item = static_cast<int64_t>(blockIdx.x) * ROWS + mine;
    int32_t row = 0, first = 0, end = 0;
    if (item < rows) {
        row = list[item];
        first = a.offsets[row];
        end = a.offsets[row + 1];
    }
    uint32_t number[RUN];
    read_products<T, NUMERIC>(a, b, first, end, room, number);
    merge<1>(number);
    merge<2>(number);
    merge<4>(number);
    unsigned last = last_of_columns(number);
    int up_to = __popc(last), mine_last = up_to;
#pragma unroll
    for (int step = 1; step < RUN; step *= 2) {
        int other = __shfl_up_sync(~0u, up_to, step);
        up_to += lane >= step ? other : 0;
    }
    int count = __shfl_sync(~0u, up_to, RUN - 1, RUN);
    if (NUMERIC)
        add(number, last, up_to - mine_last, room);
    if (item < rows)
        count = report(c, row, count);
    count = __shfl_sync(~0u, count, 0, RUN);
    if (NUMERIC && item < rows)
        write(c, row, count, room);
}

template <typename T, bool NUMERIC>
cudaError_t launch(const spg_operand &a, const spg_operand &b, const int32_t *list, int32_t rows, const spg_target &c,
                   cudaStream_t stream) {
    constexpr size_t shared = ROWS * STRIDE * ((NUMERIC ? sizeof(T) : 0) + sizeof(uint32_t));
    short_rows<T, NUMERIC>
        <<<(rows - 1) / ROWS + 1, BLOCK, shared, stream>>>(Operand<T>(a), Operand<T>(b), list, rows, c);
    return cudaGetLastError();
}

} // namespace

cudaError_t spg_launch_short(spg_precision precision, const spg_operand *a, const spg_operand *b, const int32_t *list,
                             int32_t rows, const spg_target *c, cudaStream_t stream) {
    if (!rows)
        return cudaSuccess;
    if (!c->values)
        return launch<float, false>(*a, *b, list, rows, *c, stream);
    if (precision == SPG_FLOAT)
        return launch<float, true>(*a, *b, list, rows, *c, stream);
    return launch<double, true>(*a, *b, list, rows, *c, stream);
}
