/* Compaction in place, for mode rounds.
 *
 * pack_tiles: rows of one chunk each (tiles.h). A block copies a tile asynchronously into shared memory and writes it
 * to its place in C. move_spread: rows of a spread (spread.h), one warp for each row, slab by slab. Each thread reads
 * several entries before it writes the first, to hide the latency of memory. Cost of both: one read and one write of
 * each entry. */
#include "spgemm/copies.cuh"
#include "spgemm/kernels.h"

namespace {

constexpr int BLOCK = 256, EACH = SPG_TILE / BLOCK; /* slots of a tile for each thread */
constexpr int AHEAD = 4;                            /* entries that a thread reads before it writes the first */
constexpr int TEAM = 32;                            /* threads for a row in move_spread */

/* One block packs one tile. */
template <typename V>
__global__ void __launch_bounds__(BLOCK)
    pack_tiles(uint32_t *columns, V *values, spg_tiling tiling, unsigned *ticket, unsigned *read) {
    __shared__ uint32_t column[SPG_TILE];
    __shared__ V value[SPG_TILE];
    __shared__ spg_tile tile;
    __shared__ unsigned number;
    int thread = static_cast<int>(threadIdx.x);
    if (thread == 0) {
        number = atomicAdd(ticket, 1u);
        tile = spg_tile_at(&tiling, static_cast<int32_t>(number));
    }
    __syncthreads();
    const int32_t *offset = tiling.offset + tile.row;
    int64_t from = static_cast<int64_t>(tile.row) * tiling.chunk;
    int32_t begin = tile.begin, rows = tile.rows, chunk = tiling.chunk;
    int32_t row = thread / chunk, rank = thread % chunk, rows_on = BLOCK / chunk, ranks_on = BLOCK % chunk;
    int32_t entry[EACH]; /* index among the tile's entries; -1 = the slot is empty */
#pragma unroll
    for (int j = 0; j < EACH; j++) {
        int32_t here = row < rows ? offset[row] + rank : 0, row_end = row < rows ? offset[row + 1] : 0;
        entry[j] = here < row_end ? here - begin : -1;
        row += rows_on;
        rank += ranks_on;
        if (rank >= chunk) {
            rank -= chunk;
            row++;
        }
    }
    /* Through shared memory, so that C is written in consecutive runs. */
#pragma unroll
    for (int j = 0; j < EACH; j++) {
        int64_t slot = from + j * BLOCK + thread;
        if (entry[j] >= 0) {
            spg_copy_async(&column[entry[j]], &columns[slot]);
            spg_copy_async(&value[entry[j]], &values[slot]);
        }
    }
    spg_wait_for_copies();
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

/* After a failed request, requested chunks beyond granted_end do not exist. */
__global__ void start_slab(spg_chunk_counts *chunk_counts, int slab) {
    chunk_counts->shift[slab] = static_cast<int64_t>(min(chunk_counts->requested, chunk_counts->granted_end));
}

/* AHEAD elements of a row, TEAM apart: all are read before the first one is written. */
template <typename E> struct Ahead {
    E read[AHEAD];

    __device__ void fetch(const E *from, const spg_spread &spread, int64_t chunk, int64_t first_extra, int32_t i,
                          int32_t count) {
#pragma unroll
        for (int j = 0; j < AHEAD; j++)
            if (i + j * TEAM < count)
                read[j] = from[spg_spread_slot(&spread, chunk, first_extra, i + j * TEAM)];
    }

    __device__ void store(E *to, int32_t i, int32_t count) const {
#pragma unroll
        for (int j = 0; j < AHEAD; j++)
            if (i + j * TEAM < count)
                to[i + j * TEAM] = read[j];
    }
};

/* No slot that this launch reads lies in the memory that it writes. */
template <typename V>
__global__ void __launch_bounds__(BLOCK)
    move_spread(spg_array_move columns, spg_array_move values, spg_spread spread, int32_t first, int32_t rows,
                const int64_t *c_offset, const int32_t *size) {
    int64_t item = (static_cast<int64_t>(blockIdx.x) * BLOCK + threadIdx.x) / TEAM;
    if (item >= rows)
        return;
    int32_t row = first + static_cast<int32_t>(item), count = size[row];
    int64_t chunk = spg_first_chunk(&spread, row), first_extra = count > spread.size ? spread.first_extra[row] : 0;
    for (int32_t i = threadIdx.x % TEAM; i < count; i += AHEAD * TEAM) {
        Ahead<uint32_t> column;
        Ahead<V> value;
        if (columns.from)
            column.fetch(static_cast<const uint32_t *>(columns.from), spread, chunk, first_extra, i, count);
        if (values.from)
            value.fetch(static_cast<const V *>(values.from), spread, chunk, first_extra, i, count);
        if (columns.from)
            column.store(static_cast<uint32_t *>(columns.to) + c_offset[row], i, count);
        if (values.from)
            value.store(static_cast<V *>(values.to) + c_offset[row], i, count);
    }
}

template <typename V>
cudaError_t launch_move_spread(const spg_array_move &columns, const spg_array_move &values, const spg_spread &spread,
                               int32_t first, int32_t rows, const int64_t *c_offset, const int32_t *size) {
    int64_t blocks = (static_cast<int64_t>(rows) * TEAM + BLOCK - 1) / BLOCK;
    move_spread<V><<<static_cast<unsigned>(blocks), BLOCK>>>(columns, values, spread, first, rows, c_offset, size);
    return cudaGetLastError();
}

} // namespace

cudaError_t spg_launch_start_slab(spg_chunk_counts *chunk_counts, int slab) {
    start_slab<<<1, 1>>>(chunk_counts, slab);
    return cudaGetLastError();
}

cudaError_t spg_launch_pack(size_t element, int32_t *columns, void *values, const spg_tiling *tiling, unsigned *ticket,
                            unsigned *read) {
    unsigned tiles = static_cast<unsigned>(spg_tiles(tiling));
    uint32_t *bits = reinterpret_cast<uint32_t *>(columns);
    if (!tiles)
        return cudaSuccess;
    if (element == 4)
        pack_tiles<uint32_t><<<tiles, BLOCK>>>(bits, static_cast<uint32_t *>(values), *tiling, ticket, read);
    else
        pack_tiles<uint64_t><<<tiles, BLOCK>>>(bits, static_cast<uint64_t *>(values), *tiling, ticket, read);
    return cudaGetLastError();
}

cudaError_t spg_launch_move_spread(size_t element, const spg_array_move *columns, const spg_array_move *values,
                                   const spg_spread *spread, int32_t first, int32_t rows, const int64_t *c_offset,
                                   const int32_t *size) {
    if (rows <= 0)
        return cudaSuccess;
    return element == 4 ? launch_move_spread<uint32_t>(*columns, *values, *spread, first, rows, c_offset, size)
                        : launch_move_spread<uint64_t>(*columns, *values, *spread, first, rows, c_offset, size);
}
