/* Rows of mode rounds, moved together. */
#include "spgemm/kernels.h"

namespace {

constexpr int BLOCK = 256, EACH = GM_TILE / BLOCK; /* places of a tile for each thread */
constexpr int AHEAD = 4;                           /* entries that a thread reads before it writes them */
constexpr int TEAM = 32;                           /* threads for a row that is not in a tile */

/* A block has a tile (tiles.h). */
template <typename V>
__global__ void __launch_bounds__(BLOCK)
    pack_tiles(uint32_t *columns, V *values, gm_padded padded, unsigned *ticket, unsigned *read) {
    __shared__ uint32_t column[GM_TILE];
    __shared__ V value[GM_TILE];
    __shared__ unsigned number;
    if (threadIdx.x == 0)
        number = atomicAdd(ticket, 1u);
    __syncthreads();
    gm_tile tile = gm_tile_at(&padded, number);
    int32_t entry[EACH];
    uint32_t columns_here[EACH];
    V values_here[EACH];
#pragma unroll
    for (int j = 0; j < EACH; j++) {
        int32_t i = j * BLOCK + static_cast<int32_t>(threadIdx.x);
        entry[j] = i < tile.places ? gm_tile_entry(&padded, &tile, i) : -1;
    }
#pragma unroll
    for (int j = 0; j < EACH; j++) {
        int64_t place = tile.from + j * BLOCK + threadIdx.x;
        columns_here[j] = entry[j] >= 0 ? columns[place] : 0;
        values_here[j] = entry[j] >= 0 ? values[place] : 0;
    }
    /* Through shared memory: what is written to it has been read, and C is written as it lies. */
#pragma unroll
    for (int j = 0; j < EACH; j++) {
        if (entry[j] >= 0) {
            column[entry[j]] = columns_here[j];
            value[entry[j]] = values_here[j];
        }
    }
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0)
        atomicExch(&read[number], 1u);
    int64_t other = tile.first + threadIdx.x;
    if (other < tile.after)
        while (!*static_cast<volatile unsigned *>(&read[other]))
            __nanosleep(20);
    __threadfence();
    __syncthreads();
    for (int32_t i = static_cast<int32_t>(threadIdx.x); i < tile.end - tile.begin; i += BLOCK) {
        columns[tile.begin + i] = column[i];
        values[tile.begin + i] = value[i];
    }
}

/* Where rows got none, those behind get none either. */
__global__ void begin_slab(gm_spill *spill, int slab) {
    spill->shift[slab] = static_cast<int64_t>(min(spill->taken, spill->end));
}

/* Nothing that is read lies where something is written, by this launch. */
template <typename E>
__global__ void __launch_bounds__(BLOCK)
    move_spread(const E *from, E *to, gm_spread spread, int32_t first, int32_t rows, const int64_t *place,
                const int32_t *size) {
    int64_t item = (static_cast<int64_t>(blockIdx.x) * BLOCK + threadIdx.x) / TEAM;
    if (item >= rows)
        return;
    int32_t row = first + static_cast<int32_t>(item), count = size[row];
    int64_t piece = gm_first_piece(&spread, row), more = count > spread.size ? spread.more[row] : 0;
    E *target = to + place[row];
    for (int32_t i = threadIdx.x % TEAM; i < count; i += AHEAD * TEAM) {
        E read[AHEAD];
#pragma unroll
        for (int j = 0; j < AHEAD; j++)
            if (i + j * TEAM < count)
                read[j] = from[gm_spread_place(&spread, piece, more, i + j * TEAM)];
#pragma unroll
        for (int j = 0; j < AHEAD; j++)
            if (i + j * TEAM < count)
                target[i + j * TEAM] = read[j];
    }
}

template <typename E>
cudaError_t launch_move_spread(const void *from, void *to, const gm_spread &spread, int32_t first,
                               int32_t rows, const int64_t *place, const int32_t *size) {
    int64_t blocks = (static_cast<int64_t>(rows) * TEAM + BLOCK - 1) / BLOCK;
    move_spread<<<static_cast<unsigned>(blocks), BLOCK>>>(static_cast<const E *>(from), static_cast<E *>(to),
                                                          spread, first, rows, place, size);
    return cudaGetLastError();
}

} // namespace

cudaError_t gm_launch_begin_slab(gm_spill *spill, int slab) {
    begin_slab<<<1, 1>>>(spill, slab);
    return cudaGetLastError();
}

cudaError_t gm_launch_pack(size_t element, int32_t *columns, void *values, const gm_padded *padded,
                           unsigned *ticket, unsigned *read) {
    unsigned tiles = static_cast<unsigned>(gm_tiles(padded));
    uint32_t *bits = reinterpret_cast<uint32_t *>(columns);
    if (!tiles)
        return cudaSuccess;
    if (element == 4)
        pack_tiles<uint32_t><<<tiles, BLOCK>>>(bits, static_cast<uint32_t *>(values), *padded, ticket, read);
    else
        pack_tiles<uint64_t><<<tiles, BLOCK>>>(bits, static_cast<uint64_t *>(values), *padded, ticket, read);
    return cudaGetLastError();
}

cudaError_t gm_launch_move_spread(size_t element, const void *from, void *to, const gm_spread *spread,
                                  int32_t first, int32_t rows, const int64_t *place, const int32_t *size) {
    if (rows <= 0)
        return cudaSuccess;
    return element == 4 ? launch_move_spread<uint32_t>(from, to, *spread, first, rows, place, size)
                        : launch_move_spread<uint64_t>(from, to, *spread, first, rows, place, size);
}
