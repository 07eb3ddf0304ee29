/* Compaction in place, for mode rounds.
 *
 * pack_tiles: rows of one chunk each (tiles.h). A block copies a tile asynchronously into shared memory and writes it
 * to its place in C. Cost: one read and one write of each entry. */
#include "spgemm/copies.cuh"
#include "spgemm/kernels.h"

namespace {

constexpr int BLOCK = 256, EACH = SPG_TILE / BLOCK; /* slots of a tile for each thread */

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

} // namespace

cudaError_t spg_launch_pack(size_t element, int32_t *columns, void *values, const spg_tiling *tiling, unsigned *ticket,
                            unsigned *read, cudaStream_t stream) {
    unsigned tiles = static_cast<unsigned>(spg_tiles(tiling));
    uint32_t *bits = reinterpret_cast<uint32_t *>(columns);
    if (!tiles)
        return cudaSuccess;
    if (element == 4)
        pack_tiles<uint32_t><<<tiles, BLOCK, 0, stream>>>(bits, static_cast<uint32_t *>(values), *tiling, ticket, read);
    else
        pack_tiles<uint64_t><<<tiles, BLOCK, 0, stream>>>(bits, static_cast<uint64_t *>(values), *tiling, ticket, read);
    return cudaGetLastError();
}
