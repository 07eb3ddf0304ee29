/* Slabs of rows of a spread (spread.h), and compaction by slabs.
 *
 * - start_slab: places a slab's first chunks after all chunks granted so far.
 * - section_sums, place_slab, section_offsets: offsets of C for the rows of one slab. A slab is cut into sections, one
 *   for each block: sums of the sections, a scan of the sums, a scan in each section. Cost: two reads of the sizes.
 * - move_spread, move_slab: one warp moves a row. Each thread reads several entries before it writes the first, to hide
 *   the latency of memory. Cost: one read and one write of each entry.
 *
 * All kernels but move_spread run beside the kernels that compute rows. They prefer the same division of a
 * multiprocessor's memory into cache and shared memory: otherwise no block of theirs would start before the
 * multiprocessor is idle. */
#include "spgemm/kernels.h"
#include "spgemm/beside.cuh"
#include "spgemm/warp.cuh"

#include <algorithm>
#include <cstdint>

namespace {

constexpr int BLOCK = 256;
constexpr int32_t ROWS_MIN = 1024;               /* of a section */
constexpr int64_t MOVED_MAX = INT32_MAX;         /* offsets have 32 bits */
constexpr int SLAB_BLOCK = 128, SLAB_BLOCKS = 2; /* of move_slab; blocks of a multiprocessor */
constexpr int AHEAD = 4;                         /* entries that a thread reads before it writes the first */
constexpr int TEAM = 32;                         /* threads for a row */

/* After a failed request, requested chunks beyond granted_end do not exist. */
__global__ void start_slab(spg_chunk_counts *chunk_counts, spg_overflows *overflows, int32_t most, int slab) {
    chunk_counts->shift[slab] = static_cast<int64_t>(min(chunk_counts->requested, chunk_counts->granted_end));
    int32_t count = overflows->listed - overflows->repeated;
    overflows->from = overflows->repeated;
    overflows->count = count <= most ? count : 0;
    overflows->repeated += overflows->count;
    overflows->left = count - overflows->count;
}

/* The rows of a slab, cut into sections of `each` rows, at most SPG_SECTIONS. */
struct Sections {
    int32_t first, rows, each;

    __device__ int32_t begin(unsigned section) const {
        return first + static_cast<int32_t>(min(static_cast<int64_t>(section) * each, static_cast<int64_t>(rows)));
    }
    __device__ int32_t end(unsigned section) const { return begin(section + 1); }
};

/* Sum of the values of all threads before this one. *total: of all threads. Called by the whole block. */
template <typename N> __device__ N sum_before(N mine, N *total) {
    __shared__ N sums[BLOCK / 32];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    N up_to = spg_sum_up_to<32>(mine), before = 0;
    __syncthreads();
    if (lane == 31)
        sums[warp] = up_to;
    __syncthreads();
    *total = 0;
    for (int w = 0; w < BLOCK / 32; w++) {
        before += w < warp ? sums[w] : 0;
        *total += sums[w];
    }
    return before + up_to - mine;
}

__global__ void __launch_bounds__(BLOCK) section_sums(Sections s, const int32_t *size, int64_t *sections) {
    int64_t sum = 0, total;
    for (int32_t row = s.begin(blockIdx.x) + static_cast<int32_t>(threadIdx.x); row < s.end(blockIdx.x); row += BLOCK)
        sum += size[row];
    sum_before(sum, &total);
    if (threadIdx.x == 0)
        sections[blockIdx.x] = total;
}

/* Decides whether the slab is moved; sections become the offsets of C where they begin. */
__global__ void __launch_bounds__(BLOCK) place_slab(spg_spread spread, const spg_overflows *overflows, int slab,
                                                    int64_t *sections, int count, spg_moves *moves) {
    static_assert(SPG_SECTIONS == BLOCK, "one thread for each section");
    int mine = static_cast<int>(threadIdx.x);
    int64_t base = moves->base[slab], total, before = sum_before(mine < count ? sections[mine] : 0, &total);
    if (mine < count)
        sections[mine] = base + before;
    int64_t first_chunk = static_cast<int64_t>(slab) * spread.slab + spread.chunk_counts->shift[slab];
    bool complete = !overflows->left && !spread.chunk_counts->deferred;
    if (mine != 0 || !complete || moves->moved != slab || base + total > min(first_chunk * spread.size, MOVED_MAX))
        return;
    moves->base[slab + 1] = base + total;
    moves->moved = slab + 1;
}

__global__ void __launch_bounds__(BLOCK)
    section_offsets(Sections s, int slab, const int32_t *size, const int64_t *sections, const spg_moves *moves,
                    int32_t *offsets) {
    if (moves->moved <= slab)
        return;
    int32_t at = static_cast<int32_t>(sections[blockIdx.x]), total, end = s.end(blockIdx.x);
    for (int32_t first = s.begin(blockIdx.x); first < end; first += BLOCK, at += total) {
        int32_t row = first + static_cast<int32_t>(threadIdx.x);
        int32_t before = sum_before(row < end ? size[row] : 0, &total);
        if (row < end)
            offsets[row] = at + before;
    }
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

/* Moves one row by a team of threads. */
template <typename V>
__device__ void move_row(const spg_array_move &columns, const spg_array_move &values, const spg_spread &spread,
                         int32_t row, int32_t count, int64_t to) {
    int64_t chunk = spg_first_chunk(&spread, row), first_extra = count > spread.size ? spread.first_extra[row] : 0;
    for (int32_t i = threadIdx.x % TEAM; i < count; i += AHEAD * TEAM) {
        Ahead<uint32_t> column;
        Ahead<V> value;
        if (columns.from)
            column.fetch(static_cast<const uint32_t *>(columns.from), spread, chunk, first_extra, i, count);
        if (values.from)
            value.fetch(static_cast<const V *>(values.from), spread, chunk, first_extra, i, count);
        if (columns.from)
            column.store(static_cast<uint32_t *>(columns.to) + to, i, count);
        if (values.from)
            value.store(static_cast<V *>(values.to) + to, i, count);
    }
}

/* No slot that this launch reads lies in the memory that it writes. */
template <typename V>
__global__ void __launch_bounds__(BLOCK)
    move_spread(spg_array_move columns, spg_array_move values, spg_spread spread, int32_t first, int32_t rows,
                const int64_t *c_offset, const int32_t *size) {
    int64_t item = (static_cast<int64_t>(blockIdx.x) * BLOCK + threadIdx.x) / TEAM;
    if (item >= rows)
        return;
    int32_t row = first + static_cast<int32_t>(item);
    move_row<V>(columns, values, spread, row, size[row], c_offset[row]);
}

/* The same by few blocks, which fit beside those of the kernels that compute rows. */
template <typename V>
__global__ void __launch_bounds__(SLAB_BLOCK)
    move_slab(spg_array_move columns, spg_array_move values, spg_spread spread, int slab, const int32_t *offsets,
              const int32_t *size, const spg_moves *moves) {
    if (moves->moved <= slab)
        return;
    int64_t step = static_cast<int64_t>(gridDim.x) * SLAB_BLOCK / TEAM;
    for (int64_t item = (static_cast<int64_t>(blockIdx.x) * SLAB_BLOCK + threadIdx.x) / TEAM; item < spread.slab;
         item += step) {
        int32_t row = slab * spread.slab + static_cast<int32_t>(item);
        move_row<V>(columns, values, spread, row, size[row], offsets[row]);
    }
}

template <typename V>
cudaError_t launch_move_spread(const spg_array_move &columns, const spg_array_move &values, const spg_spread &spread,
                               int32_t first, int32_t rows, const int64_t *c_offset, const int32_t *size,
                               cudaStream_t stream) {
    int64_t blocks = (static_cast<int64_t>(rows) * TEAM + BLOCK - 1) / BLOCK;
    move_spread<V>
        <<<static_cast<unsigned>(blocks), BLOCK, 0, stream>>>(columns, values, spread, first, rows, c_offset, size);
    return cudaGetLastError();
}

} // namespace

cudaError_t spg_launch_start_slab(spg_chunk_counts *chunk_counts, spg_overflows *overflows, int32_t most, int slab,
                                  cudaStream_t stream) {
    cudaError_t status = spg_beside(start_slab);
    if (status != cudaSuccess)
        return status;
    start_slab<<<1, 1, 0, stream>>>(chunk_counts, overflows, most, slab);
    return cudaGetLastError();
}

cudaError_t spg_launch_place_slab(const spg_spread *spread, const spg_overflows *overflows, int slab,
                                  const int32_t *size, int32_t *offsets, int64_t *sections, spg_moves *moves,
                                  cudaStream_t stream) {
    int32_t rows = spread->slab;
    int count = std::min((rows - 1) / ROWS_MIN + 1, SPG_SECTIONS);
    unsigned blocks = static_cast<unsigned>(count);
    Sections s{slab * rows, rows, (rows - 1) / count + 1};
    cudaError_t status = spg_beside(section_sums);
    if (status == cudaSuccess)
        status = spg_beside(place_slab);
    if (status == cudaSuccess)
        status = spg_beside(section_offsets);
    if (status != cudaSuccess)
        return status;
    section_sums<<<blocks, BLOCK, 0, stream>>>(s, size, sections);
    place_slab<<<1, BLOCK, 0, stream>>>(*spread, overflows, slab, sections, count, moves);
    section_offsets<<<blocks, BLOCK, 0, stream>>>(s, slab, size, sections, moves, offsets);
    return cudaGetLastError();
}

cudaError_t spg_launch_move_slab(size_t element, int32_t *columns, void *values, const spg_spread *spread, int slab,
                                 const int32_t *offsets, const int32_t *size, const spg_moves *moves,
                                 cudaStream_t stream) {
    spg_array_move column{columns, columns}, value{values, values};
    auto *kernel = element == 4 ? move_slab<uint32_t> : move_slab<uint64_t>;
    int device, processors = 0;
    cudaError_t status = cudaGetDevice(&device);
    if (status == cudaSuccess)
        status = cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
    if (status == cudaSuccess)
        status = spg_beside(kernel);
    if (status != cudaSuccess)
        return status;
    unsigned blocks = static_cast<unsigned>(processors) * SLAB_BLOCKS;
    kernel<<<blocks, SLAB_BLOCK, 0, stream>>>(column, value, *spread, slab, offsets, size, moves);
    return cudaGetLastError();
}

cudaError_t spg_launch_move_spread(size_t element, const spg_array_move *columns, const spg_array_move *values,
                                   const spg_spread *spread, int32_t first, int32_t rows, const int64_t *c_offset,
                                   const int32_t *size, cudaStream_t stream) {
    if (rows <= 0)
        return cudaSuccess;
    return element == 4 ? launch_move_spread<uint32_t>(*columns, *values, *spread, first, rows, c_offset, size, stream)
                        : launch_move_spread<uint64_t>(*columns, *values, *spread, first, rows, c_offset, size, stream);
}
