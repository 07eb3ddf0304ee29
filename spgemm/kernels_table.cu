/* The fast accumulator, after Nagasaka et al. (bins.h): a group of threads forms a row in a hash table in
 * shared memory, teams of the group taking entries of A's row and their threads the entries of B's row. Then
 * the table is packed, entries are ranked by column (short rows: by counting smaller columns; long rows: by a
 * bitonic sort), and the row is written where the target wants it.
 *
 * Shared memory of a block: slots x (4 bytes + a value) for each of its rows. */
#include "spgemm/kernels.h"
#include "spgemm/spread.cuh"

#include <climits>
#include <cmath>

namespace {

constexpr int BLOCK = 256;   /* threads where a row has no block of its own */
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

/* Threads that have a row: a part of a warp, or the block. */
template <int THREADS> struct Group {
    static constexpr bool whole = THREADS > 32;
    int thread;
    unsigned mask; /* of the warp's threads that are in the group */

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

/* Products of the row into the table. False in a thread that found the table full. */
template <typename T, int THREADS, bool FORM>
__device__ void insert(const Group<THREADS> &group, const Operand<T> &a, const Operand<T> &b, int32_t row, int team,
                       int log2_slots, int32_t *table, T *sums, volatile int *full) {
    int32_t end = a.offsets[row + 1];
    for (int32_t k = a.offsets[row] + group.thread / team; k < end && !*full; k += THREADS / team) {
        int32_t middle = a.indices[k], last = b.offsets[middle + 1];
        T factor = FORM ? a.values[k] : T(0);
        for (int32_t l = b.offsets[middle] + group.thread % team; l < last; l += team) {
            int32_t slot = spg_table_find(table, log2_slots, b.indices[l]);
            if (slot < 0) {
                *full = 1;
                return;
            }
            if (FORM)
                atomicAdd(&sums[slot], factor * b.values[l]);
        }
    }
}

/* Moves what is in the table to its front; returns how much that is, in every thread. `packed` is shared and
 * 0. No place is written that is still to be read: what the first c + 1 strides of slots hold fits into
 * these. */
template <typename T, int SLOTS, int THREADS, bool FORM>
__device__ int pack(const Group<THREADS> &group, int32_t *table, T *sums, int *packed) {
    int total = 0;
    for (int base = 0; base < SLOTS; base += THREADS) {
        int32_t column = table[base + group.thread];
        T sum = FORM ? sums[base + group.thread] : T(0);
        bool there = column != SPG_EMPTY;
        unsigned others = __ballot_sync(group.mask, there) & group.mask;
        int place = __popc(others & lanes_before());
        if (group.whole) {
            int before = 0;
            if (threadIdx.x % 32 == 0)
                before = atomicAdd(packed, __popc(others));
            place += __shfl_sync(~0u, before, 0);
        } else {
            place += total;
            total += __popc(others);
        }
        if (!FORM)
            continue;
        group.sync();
        if (there) {
            table[place] = column;
            sums[place] = sum;
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

/* Columns that are smaller; four at a time, so that behind them come up to three that are not. */
__device__ int rank_of(const int32_t *columns, int count, int32_t column) {
    int rank = 0;
    for (int i = 0; i < count; i += 4) {
        int4 four = *reinterpret_cast<const int4 *>(&columns[i]);
        rank += (four.x < column) + (four.y < column) + (four.z < column) + (four.w < column);
    }
    return rank;
}

/* The packed row to its places. */
template <typename T, int THREADS>
__device__ void write(const Group<THREADS> &group, const spg_target &c, int32_t row, int32_t *table, T *sums,
                      int count) {
    T *values = static_cast<T *>(c.values);
    bool sorted = count > COUNTED;
    if (sorted)
        sort<T, THREADS>(group, table, sums, count);
    int size = c.spread.size;
    int64_t start = size ? spg_first_piece(&c.spread, row) : c.start[row];
    int64_t more = size && count > size ? c.spread.more[row] : 0;
    if (!sorted && group.thread < (4 - count % 4) % 4)
        table[count + group.thread] = INT_MAX;
    group.sync();
    for (int i = group.thread; i < count; i += THREADS) {
        int32_t column = table[i];
        int rank = sorted ? i : rank_of(table, count, column);
        int64_t place = size ? spg_spread_place(&c.spread, start, more, rank) : start + rank;
        c.columns[place] = column;
        values[place] = sums[i];
    }
}

template <typename T, int BIN, bool FORM> struct Shape {
    static constexpr int slots = SPG_SLOTS_LEAST << BIN, threads = SPG_GROUP_LEAST << BIN;
    static constexpr int block = threads > 32 ? threads : BLOCK, rows = block / threads;
    /* Rows of a warp step through their tables together: a gap keeps them on different banks. */
    static constexpr int stride = slots + (threads < 32 ? threads : 0);
    static constexpr size_t shared = static_cast<size_t>(rows) * stride * (sizeof(int32_t) + (FORM ? sizeof(T) : 0));
};

template <typename T, int BIN, bool FORM>
__global__ void __launch_bounds__(Shape<T, BIN, FORM>::block)
    table_rows(Operand<T> a, Operand<T> b, const int32_t *list, int32_t count, int team, spg_target c,
               Overflow overflow) {
    using S = Shape<T, BIN, FORM>;
    extern __shared__ __align__(16) unsigned char memory[];
    __shared__ int packed[S::rows], full[S::rows];
    Group<S::threads> group;
    int mine = threadIdx.x / S::threads;
    int64_t item = static_cast<int64_t>(blockIdx.x) * S::rows + mine;
    if (item >= count)
        return;
    T *sums = reinterpret_cast<T *>(memory) + (FORM ? mine * S::stride : 0);
    int32_t *table =
        reinterpret_cast<int32_t *>(memory + (FORM ? S::rows * S::stride * sizeof(T) : 0)) + mine * S::stride;
    int32_t row = list[item];
    for (int i = group.thread; i < S::slots; i += S::threads) {
        table[i] = SPG_EMPTY;
        if (FORM)
            sums[i] = 0;
    }
    if (group.thread == 0)
        packed[mine] = full[mine] = 0;
    group.sync();
    insert<T, S::threads, FORM>(group, a, b, row, team, 6 + BIN, table, sums, &full[mine]);
    group.sync();
    if (full[mine]) {
        if (group.thread == 0)
            overflow.rows[atomicAdd(overflow.count, 1)] = row;
        return;
    }
    int size = pack<T, S::slots, S::threads, FORM>(group, table, sums, &packed[mine]);
    if (group.thread == 0)
        c.size[row] = size;
    if (!FORM)
        return;
    if (c.spread.size && size > c.spread.size) {
        if (group.thread == 0)
            full[mine] = !spg_spread_take(c.spread, row, size);
        group.sync();
        if (full[mine])
            return;
    }
    write<T, S::threads>(group, c, row, table, sums, size);
}

double mean_of(const spg_operand &m) { return m.rows ? static_cast<double>(m.stored) / m.rows : 0; }

/* Threads that take one entry of A, so that rows of the mean lengths take the fewest steps; of equal ones the
 * most, which read B in longer runs. */
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

template <typename T, int BIN, bool FORM>
cudaError_t launch(const spg_operand &a, const spg_operand &b, const int32_t *list, int32_t rows, const spg_target &c,
                   const Overflow &overflow, cudaStream_t stream) {
    using S = Shape<T, BIN, FORM>;
    /* The kernel's own variables count, too. */
    if (S::shared + sizeof(int[2][S::rows]) > 48 * 1024) {
        cudaError_t status = cudaFuncSetAttribute(table_rows<T, BIN, FORM>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                  static_cast<int>(S::shared));
        if (status != cudaSuccess)
            return status;
    }
    table_rows<T, BIN, FORM><<<(rows - 1) / S::rows + 1, S::block, S::shared, stream>>>(
        Operand<T>(a), Operand<T>(b), list, rows, team_of(a, b, S::threads), c, overflow);
    return cudaGetLastError();
}

template <typename T, bool FORM>
cudaError_t launch_bin(int bin, const spg_operand &a, const spg_operand &b, const int32_t *list, int32_t rows,
                       const spg_target &c, const Overflow &o, cudaStream_t stream) {
    static_assert(SPG_TABLES == 8, "a case for each");
    switch (bin) {
    case 0: return launch<T, 0, FORM>(a, b, list, rows, c, o, stream);
    case 1: return launch<T, 1, FORM>(a, b, list, rows, c, o, stream);
    case 2: return launch<T, 2, FORM>(a, b, list, rows, c, o, stream);
    case 3: return launch<T, 3, FORM>(a, b, list, rows, c, o, stream);
    case 4: return launch<T, 4, FORM>(a, b, list, rows, c, o, stream);
    case 5: return launch<T, 5, FORM>(a, b, list, rows, c, o, stream);
    case 6: return launch<T, 6, FORM>(a, b, list, rows, c, o, stream);
    default: return launch<T, 7, FORM>(a, b, list, rows, c, o, stream);
    }
}

} // namespace

cudaError_t spg_launch_table(int bin, spg_precision precision, const spg_operand *a, const spg_operand *b,
                             const int32_t *list, int32_t rows, const spg_target *c, int32_t *overflow,
                             int32_t *overflowed, cudaStream_t stream) {
    Overflow o{overflow, overflowed};
    if (!rows)
        return cudaSuccess;
    /* Counting takes no values: one type serves. */
    if (!c->values)
        return launch_bin<float, false>(bin, *a, *b, list, rows, *c, o, stream);
    if (precision == SPG_FLOAT)
        return launch_bin<float, true>(bin, *a, *b, list, rows, *c, o, stream);
    return launch_bin<double, true>(bin, *a, *b, list, rows, *c, o, stream);
}
