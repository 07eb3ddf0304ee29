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
 * Two kernels do this. short_rows takes the rows of a list and writes each one where its target says. short_tiles takes
 * all rows in their order, in tiles of ROWS rows, one block each. It counts, places and writes them in one launch: the
 * entries of a tile follow those of the tiles before it (look_back.cuh), so C needs no compaction. The entries of a
 * warp's rows are consecutive in C, and the warp writes them as one run. When the structure of C is known, the same
 * kernel takes the places from C's offsets and waits for nothing.
 *
 * Cost: for four rows some 700 instructions, of which 220 merge; tables take 1320. */
#include "spgemm/copies.cuh"
#include "spgemm/entries.cuh"
#include "spgemm/estimate.h"
#include "spgemm/kernels.h"
#include "spgemm/look_back.cuh"
#include "spgemm/operand.cuh"
#include "spgemm/random.h"
#include "spgemm/spread.cuh"
#include "spgemm/warp.cuh"

#include <algorithm>

namespace {

constexpr int RUN = SPG_SHORT, PRODUCTS = RUN * RUN, BLOCK = 256, ROWS = SPG_SHORT_TILE, WARPS = BLOCK / 32;
static_assert(ROWS * RUN == BLOCK, "one thread for each entry of A");
constexpr int STRIDE = PRODUCTS + RUN; /* puts the rows of a warp on different banks */
constexpr uint32_t NONE = ~0u;

template <typename T> using Operand = spg_typed_operand<T>;

/* Memory of a row: values and then sums; A's values behind them; numbers and then columns. */
template <typename T> struct Room {
    T *values, *factors;
    uint32_t *numbers;
};

/* Reads the products. The thread's numbers are those of one entry of A. Returns the length of its row of B, of which
 * only the first RUN entries are read. The values arrive before spg_wait_for_copies() returns. */
template <typename T, bool NUMERIC>
__device__ int32_t read_products(const Operand<T> &a, const Operand<T> &b, int32_t first, int32_t end,
                                 const Room<T> &room, uint32_t (&number)[RUN]) {
    int lane = threadIdx.x % RUN;
    int32_t from = 0, length = 0;
    if (lane < end - first) {
        spg_entries row = spg_entries_of(b, a.indices[first + lane]);
        from = row.first;
        length = row.count();
        if constexpr (NUMERIC && spg_has_value<T>)
            spg_copy_async(&room.factors[lane], &a.values[first + lane]);
    }
#pragma unroll
    for (int j = 0; j < RUN; j++) {
        int32_t at = __shfl_sync(~0u, from, j, RUN) + lane;
        bool has = lane < __shfl_sync(~0u, length, j, RUN);
        number[j] =
            has ? static_cast<uint32_t>(b.indices[at]) * PRODUCTS + static_cast<uint32_t>(j * RUN + lane) : NONE;
        if constexpr (NUMERIC && spg_has_value<T>)
            if (has)
                spg_copy_async(&room.values[j * RUN + lane], &b.values[at]);
    }
#pragma unroll
    for (int j = 0; j < RUN; j++)
        room.numbers[j * RUN + lane] = number[j];
    __syncwarp();
#pragma unroll
    for (int i = 0; i < RUN; i += 4) {
        uint4 four = *reinterpret_cast<const uint4 *>(&room.numbers[lane * RUN + i]);
        number[i] = four.x;
        number[i + 1] = four.y;
        number[i + 2] = four.z;
        number[i + 3] = four.w;
    }
    return length;
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

/* Bit i: the thread's number i is the last one of its column. NONE follows NONE, and differs from all other numbers in
 * the bits of the column. */
__device__ unsigned last_of_columns(const uint32_t (&number)[RUN]) {
    uint32_t after = __shfl_sync(~0u, number[0], static_cast<int>(threadIdx.x % RUN + 1) % RUN, RUN);
    if (threadIdx.x % RUN == RUN - 1)
        after = NONE;
    unsigned last = 0;
#pragma unroll
    for (int i = 0; i < RUN; i++)
        if ((number[i] ^ (i + 1 < RUN ? number[(i + 1) % RUN] : after)) >= PRODUCTS)
            last |= 1u << i;
    return last;
}

/* Adds the products of the room, and moves columns and sums to `columns` and `sums` by their ranks. Both may lie in the
 * rooms of the warp. */
template <typename T>
__device__ void add(const uint32_t (&number)[RUN], unsigned last, unsigned rank, const Room<T> &room, uint32_t *columns,
                    T *sums) {
    T factor[RUN], value[RUN], sum = 0;
    /* The branch also keeps the compiler from waiting before the merge, during which the values arrive. */
    if (!__any_sync(~0u, last))
        return;
    spg_wait_for_copies();
    __syncwarp();
#pragma unroll
    for (int i = 0; i < RUN; i++) {
        uint32_t place = number[i] % PRODUCTS;
        factor[i] = room.factors[place / RUN];
        value[i] = room.values[place];
    }
#pragma unroll
    for (int i = 0; i < RUN; i++) {
        sum = spg_plus_product(sum, factor[i], value[i]);
        if (last >> i & 1)
            sum = 0;
    }
    T begun = spg_from_before(sum);
    sum = threadIdx.x % RUN ? begun : T(0);
    __syncwarp();
#pragma unroll
    for (int i = 0; i < RUN; i++) {
        sum = spg_plus_product(sum, factor[i], value[i]);
        if (last >> i & 1) {
            columns[rank] = number[i] / PRODUCTS;
            sums[rank++] = sum;
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
        spg_write_value(values, slot, room.values[rank]);
    }
}

/* Stores the size of the row, and requests its extra chunks. Returns the number of entries to write. */
__device__ int report(const spg_target &c, int32_t row, int count) {
    bool written = true;
    if (c.values && !c.spread.size)
        count = spg_most_of_row(c, row, count);
    if (threadIdx.x % RUN == 0) {
        c.size[row] = count;
        if (c.values && c.spread.size && count > c.spread.size)
            written = spg_spread_request(c.spread, row, count);
    }
    return written ? count : 0;
}

/* Hides from the compiler how an address in shared memory was computed, so that it is not computed again for each use.
 */
template <typename T> __device__ T *kept(T *pointer) {
#ifdef __CUDA_ARCH__
    size_t address = __cvta_generic_to_shared(pointer);
    asm("" : "+l"(address));
    pointer = static_cast<T *>(__cvta_shared_to_generic(address));
#endif
    return pointer;
}

/* The memory of a row, in a block's dynamic shared memory: values of all rows, then numbers. */
template <typename T, bool NUMERIC> __device__ Room<T> room_of(unsigned char *memory, int row) {
    T *values = kept(reinterpret_cast<T *>(memory) + row * STRIDE);
    uint32_t *numbers =
        kept(reinterpret_cast<uint32_t *>(memory + (NUMERIC ? ROWS * STRIDE * sizeof(T) : 0)) + row * STRIDE);
    return {values, values + PRODUCTS, numbers};
}

template <typename T, bool NUMERIC> constexpr size_t shared_size() {
    return ROWS * STRIDE * ((NUMERIC ? sizeof(T) : 0) + sizeof(uint32_t));
}

/* Sorts the numbers of a row. Returns last_of_columns(). */
__device__ unsigned merge_all(uint32_t (&number)[RUN]) {
    merge<1>(number);
    merge<2>(number);
    merge<4>(number);
    return last_of_columns(number);
}

template <typename T, bool NUMERIC>
__global__ void __launch_bounds__(BLOCK, 1024 / BLOCK)
    short_rows(Operand<T> a, Operand<T> b, const int32_t *list, int32_t rows, spg_target c) {
    extern __shared__ __align__(16) unsigned char memory[];
    int mine = threadIdx.x / RUN;
    Room<T> room = room_of<T, NUMERIC>(memory, mine);
    int64_t item = static_cast<int64_t>(blockIdx.x) * ROWS + mine;
    int32_t row = 0, first = 0, end = 0;
    if (item < rows) {
        row = list[item];
        first = spg_entries_of(a, row).first;
        end = spg_entries_of(a, row).end;
    }
    uint32_t number[RUN];
    read_products<T, NUMERIC>(a, b, first, end, room, number);
    unsigned last = merge_all(number), up_to = spg_sum_up_to<RUN>(static_cast<unsigned>(__popc(last)));
    int count = static_cast<int>(__shfl_sync(~0u, up_to, RUN - 1, RUN));
    if (NUMERIC)
        add(number, last, up_to - __popc(last), room, room.numbers, room.values);
    if (item < rows)
        count = report(c, row, count);
    count = __shfl_sync(~0u, count, 0, RUN);
    if (NUMERIC && item < rows)
        write(c, row, count, room);
}

/* ---- all rows in one launch */

/* Two sums in one word: entries of C, and intermediate products or entries of A. Both are at most PRODUCTS x ROWS. */
constexpr int SECOND = 16, ARRIVALS = 28;
constexpr unsigned ENTRIES = (1u << SECOND) - 1, SECONDS = (1u << (ARRIVALS - SECOND)) - 1;
static_assert(PRODUCTS * ROWS <= SECONDS && WARPS <= 8, "sums of a tile fit their bits");

/* What the warps of a block share. */
struct Tile {
    unsigned sums; /* of the warps that have counted; from bit ARRIVALS on the number of these warps */
    unsigned entries[WARPS];
    int64_t start; /* in C */
    int fits;      /* whether the tile is written */
};

/* Entries of the block's warps before the calling one. */
__device__ unsigned entries_before(const Tile &tile) {
    static_assert(WARPS == 8, "three steps");
    unsigned sum = threadIdx.x % WARPS < threadIdx.x / 32 ? tile.entries[threadIdx.x % WARPS] : 0;
    for (int step = WARPS / 2; step > 0; step /= 2)
        sum += __shfl_xor_sync(~0u, sum, step);
    return sum;
}

/* Waits for the place of the tile, and publishes where it ends. The warp that counted last calls it. */
__device__ void place_tile(Tile &tile, unsigned sums, unsigned number, unsigned rows, const spg_short_c &c,
                           const spg_short_pass &pass) {
    int64_t start = spg_look_back(pass.tiles, number), end = start + (sums & ENTRIES);
    if (threadIdx.x % 32)
        return;
    spg_publish(pass.tiles, number, SPG_TILE_OFFSET, end);
    tile.start = start;
    tile.fits = end <= c.capacity;
    atomicAdd(&pass.totals->products, static_cast<unsigned long long>(sums >> SECOND & SECONDS));
    if (end > c.capacity)
        pass.totals->unwritten = 1;
    if (number == (rows - 1) / ROWS) {
        pass.totals->stored = end;
        c.offsets[rows] = static_cast<int32_t>(end);
    }
}

/* One block for each tile. The warp that counts last publishes the tile's sum; each warp then adds its products, so the
 * tiles before have time to publish theirs. PLACED: C's offsets are known. */
template <typename T, bool PLACED>
__global__ void __launch_bounds__(BLOCK, 1024 / BLOCK)
    short_tiles(Operand<T> a, Operand<T> b, unsigned rows, int32_t first_tile, spg_short_c c, spg_short_pass pass) {
    extern __shared__ __align__(16) unsigned char memory[];
    __shared__ Tile tile;
    int mine = threadIdx.x / RUN, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    Room<T> room = room_of<T, true>(memory, mine), warp_room = room_of<T, true>(memory, warp * (32 / RUN));
    unsigned number_of_tile = static_cast<unsigned>(first_tile) + blockIdx.x, row = number_of_tile * ROWS + mine;
    int32_t first = 0, end = 0;
    if (!PLACED && threadIdx.x == 0)
        tile.sums = 0;
    if (row < rows) {
        spg_entries entries = spg_entries_of(a, static_cast<int32_t>(row));
        first = entries.first;
        end = entries.end;
    }
    if (!PLACED)
        __syncthreads();
    uint32_t number[RUN];
    int32_t length = read_products<T, true>(a, b, first, end, room, number);
    if (!PLACED && (end - first > RUN || length > RUN))
        pass.totals->not_short = 1;
    unsigned last = merge_all(number), counted = __popc(last);
    unsigned up_to = spg_sum_up_to<32>(counted | static_cast<unsigned>(min(length, RUN)) << SECOND);
    unsigned of_warp = __shfl_sync(~0u, up_to, 31), of_tile = 0;
    unsigned rank = (up_to & ENTRIES) - counted, entries = of_warp & ENTRIES;
    if (!PLACED) {
        if (lane == 0) {
            tile.entries[warp] = of_warp & ENTRIES;
            of_tile = atomicAdd(&tile.sums, of_warp + (1u << ARRIVALS)) + of_warp;
        }
        of_tile = __shfl_sync(~0u, of_tile, 0);
    }
    bool counted_last = of_tile >> ARRIVALS == WARPS - 1;
    if (!PLACED && counted_last && lane == 0)
        spg_publish(pass.tiles, number_of_tile, SPG_TILE_SUM, of_tile & ENTRIES);
    add(number, last, rank, room, warp_room.numbers, warp_room.values);
    int64_t start = 0;
    if (PLACED) {
        unsigned warps_row = row - lane / RUN;
        start = warps_row < rows ? c.offsets[warps_row] : 0;
        /* No more than C has, whatever the matrices hold now. */
        entries = static_cast<unsigned>(min(static_cast<int64_t>(entries), c.capacity - start));
    } else {
        if (counted_last)
            place_tile(tile, of_tile, number_of_tile, rows, c, pass);
        __syncthreads();
        start = tile.start + entries_before(tile);
        if (lane % RUN == 0 && row < rows)
            c.offsets[row] = static_cast<int32_t>(start) + static_cast<int32_t>(rank);
        if (!tile.fits)
            return;
    }
    int32_t *columns = c.columns + start;
    T *values = static_cast<T *>(c.values) + start;
    for (unsigned i = threadIdx.x % 32; i < entries; i += 32) {
        columns[i] = static_cast<int32_t>(warp_room.numbers[i]);
        spg_write_value(values, i, warp_room.values[i]);
    }
}

/* Counts the sampled rows, and checks the lengths of all rows. The first blocks have a tile of sampled rows each. */
__global__ void __launch_bounds__(BLOCK)
    short_sample(Operand<float> a, Operand<float> b, int32_t a_rows, int32_t b_rows, spg_short_totals *totals) {
    extern __shared__ __align__(16) unsigned char memory[];
    bool not_short = false;
    for (int64_t i = static_cast<int64_t>(blockIdx.x) * BLOCK + threadIdx.x; i < max(a_rows, b_rows);
         i += static_cast<int64_t>(gridDim.x) * BLOCK) {
        not_short |= i < a_rows && a.offsets[i + 1] - a.offsets[i] > RUN;
        not_short |= i < b_rows && b.offsets[i + 1] - b.offsets[i] > RUN;
    }
    if (not_short)
        totals->not_short = 1;
    int32_t sampled = min(a_rows, SPG_SAMPLE_ROWS);
    int32_t item = static_cast<int32_t>(blockIdx.x * ROWS + threadIdx.x / RUN), first = 0, end = 0;
    if (item < sampled) {
        int32_t row = spg_sampled_row(a_rows, sampled, item, SPG_SAMPLE_SEED);
        first = spg_entries_of(a, row).first;
        end = spg_entries_of(a, row).end;
    }
    if (blockIdx.x * ROWS >= static_cast<unsigned>(sampled))
        return;
    uint32_t number[RUN];
    read_products<float, false>(a, b, first, end, room_of<float, false>(memory, threadIdx.x / RUN), number);
    unsigned terms = threadIdx.x % RUN ? 0 : static_cast<unsigned>(min(end - first, RUN));
    unsigned sums = spg_sum_up_to<32>(__popc(merge_all(number)) | terms << SECOND);
    if (threadIdx.x % 32 == 31) {
        atomicAdd(&totals->sampled_entries[2 * item >= sampled], static_cast<unsigned long long>(sums & ENTRIES));
        atomicAdd(&totals->sampled_terms, static_cast<unsigned long long>(sums >> SECOND));
    }
}

template <typename T, bool NUMERIC>
cudaError_t launch(const spg_operand &a, const spg_operand &b, const int32_t *list, int32_t rows, const spg_target &c,
                   cudaStream_t stream) {
    short_rows<T, NUMERIC><<<(rows - 1) / ROWS + 1, BLOCK, shared_size<T, NUMERIC>(), stream>>>(
        Operand<T>(a), Operand<T>(b), list, rows, c);
    return cudaGetLastError();
}

template <typename T, bool PLACED>
cudaError_t launch_tiles(const spg_operand &a, const spg_operand &b, int32_t first, int32_t tiles, const spg_short_c &c,
                         const spg_short_pass &pass, cudaStream_t stream) {
    short_tiles<T, PLACED><<<static_cast<unsigned>(tiles), BLOCK, shared_size<T, true>(), stream>>>(
        Operand<T>(a), Operand<T>(b), static_cast<unsigned>(a.rows), first, c, pass);
    return cudaGetLastError();
}

template <typename T>
cudaError_t launch_placed(const spg_operand &a, const spg_operand &b, int32_t tiles, const spg_short_c &c,
                          cudaStream_t stream) {
    return launch_tiles<T, true>(a, b, 0, tiles, c, {}, stream);
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

cudaError_t spg_launch_short_sample(const spg_operand *a, const spg_operand *b, spg_short_totals *totals,
                                    cudaStream_t stream) {
    constexpr int64_t SAMPLE_BLOCKS = SPG_SAMPLE_ROWS / ROWS, BLOCKS = 512;
    int64_t blocks = (static_cast<int64_t>(std::max(a->rows, b->rows)) + BLOCK - 1) / BLOCK;
    blocks = std::min(std::max(blocks, SAMPLE_BLOCKS), BLOCKS);
    short_sample<<<static_cast<unsigned>(blocks), BLOCK, shared_size<float, false>(), stream>>>(
        Operand<float>(*a), Operand<float>(*b), a->rows, b->rows, totals);
    return cudaGetLastError();
}

cudaError_t spg_launch_short_tiles(spg_precision precision, const spg_operand *a, const spg_operand *b, int32_t first,
                                   int32_t tiles, const spg_short_c *c, const spg_short_pass *pass,
                                   cudaStream_t stream) {
    if (!tiles)
        return cudaSuccess;
    return precision == SPG_FLOAT ? launch_tiles<float, false>(*a, *b, first, tiles, *c, *pass, stream)
                                  : launch_tiles<double, false>(*a, *b, first, tiles, *c, *pass, stream);
}

cudaError_t spg_launch_short_values(spg_precision precision, const spg_operand *a, const spg_operand *b,
                                    const spg_short_c *c, cudaStream_t stream) {
    int32_t tiles = spg_short_tiles(a->rows);
    if (!tiles)
        return cudaSuccess;
    return SPG_BY_VALUE(precision, launch_placed, *a, *b, tiles, *c, stream);
}
