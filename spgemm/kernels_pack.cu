/* Rows of mode rounds, moved together. */
#include "spgemm/kernels.h"

namespace {

constexpr int BLOCK = 256, EACH = SPG_TILE / BLOCK; /* places of a tile for each thread */
constexpr int AHEAD = 4;                            /* entries that a thread reads before it writes them */
constexpr int TEAM = 32;                            /* threads for a row that is not in a tile */

/* An element from global to shared memory, without waiting and without a register: many are on their way. */
template <typename E> __device__ void bring(E *to, const E *from) {
#ifdef __CUDA_ARCH__
    unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(at), "l"(from), "n"(sizeof(E)));
#else
    *to = *from;
#endif
}

__device__ void wait_for_brought() {
#ifdef __CUDA_ARCH__
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

/* A block has a tile (tiles.h). */
template <typename V>
__global__ void __launch_bounds__(BLOCK)
    pack_tiles(uint32_t *columns, V *values, spg_padded padded, unsigned *ticket, unsigned *read) {
    __shared__ uint32_t column[SPG_TILE];
    __shared__ V value[SPG_TILE];
    __shared__ spg_tile tile;
    __shared__ unsigned number;
    int thread = static_cast<int>(threadIdx.x);
    if (thread == 0) {
        number = atomicAdd(ticket, 1u);
        tile = spg_tile_at(&padded, static_cast<int32_t>(number));
    }
    __syncthreads();
    const int32_t *offset = padded.offset + tile.row;
    int64_t from = static_cast<int64_t>(tile.row) * padded.piece;
    int32_t begin = tile.begin, rows = tile.rows, piece = padded.piece;
    int32_t row = thread / piece, rank = thread % piece, rows_on = BLOCK / piece, ranks_on = BLOCK % piece;
    int32_t entry[EACH]; /* of C, from the tile's first on; -1 = the place is empty */
#pragma unroll
    for (int j = 0; j < EACH; j++) {
        int32_t here = row < rows ? offset[row] + rank : 0, behind = row < rows ? offset[row + 1] : 0;
        entry[j] = here < behind ? here - begin : -1;
        row += rows_on;
        rank += ranks_on;
        if (rank >= piece) {
            rank -= piece;
            row++;
        }
    }
    /* Through shared memory: C is written as it lies. */
#pragma unroll
    for (int j = 0; j < EACH; j++) {
        int64_t place = from + j * BLOCK + thread;
        if (entry[j] >= 0) {
            bring(&column[entry[j]], &columns[place]);
            bring(&value[entry[j]], &values[place]);
        }
    }
    wait_for_brought();
    __syncthreads();
    if (thread == 0) {
        __threadfence();
        atomicExch(&read[number], 1u);
    }
    int32_t other = tile.first + thread;
    if (other < tile.after) {
        while (!*static_cast<volatile unsigned *>(&read[other]))
            __nanosleep(20);
        __threadfence();
    }
    __syncthreads();
    for (int32_t i = thread; i < tile.end - begin; i += BLOCK) {
        columns[begin + i] = column[i];
        values[begin + i] = value[i];
    }
}

/* Where rows got none, those behind get none either. */
__global__ void begin_slab(spg_spill *spill, int slab) {
    spill->shift[slab] = static_cast<int64_t>(min(spill->taken, spill->end));
}

/* A row's elements from AHEAD x TEAM places on, all on their way before one is written. */
template <typename E> struct Ahead {
    E read[AHEAD];

    __device__ void fetch(const E *from, const spg_spread &spread, int64_t piece, int64_t more, int32_t i,
                          int32_t count) {
#pragma unroll
        for (int j = 0; j < AHEAD; j++)
            if (i + j * TEAM < count)
                read[j] = from[spg_spread_place(&spread, piece, more, i + j * TEAM)];
    }

    __device__ void store(E *to, int32_t i, int32_t count) const {
#pragma unroll
        for (int j = 0; j < AHEAD; j++)
            if (i + j * TEAM < count)
                to[i + j * TEAM] = read[j];
    }
};

/* Nothing that is read lies where something is written, by this launch. */
template <typename V>
__global__ void __launch_bounds__(BLOCK)
    move_spread(spg_moved columns, spg_moved values, spg_spread spread, int32_t first, int32_t rows,
                const int64_t *place, const int32_t *size) {
    int64_t item = (static_cast<int64_t>(blockIdx.x) * BLOCK + threadIdx.x) / TEAM;
    if (item >= rows)
        return;
    int32_t row = first + static_cast<int32_t>(item), count = size[row];
    int64_t piece = spg_first_piece(&spread, row), more = count > spread.size ? spread.more[row] : 0;
    for (int32_t i = threadIdx.x % TEAM; i < count; i += AHEAD * TEAM) {
        Ahead<uint32_t> column;
        Ahead<V> value;
        if (columns.from)
            column.fetch(static_cast<const uint32_t *>(columns.from), spread, piece, more, i, count);
        if (values.from)
            value.fetch(static_cast<const V *>(values.from), spread, piece, more, i, count);
        if (columns.from)
            column.store(static_cast<uint32_t *>(columns.to) + place[row], i, count);
        if (values.from)
            value.store(static_cast<V *>(values.to) + place[row], i, count);
    }
}

template <typename V>
cudaError_t launch_move_spread(const spg_moved &columns, const spg_moved &values, const spg_spread &spread,
                               int32_t first, int32_t rows, const int64_t *place, const int32_t *size) {
    int64_t blocks = (static_cast<int64_t>(rows) * TEAM + BLOCK - 1) / BLOCK;
    move_spread<V><<<static_cast<unsigned>(blocks), BLOCK>>>(columns, values, spread, first, rows, place, size);
    return cudaGetLastError();
}

} // namespace

cudaError_t spg_launch_begin_slab(spg_spill *spill, int slab) {
    begin_slab<<<1, 1>>>(spill, slab);
    return cudaGetLastError();
}

cudaError_t spg_launch_pack(size_t element, int32_t *columns, void *values, const spg_padded *padded, unsigned *ticket,
                            unsigned *read) {
    unsigned tiles = static_cast<unsigned>(spg_tiles(padded));
    uint32_t *bits = reinterpret_cast<uint32_t *>(columns);
    if (!tiles)
        return cudaSuccess;
    if (element == 4)
        pack_tiles<uint32_t><<<tiles, BLOCK>>>(bits, static_cast<uint32_t *>(values), *padded, ticket, read);
    else
        pack_tiles<uint64_t><<<tiles, BLOCK>>>(bits, static_cast<uint64_t *>(values), *padded, ticket, read);
    return cudaGetLastError();
}

cudaError_t spg_launch_move_spread(size_t element, const spg_moved *columns, const spg_moved *values,
                                   const spg_spread *spread, int32_t first, int32_t rows, const int64_t *place,
                                   const int32_t *size) {
    if (rows <= 0)
        return cudaSuccess;
    return element == 4 ? launch_move_spread<uint32_t>(*columns, *values, *spread, first, rows, place, size)
                        : launch_move_spread<uint64_t>(*columns, *values, *spread, first, rows, place, size);
}
