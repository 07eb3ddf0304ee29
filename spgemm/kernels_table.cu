/* The fast accumulator: a group of threads computes one row of C in a hash table in shared memory.
 *
 * 1. insert: teams of the group take entries of A's row; the threads of a team take the entries of that row of B. Each
 *    product is added to the table slot of its column. A full table ends the row: it is listed as overflowed.
 * 2. pack: the used table slots move to the front of the table. Their number is the size of the row.
 * 3. write: entries are sorted by column and written to the row's slots. Short rows find each entry's rank by counting
 *    smaller columns; long rows use a bitonic sort.
 *
 * The symbolic phase (NUMERIC = false) ends after step 2.
 *
 * Cost: one probe or more for each intermediate product, one pass over the table, then n^2 / group comparisons for n up
 * to 512 entries, or n log^2 n / group exchanges. Shared memory: for each row, table slots x (4 bytes + a value).
 * Source: Nagasaka et al. (bins.h). */
#include "spgemm/kernels.h"
#include "spgemm/spread.cuh"

#include <climits>
#include <cmath>

namespace {

constexpr int BLOCK = 256;   /* threads of a block that computes several rows */
constexpr int COUNTED = 512; /* longest row whose columns are ranked by counting */

template <typename T> struct Operand {
    const int32_t *offsets, *indices;
    const T *values;

    explicit Operand(const spg_operand &o)
        : offsets(o.offsets), indices(o.indices), values(static_cast<const T *>(o.values)) {}
};

struct Overflow {
    int32_t *rows, *count;
};

/* The threads that compute one row: a part of a warp, or the whole block. */
template <int THREADS> struct Group {
    static constexpr bool whole = THREADS > 32;
    int thread;
    unsigned mask; /* the group's threads in the warp */

    __device__ Group() : thread(threadIdx.x % THREADS) {
        mask = THREADS >= 32 ? ~0u : ((1u << (THREADS % 32)) - 1) << (threadIdx.x % 32 / THREADS * THREADS);
    }

    __device__ void sync() const {
        if (whole)
            __syncthreads();
        else
            __syncwarp(mask);
    }
};

__device__ unsigned lanes_before() { return (1u << (threadIdx.x % 32)) - 1; }

/* Adds the row's products to the table. The first thread that finds the table full sets *full. */
template <typename T, int THREADS, bool NUMERIC>
__device__ void insert(const Group<THREADS> &group, const Operand<T> &a, const Operand<T> &b, int32_t row, int team,
                       int log2_slots, int32_t *table, T *sums, volatile int *full) {
    int32_t end = a.offsets[row + 1];
    for (int32_t k = a.offsets[row] + group.thread / team; k < end && !*full; k += THREADS / team) {
        int32_t middle = a.indices[k], last = b.offsets[middle + 1];
        T factor = NUMERIC ? a.values[k] : T(0);
        for (int32_t l = b.offsets[middle] + group.thread % team; l < last; l += team) {
            int32_t slot = spg_table_find(table, log2_slots, b.indices[l]);
            if (slot < 0) {
                *full = 1;
                return;
            }
            if (NUMERIC)
                atomicAdd(&sums[slot], factor * b.values[l]);
        }
    }
}

/* Moves the used table slots to the front of the table. Returns their number, in every thread. *packed is shared and 0.
 * No table slot is overwritten before it is read: the used table slots of the first c + 1 strides fit into these
 * strides. */
template <typename T, int SLOTS, int THREADS, bool NUMERIC>
__device__ int pack(const Group<THREADS> &group, int32_t *table, T *sums, int *packed) {
    int total = 0;
    for (int base = 0; base < SLOTS; base += THREADS) {
        int32_t column = table[base + group.thread];
        T sum = NUMERIC ? sums[base + group.thread] : T(0);
        bool used = column != SPG_EMPTY;
        unsigned others = __ballot_sync(group.mask, used) & group.mask;
        int position = __popc(others & lanes_before());
        if (group.whole) {
            int before = 0;
            if (threadIdx.x % 32 == 0)
                before = atomicAdd(packed, __popc(others));
            position += __shfl_sync(~0u, before, 0);
        } else {
            position += total;
            total += __popc(others);
        }
        if (!NUMERIC)
            continue;
        group.sync();
        if (used) {
            table[position] = column;
            sums[position] = sum;
        }
    }
    group.sync();
    return group.whole ? *packed : total;
}

template <typename T, int THREADS>
__device__ void sort(const Group<THREADS> &group, int32_t *table, T *sums, int count) {
    int padded = 1;
    while (padded < count)
        padded *= 2;
    for (int i = count + group.thread; i < padded; i += THREADS)
        table[i] = INT_MAX;
    for (int run = 2; run <= padded; run *= 2) {
        for (int stride = run / 2; stride > 0; stride /= 2) {
            group.sync();
            for (int pair = group.thread; pair < padded / 2; pair += THREADS) {
                int low = pair / stride * 2 * stride + pair % stride, high = low + stride;
                bool ascending = (low & run) == 0;
                int32_t x = table[low], y = table[high];
                if ((x > y) == ascending && x != y) {
                    table[low] = y;
                    table[high] = x;
                    T moved = sums[low];
                    sums[low] = sums[high];
                    sums[high] = moved;
                }
            }
        }
    }
    group.sync();
}

/* Number of smaller columns. Reads four at a time, so up to three columns of INT_MAX must follow the last one. */
__device__ int rank_of(const int32_t *columns, int count, int32_t column) {
    int rank = 0;
    for (int i = 0; i < count; i += 4) {
        int4 four = *reinterpret_cast<const int4 *>(&columns[i]);
        rank += (four.x < column) + (four.y < column) + (four.z < column) + (four.w < column);
    }
    return rank;
}

/* Writes the packed row to its slots. */
template <typename T, int THREADS>
__device__ void write(const Group<THREADS> &group, const spg_target &c, int32_t row, int32_t *table, T *sums,
                      int count) {
    T *values = static_cast<T *>(c.values);
    bool sorted = count > COUNTED;
    if (sorted)
        sort<T, THREADS>(group, table, sums, count);
    int size = c.spread.size;
    int64_t start = size ? spg_first_chunk(&c.spread, row) : c.start[row];
    int64_t first_extra = size && count > size ? c.spread.first_extra[row] : 0;
    if (!sorted && group.thread < (4 - count % 4) % 4)
        table[count + group.thread] = INT_MAX;
    group.sync();
    for (int i = group.thread; i < count; i += THREADS) {
        int32_t column = table[i];
        int rank = sorted ? i : rank_of(table, count, column);
        int64_t slot = size ? spg_spread_slot(&c.spread, start, first_extra, rank) : start + rank;
        c.columns[slot] = column;
        values[slot] = sums[i];
    }
}

template <typename T, int BIN, bool NUMERIC> struct Shape {
    static constexpr int slots = SPG_TABLE_SLOTS_MIN << BIN, threads = SPG_GROUP_MIN << BIN;
    static constexpr int block = threads > 32 ? threads : BLOCK, rows = block / threads;
    /* The rows of a warp step through their tables together. The padding puts them on different banks. */
    static constexpr int stride = slots + (threads < 32 ? threads : 0);
    static constexpr size_t shared = static_cast<size_t>(rows) * stride * (sizeof(int32_t) + (NUMERIC ? sizeof(T) : 0));
};

template <typename T, int BIN, bool NUMERIC>
__global__ void __launch_bounds__(Shape<T, BIN, NUMERIC>::block)
    table_rows(Operand<T> a, Operand<T> b, const int32_t *list, int32_t count, int team, spg_target c,
               Overflow overflow) {
    using S = Shape<T, BIN, NUMERIC>;
    extern __shared__ __align__(16) unsigned char memory[];
    __shared__ int packed[S::rows], full[S::rows];
    Group<S::threads> group;
    int mine = threadIdx.x / S::threads;
    int64_t item = static_cast<int64_t>(blockIdx.x) * S::rows + mine;
    if (item >= count)
        return;
    T *sums = reinterpret_cast<T *>(memory) + (NUMERIC ? mine * S::stride : 0);
    int32_t *table =
        reinterpret_cast<int32_t *>(memory + (NUMERIC ? S::rows * S::stride * sizeof(T) : 0)) + mine * S::stride;
    int32_t row = list[item];
    for (int i = group.thread; i < S::slots; i += S::threads) {
        table[i] = SPG_EMPTY;
        if (NUMERIC)
            sums[i] = 0;
    }
    if (group.thread == 0)
        packed[mine] = full[mine] = 0;
    group.sync();
    insert<T, S::threads, NUMERIC>(group, a, b, row, team, 6 + BIN, table, sums, &full[mine]);
    group.sync();
    if (full[mine]) {
        if (group.thread == 0)
            overflow.rows[atomicAdd(overflow.count, 1)] = row;
        return;
    }
    int size = pack<T, S::slots, S::threads, NUMERIC>(group, table, sums, &packed[mine]);
    if (group.thread == 0)
        c.size[row] = size;
    if (!NUMERIC)
        return;
    if (c.spread.size && size > c.spread.size) {
        if (group.thread == 0)
            full[mine] = !spg_spread_request(c.spread, row, size);
        group.sync();
        if (full[mine])
            return;
    }
    write<T, S::threads>(group, c, row, table, sums, size);
}

double mean_of(const spg_operand &m) { return m.rows ? static_cast<double>(m.stored) / m.rows : 0; }

/* Threads that share one entry of A: the number that needs the fewest steps for rows of mean length. Among equal
 * numbers the largest, which reads B in longer runs. */
int team_of(const spg_operand &a, const spg_operand &b, int threads) {
    int best = 4;
    double least = HUGE_VAL;
    for (int team = 4; team <= 32 && team <= threads; team *= 2) {
        double steps = ceil(mean_of(a) * team / threads) * ceil(mean_of(b) / team);
        if (steps <= least) {
            least = steps;
            best = team;
        }
    }
    return best;
}

template <typename T, int BIN, bool NUMERIC>
cudaError_t launch(const spg_operand &a, const spg_operand &b, const int32_t *list, int32_t rows, const spg_target &c,
                   const Overflow &overflow, cudaStream_t stream) {
    using S = Shape<T, BIN, NUMERIC>;
    /* The kernel's static shared variables count too. */
    if (S::shared + sizeof(int[2][S::rows]) > 48 * 1024) {
        cudaError_t status = cudaFuncSetAttribute(
            table_rows<T, BIN, NUMERIC>, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(S::shared));
        if (status != cudaSuccess)
            return status;
    }
    table_rows<T, BIN, NUMERIC><<<(rows - 1) / S::rows + 1, S::block, S::shared, stream>>>(
        Operand<T>(a), Operand<T>(b), list, rows, team_of(a, b, S::threads), c, overflow);
    return cudaGetLastError();
}

template <typename T, bool NUMERIC>
cudaError_t launch_bin(int bin, const spg_operand &a, const spg_operand &b, const int32_t *list, int32_t rows,
                       const spg_target &c, const Overflow &o, cudaStream_t stream) {
    static_assert(SPG_TABLES == 8, "one case for each bin");
    switch (bin) {
    case 0: return launch<T, 0, NUMERIC>(a, b, list, rows, c, o, stream);
    case 1: return launch<T, 1, NUMERIC>(a, b, list, rows, c, o, stream);
    case 2: return launch<T, 2, NUMERIC>(a, b, list, rows, c, o, stream);
    case 3: return launch<T, 3, NUMERIC>(a, b, list, rows, c, o, stream);
    case 4: return launch<T, 4, NUMERIC>(a, b, list, rows, c, o, stream);
    case 5: return launch<T, 5, NUMERIC>(a, b, list, rows, c, o, stream);
    case 6: return launch<T, 6, NUMERIC>(a, b, list, rows, c, o, stream);
    default: return launch<T, 7, NUMERIC>(a, b, list, rows, c, o, stream);
    }
}

} // namespace

cudaError_t spg_launch_table(int bin, spg_precision precision, const spg_operand *a, const spg_operand *b,
                             const int32_t *list, int32_t rows, const spg_target *c, int32_t *overflow,
                             int32_t *overflowed, cudaStream_t stream) {
    Overflow o{overflow, overflowed};
    if (!rows)
        return cudaSuccess;
    /* The symbolic phase needs no values, so one type serves both precisions. */
    if (!c->values)
        return launch_bin<float, false>(bin, *a, *b, list, rows, *c, o, stream);
    if (precision == SPG_FLOAT)
        return launch_bin<float, true>(bin, *a, *b, list, rows, *c, o, stream);
    return launch_bin<double, true>(bin, *a, *b, list, rows, *c, o, stream);
}
