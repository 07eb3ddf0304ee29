/* Kernels over whole arrays of rows:
 *
 * - bounds: intermediate products of each row, the sum of the lengths of the rows of B that A's row refers to. Cost:
 *   nnz(A) reads.
 * - alike_rows: which rows of B have the pattern of the row before. Cost: at most nnz(B) reads.
 * - bins: counts and lists rows by bin (bins.h), a histogram in shared memory for each block.
 * - offsets_of: 64-bit offsets of C become 32-bit ones, with the totals that the host needs.
 * - move_rows, move_chunks: compaction into other memory, several threads for each row or chunk. Cost: one read and one
 *   write of each entry, and a binary search over the rounds for each chunk.
 *
 * Scans and selections are CUB's. */
#include "spgemm/entries.cuh"
#include "spgemm/kernels.h"
#include "spgemm/warp.cuh"

#include <algorithm>
#include <climits>
#include <cub/device/device_scan.cuh>
#include <cub/device/device_select.cuh>

namespace {

constexpr int BLOCK = 256;
constexpr int TEAM = 8;                /* threads that sum one row's bound */
constexpr int LONG = 512;              /* entries of A from which a block sums it */
constexpr int MANY_LONG = 64;          /* such rows of a block */
constexpr unsigned MANY_BLOCKS = 2048; /* at least as many as any device runs at one time */

unsigned blocks_of(int64_t threads) { return static_cast<unsigned>((threads + BLOCK - 1) / BLOCK); }

/* What a team of TEAM threads has found of a row: intermediate products, and whether the pattern is another one than
 * that of the row before. Each thread has a part until it is summed. Empty rows are not alike: they are not computed,
 * and must not make rows be grouped. */
struct RowBound {
    int64_t sum = 0;
    int differs = 1;
    bool not_short = false; /* of the thread's part (bins.h) */
};

__device__ bool may_be_alike(const spg_operand &a, int32_t row, int32_t begin, int32_t length) {
    return row > 0 && length > 0 && begin - length >= a.first && begin - a.offsets[row - 1] == length;
}

/* Every `team`-th entry from `begin` + `rank` on. */
__device__ RowBound part_of_bound(const spg_operand &a, const spg_operand &b, int32_t row, int rank, int team) {
    auto [begin, end] = spg_entries_of(a, row);
    int32_t length = end - begin;
    RowBound part;
    part.differs = !may_be_alike(a, row, begin, length);
    part.not_short = length > SPG_SHORT;
    for (int32_t k = begin + rank; k < end; k += team) {
        int32_t middle = a.indices[k];
        int32_t products = spg_entries_of(b, middle).count();
        part.sum += products;
        part.not_short |= products > SPG_SHORT;
        if (!part.differs)
            part.differs = a.indices[k - length] != middle;
    }
    return part;
}

template <int WIDTH> __device__ RowBound sum_of_bounds(RowBound part) {
    for (int step = WIDTH / 2; step > 0; step /= 2) {
        part.sum += __shfl_xor_sync(~0u, part.sum, step);
        part.differs |= __shfl_xor_sync(~0u, part.differs, step);
    }
    return part;
}

struct BoundSums {
    int64_t total = 0, followers = 0;
    int32_t most = 0;

    __device__ void take(const RowBound &found, int32_t row, int32_t *bound, uint8_t *alike) {
        int32_t capped = static_cast<int32_t>(min(found.sum, static_cast<int64_t>(INT_MAX)));
        bound[row] = capped;
        alike[row] = static_cast<uint8_t>(!found.differs);
        total += found.sum;
        followers += !found.differs;
        most = max(most, capped);
    }
};

/* A team of threads sums one row's bound, and compares the row with the one before. A block keeps its first MANY_LONG
 * rows of more than LONG entries for all of its threads. The grid is as large as the device holds at one time, and
 * loops over all rows: so few blocks add to the totals, because additions to one address are serialised. */
__global__ void __launch_bounds__(BLOCK)
    bounds(spg_operand a, spg_operand b, int32_t *bound, uint8_t *alike, spg_bound_totals *totals) {
    constexpr int ROWS = 32 / TEAM; /* of a warp */
    __shared__ int64_t sums[BLOCK / 32], follows[BLOCK / 32];
    __shared__ int32_t mosts[BLOCK / 32], long_row[MANY_LONG], long_rows;
    int64_t warp = (static_cast<int64_t>(blockIdx.x) * BLOCK + threadIdx.x) / 32;
    int64_t warps = static_cast<int64_t>(gridDim.x) * BLOCK / 32;
    int lane = threadIdx.x % 32;
    BoundSums mine;
    bool not_short = false;
    if (threadIdx.x == 0)
        long_rows = 0;
    __syncthreads();
    for (int64_t first = warp * ROWS; first < a.rows; first += warps * ROWS) {
        int32_t row = static_cast<int32_t>(first) + lane / TEAM;
        int later = 0;
        if (row < a.rows && lane % TEAM == 0 && a.offsets[row + 1] - a.offsets[row] > LONG) {
            int at = atomicAdd(&long_rows, 1);
            later = at < MANY_LONG;
            if (later)
                long_row[at] = row;
        }
        later = __shfl_sync(~0u, later, 0, TEAM);
        RowBound found;
        if (row < a.rows && !later)
            found = part_of_bound(a, b, row, lane % TEAM, TEAM);
        not_short |= later || found.not_short;
        found = sum_of_bounds<TEAM>(found);
        if (row < a.rows && !later && lane % TEAM == 0)
            mine.take(found, row, bound, alike);
    }
    __syncthreads();
    for (int i = 0; i < long_rows && i < MANY_LONG; i++) {
        RowBound found = sum_of_bounds<32>(part_of_bound(a, b, long_row[i], static_cast<int>(threadIdx.x), BLOCK));
        __syncthreads();
        if (lane == 0) {
            sums[threadIdx.x / 32] = found.sum;
            mosts[threadIdx.x / 32] = found.differs;
        }
        __syncthreads();
        for (int w = 1; threadIdx.x == 0 && w < BLOCK / 32; w++) {
            found.sum += sums[w];
            found.differs |= mosts[w];
        }
        if (threadIdx.x == 0)
            mine.take(found, long_row[i], bound, alike);
    }
    if (not_short)
        totals->not_short = 1;
    __syncthreads();
    int64_t total = mine.total, followers = mine.followers;
    int32_t most = mine.most;
    for (int step = 16; step > 0; step /= 2) {
        total += __shfl_xor_sync(~0u, total, step);
        followers += __shfl_xor_sync(~0u, followers, step);
        most = max(most, __shfl_xor_sync(~0u, most, step));
    }
    if (lane == 0) {
        sums[threadIdx.x / 32] = total;
        follows[threadIdx.x / 32] = followers;
        mosts[threadIdx.x / 32] = most;
    }
    __syncthreads();
    if (threadIdx.x != 0)
        return;
    for (int i = 1; i < BLOCK / 32; i++) {
        total += sums[i];
        followers += follows[i];
        most = max(most, mosts[i]);
    }
    if (total) {
        atomicAdd(reinterpret_cast<unsigned long long *>(&totals->alike), static_cast<unsigned long long>(followers));
        atomicAdd(reinterpret_cast<unsigned long long *>(&totals->bound), static_cast<unsigned long long>(total));
        atomicMax(&totals->row_max, most);
    }
}

/* A team of threads compares a row with the one before. */
__global__ void __launch_bounds__(BLOCK) alike_rows(spg_operand b, uint8_t *alike) {
    int64_t row = (static_cast<int64_t>(blockIdx.x) * BLOCK + threadIdx.x) / TEAM;
    int differs = 1, rank = static_cast<int>(threadIdx.x % TEAM);
    if (row < b.rows) {
        auto [begin, end] = spg_entries_of(b, static_cast<int32_t>(row));
        int32_t length = end - begin;
        differs = length > LONG || !may_be_alike(b, static_cast<int32_t>(row), begin, length);
        for (int32_t k = begin + rank; !differs && k < begin + length; k += TEAM)
            differs = b.indices[k - length] != b.indices[k];
    }
    for (int step = TEAM / 2; step > 0; step /= 2)
        differs |= __shfl_xor_sync(~0u, differs, step);
    if (row < b.rows && rank == 0)
        alike[row] = static_cast<uint8_t>(!differs);
}

static_assert(SPG_SLABS * SPG_BINS <= BLOCK, "one thread for each bin");

/* Number of the row's bin, over all slabs; -1 for a row without entries. */
__device__ int bin_of(const spg_bin_rule &rule, int32_t row) {
    int32_t bound = rule.bound[row], terms = rule.offsets[row + 1] - rule.offsets[row];
    int64_t entries;
    if (rule.narrow)
        return terms ? row / rule.slab * SPG_BINS + spg_bin_of_narrow_row(terms) : -1;
    if (rule.size) {
        entries = rule.size[row];
    } else {
        entries = spg_entries_expected(bound, rule.columns, rule.share);
        if (!bound)
            return -1;
    }
    if (!entries)
        return -1;
    /* A table of a group has several values in each slot: it must stay small. */
    int bin = spg_bin_of_row(rule.alike ? entries : spg_entries_of_table(entries, bound), terms, bound, rule.columns);
    if (bin >= rule.tables && bin < SPG_TABLES)
        bin = SPG_BIN_RANGES;
    if (rule.alike && bin < SPG_ALIKE_BINS && !spg_group_begins(rule.alike, row, rule.slab))
        return -1;
    return row / rule.slab * SPG_BINS + bin;
}

/* First positions of the bins in the list of all rows, by one warp. */
__device__ void positions_of(const int32_t *count, int32_t *first) {
    int32_t before = 0;
#pragma unroll
    for (int base = 0; base < SPG_SLABS * SPG_BINS; base += 32) {
        int32_t mine = count[base + threadIdx.x], up_to = before + spg_sum_up_to<32>(mine);
        first[base + threadIdx.x] = up_to - mine;
        before = __shfl_sync(~0u, up_to, 31);
    }
}
static_assert(SPG_SLABS * SPG_BINS % 32 == 0, "a thread for each bin");

/* Each block counts in shared memory, then adds its counts to the global ones: to `count`, or with FILL, which lists
 * the rows, to `taken`. */
template <bool FILL>
__global__ void __launch_bounds__(BLOCK)
    bins(const int32_t *list, int32_t rows, spg_bin_rule rule, int32_t *count, int32_t *taken, int32_t *binned) {
    __shared__ int32_t here[SPG_SLABS * SPG_BINS], first[SPG_SLABS * SPG_BINS];
    int64_t item = static_cast<int64_t>(blockIdx.x) * BLOCK + threadIdx.x;
    if (threadIdx.x < SPG_SLABS * SPG_BINS)
        here[threadIdx.x] = 0;
    __syncthreads();
    int32_t row = item >= rows ? 0 : list ? list[item] : static_cast<int32_t>(item), rank = 0;
    int bin = item < rows ? bin_of(rule, row) : -1;
    if (bin >= 0)
        rank = atomicAdd(&here[bin], 1);
    if (FILL && threadIdx.x < 32)
        positions_of(count, first);
    __syncthreads();
    if (threadIdx.x < SPG_SLABS * SPG_BINS && here[threadIdx.x]) {
        int32_t before = atomicAdd(&(FILL ? taken : count)[threadIdx.x], here[threadIdx.x]);
        if (FILL)
            here[threadIdx.x] = first[threadIdx.x] + before;
    }
    if (!FILL)
        return;
    __syncthreads();
    if (bin >= 0)
        binned[here[bin] + rank] = row;
}

__global__ void count_up(int32_t *list, int32_t rows) {
    int64_t i = static_cast<int64_t>(blockIdx.x) * BLOCK + threadIdx.x;
    if (i < rows)
        list[i] = static_cast<int32_t>(i);
}

__global__ void gather(const int32_t *list, int32_t rows, const int32_t *from, int32_t *to) {
    int64_t i = static_cast<int64_t>(blockIdx.x) * BLOCK + threadIdx.x;
    if (i < rows)
        to[i] = from[list[i]];
}

__global__ void __launch_bounds__(BLOCK) offsets_of(const int64_t *c_offset, const int32_t *size, int32_t rows,
                                                    int32_t *offsets, int32_t slab, spg_c_totals *totals) {
    __shared__ int32_t longest;
    int64_t i = static_cast<int64_t>(blockIdx.x) * BLOCK + threadIdx.x;
    int32_t mine = i < rows ? size[i] : 0;
    if (threadIdx.x == 0)
        longest = 0;
    __syncthreads();
    for (int step = 16; step > 0; step /= 2)
        mine = max(mine, __shfl_xor_sync(~0u, mine, step));
    if (threadIdx.x % 32 == 0)
        atomicMax(&longest, mine);
    __syncthreads();
    if (threadIdx.x == 0 && longest > *static_cast<volatile int32_t *>(&totals->longest))
        atomicMax(&totals->longest, longest);
    if (i > rows)
        return;
    int64_t at = c_offset[i];
    offsets[i] = static_cast<int32_t>(at);
    if (i == rows)
        totals->stored = at;
    if (i && (i == rows || i % slab == 0))
        totals->slab_end[(i - 1) / slab] = at;
}

template <typename E>
__global__ void move_rows(const E *from, E *to, const int64_t *start, const int64_t *c_offset, const int32_t *size,
                          int32_t rows, int team) {
    int64_t row = (static_cast<int64_t>(blockIdx.x) * BLOCK + threadIdx.x) / team;
    if (row >= rows)
        return;
    for (int64_t i = threadIdx.x % team; i < size[row]; i += team)
        to[c_offset[row] + i] = from[start[row] + i];
}

template <typename E>
__global__ void move_chunks(const E *from, E *to, spg_chunks chunks, int64_t count, const int64_t *c_offset,
                            const int32_t *size, int team) {
    int64_t teams = static_cast<int64_t>(gridDim.x) * BLOCK / team;
    for (int64_t chunk = (static_cast<int64_t>(blockIdx.x) * BLOCK + threadIdx.x) / team; chunk < count;
         chunk += teams) {
        int32_t row = chunks.owner[chunk];
        int64_t before = static_cast<int64_t>(spg_chunk_round(&chunks, chunk)) * chunks.size;
        int64_t here = min(size[row] - before, static_cast<int64_t>(chunks.size));
        for (int64_t i = threadIdx.x % team; i < here; i += team)
            to[c_offset[row] + before + i] = from[chunk * chunks.size + i];
    }
}

struct Above {
    const int32_t *size;
    int64_t above;

    __device__ bool operator()(int32_t row) const { return size[row] > above; }
};

int team_for(int64_t elements) {
    int team = 4;
    while (team < 32 && team < elements)
        team *= 2;
    return team;
}

/* Elements move as unsigned integers of their size. */
template <typename E>
cudaError_t launch_move_chunks(const void *from, void *to, const spg_chunks &chunks, int64_t count,
                               const int64_t *c_offset, const int32_t *size, cudaStream_t stream) {
    int team = team_for(chunks.size);
    int64_t blocks = min(static_cast<int64_t>(INT_MAX), (count * team + BLOCK - 1) / BLOCK);
    move_chunks<<<static_cast<unsigned>(blocks), BLOCK, 0, stream>>>(static_cast<const E *>(from), static_cast<E *>(to),
                                                                     chunks, count, c_offset, size, team);
    return cudaGetLastError();
}

template <typename E>
cudaError_t launch_move_rows(const void *from, void *to, const int64_t *start, const int64_t *c_offset,
                             const int32_t *size, int32_t rows, cudaStream_t stream) {
    constexpr int team = 16;
    move_rows<<<blocks_of(static_cast<int64_t>(rows) * team), BLOCK, 0, stream>>>(
        static_cast<const E *>(from), static_cast<E *>(to), start, c_offset, size, rows, team);
    return cudaGetLastError();
}

} // namespace

cudaError_t spg_launch_alike(const spg_operand *b, uint8_t *alike, cudaStream_t stream) {
    if (b->rows)
        alike_rows<<<blocks_of(static_cast<int64_t>(b->rows) * TEAM), BLOCK, 0, stream>>>(*b, alike);
    return cudaGetLastError();
}

cudaError_t spg_launch_bounds(const spg_operand *a, const spg_operand *b, int32_t *bound, uint8_t *alike,
                              spg_bound_totals *totals, cudaStream_t stream) {
    if (!a->rows)
        return cudaSuccess;
    unsigned blocks = std::min(blocks_of(static_cast<int64_t>(a->rows) * TEAM), MANY_BLOCKS);
    bounds<<<blocks, BLOCK, 0, stream>>>(*a, *b, bound, alike, totals);
    return cudaGetLastError();
}

cudaError_t spg_launch_bins(const int32_t *list, int32_t rows, const spg_bin_rule *rule, int32_t *count, int32_t *taken,
                            int32_t *binned, cudaStream_t stream) {
    if (!rows)
        return cudaSuccess;
    bins<false><<<blocks_of(rows), BLOCK, 0, stream>>>(list, rows, *rule, count, taken, binned);
    bins<true><<<blocks_of(rows), BLOCK, 0, stream>>>(list, rows, *rule, count, taken, binned);
    return cudaGetLastError();
}

cudaError_t spg_launch_count_up(int32_t *list, int32_t rows, cudaStream_t stream) {
    if (!rows)
        return cudaSuccess;
    count_up<<<blocks_of(rows), BLOCK, 0, stream>>>(list, rows);
    return cudaGetLastError();
}

cudaError_t spg_launch_gather(const int32_t *list, int32_t rows, const int32_t *from, int32_t *to,
                              cudaStream_t stream) {
    if (!rows)
        return cudaSuccess;
    gather<<<blocks_of(rows), BLOCK, 0, stream>>>(list, rows, from, to);
    return cudaGetLastError();
}

cudaError_t spg_launch_offsets(const int64_t *c_offset, const int32_t *size, int32_t rows, int32_t *offsets,
                               int32_t slab, spg_c_totals *totals, cudaStream_t stream) {
    offsets_of<<<blocks_of(static_cast<int64_t>(rows) + 1), BLOCK, 0, stream>>>(c_offset, size, rows, offsets, slab,
                                                                                totals);
    return cudaGetLastError();
}

cudaError_t spg_scan(void *scratch, size_t *bytes, const int32_t *size, int64_t *start, int32_t count,
                     cudaStream_t stream) {
    return cub::DeviceScan::ExclusiveScan(scratch, *bytes, size, start, cuda::std::plus<int64_t>{}, int64_t{0},
                                          static_cast<int64_t>(count) + 1, stream);
}

cudaError_t spg_select_above(void *scratch, size_t *bytes, const int32_t *list, int32_t rows, const int32_t *size,
                             int64_t above, int32_t *chosen, int32_t *number, cudaStream_t stream) {
    return cub::DeviceSelect::If(scratch, *bytes, list, chosen, number, rows, Above{size, above}, stream);
}

cudaError_t spg_launch_move_rows(size_t element, const void *from, void *to, const int64_t *start,
                                 const int64_t *c_offset, const int32_t *size, int32_t rows, cudaStream_t stream) {
    if (!rows)
        return cudaSuccess;
    return element == 4 ? launch_move_rows<uint32_t>(from, to, start, c_offset, size, rows, stream)
                        : launch_move_rows<uint64_t>(from, to, start, c_offset, size, rows, stream);
}

cudaError_t spg_launch_move_chunks(size_t element, const void *from, void *to, const spg_chunks *chunks, int64_t count,
                                   const int64_t *c_offset, const int32_t *size, cudaStream_t stream) {
    if (!count)
        return cudaSuccess;
    return element == 4 ? launch_move_chunks<uint32_t>(from, to, *chunks, count, c_offset, size, stream)
                        : launch_move_chunks<uint64_t>(from, to, *chunks, count, c_offset, size, stream);
}
