/* Rows of a C of few columns (SPG_NARROW): B is tall and skinny. A row has a sum for each column, so nothing is
 * searched and nothing is sorted. A team of threads computes a row; a block computes a row of many entries of A. A
 * team has about as many threads as a row of B has entries, but not so few that the teams' sums need too much memory.
 *
 * 1. add: the threads of a team take the entries of one row of B, whose columns differ, so additions are plain reads
 *    and writes. The entries of several rows of B are read before the first one is added. The teams of a block take
 *    equal parts of A's row, and have sums of their own, which are added in the order of the teams. So C has the same
 *    bits in every run.
 * 2. Columns that occur are marked, a byte each. Votes count them and give their ranks.
 * 3. write: the entries come out in the order of columns.
 *
 * A count of all rows finds their intermediate products, too. The bins (bins.h) give the teams of a warp rows of
 * similar lengths.
 *
 * Cost: one addition in shared memory for each intermediate product, and a look at each column of C for each row.
 * Shared memory: a value and a byte for each column and team. */
#include "spgemm/kernels.h"
#include "spgemm/operand.cuh"
#include "spgemm/spread.cuh"

#include <algorithm>
#include <climits>
#include <type_traits>

namespace {

constexpr int AHEAD = 8;               /* rows of B that are read before the first one is added */
constexpr int MOST_COLUMNS = 16;       /* of C for each thread of a team: they bound a block's shared memory */
constexpr unsigned MOST_BLOCKS = 1024; /* that count long rows */

/* Threads of a block, whose teams share a row or not. A small block does not wait long for its slowest team. */
template <bool SHARED> constexpr int THREADS = SHARED ? 256 : 128;

template <typename T> using Operand = spg_typed_operand<T>;

/* Memory of a team: sums of the columns, which counting does not have, and marks. */
template <typename T, bool NUMERIC> struct Room {
    T *sums;
    unsigned char *marks;

    /* A multiple of 16, and larger, so that the teams of a warp use different banks. */
    static __host__ __device__ int padded(int columns) { return (columns + 31) / 16 * 16; }
    static __host__ __device__ int bytes(int columns) { return padded(columns) * (NUMERIC ? sizeof(T) + 1 : 1); }

    __device__ Room(unsigned char *memory, int team, int columns)
        : sums(reinterpret_cast<T *>(memory + team * bytes(columns))),
          marks(memory + (team + 1) * bytes(columns) - padded(columns)) {}
};

/* A row of A, or the part of it that one of several teams takes. A team without a row has number -1 and no entries. */
struct Part {
    int32_t row, first = 0, end = 0;

    __device__ Part(const int32_t *offsets, int32_t number) : row(number) {
        if (row >= 0) {
            first = offsets[row];
            end = offsets[row + 1];
        }
    }
    template <int TEAM, int TEAMS> __device__ void cut(int team) {
        int32_t each = ((end - first) / (TEAM * TEAMS) + 1) * TEAM;
        int64_t mine = first + static_cast<int64_t>(team) * each;
        first = static_cast<int32_t>(min(mine, static_cast<int64_t>(end)));
        end = static_cast<int32_t>(min(mine + each, static_cast<int64_t>(end)));
    }
};

/* An entry of A: its row of B, and its value. */
template <typename T> struct Term {
    T factor = 0;
    int32_t from = 0, length = 0;
};

/* The value of thread `lane` of the team. */
template <int TEAM, typename R> __device__ R shuffled(R value, int lane) { return __shfl_sync(~0u, value, lane, TEAM); }
template <int TEAM, typename R> __device__ spg_complex<R> shuffled(const spg_complex<R> &value, int lane) {
    return {__shfl_sync(~0u, value.re, lane, TEAM), __shfl_sync(~0u, value.im, lane, TEAM)};
}
template <int TEAM, typename R> __device__ spg_min_plus<R> shuffled(const spg_min_plus<R> &value, int lane) {
    return spg_min_plus<R>::of(__shfl_sync(~0u, value.number, lane, TEAM));
}
template <int TEAM> __device__ spg_pattern shuffled(spg_pattern, int) { return {}; }

/* The row of B of the part's entry number `at`; -1: there is none. */
template <typename T> __device__ int32_t middle_of(const Operand<T> &a, const Part &part, int32_t at) {
    return at < part.end - part.first ? a.indices[part.first + at] : -1;
}

template <typename T, bool NUMERIC>
__device__ Term<T> term_of(const Operand<T> &a, const Operand<T> &b, const Part &part, int32_t at, int32_t middle) {
    Term<T> term;
    if (middle >= 0) {
        term.from = b.offsets[middle];
        term.length = b.offsets[middle + 1] - term.from;
        if (NUMERIC)
            term.factor = spg_read_value(a.values, part.first + at);
    }
    return term;
}

/* Adds a product for each thread whose column is not -1. Counting only writes ones, whose order does not matter. */
template <typename T, bool NUMERIC>
__device__ void add(const Room<T, NUMERIC> &room, T factor, int32_t column, const T &value) {
    if (column >= 0) {
        if (NUMERIC)
            room.sums[column] = spg_plus_product(room.sums[column], factor, value);
        room.marks[column] = 1;
    }
    if (NUMERIC)
        __syncwarp();
}

/* Adds the products of the part, by one team. All teams of a warp call it together. Returns the thread's share of the
 * number of products. Entries of A are read two steps ahead, and the bounds of their rows of B one step. */
template <int TEAM, typename T, bool NUMERIC>
__device__ int64_t add_all(const Operand<T> &a, const Operand<T> &b, const Part &part, const Room<T, NUMERIC> &room) {
    int lane = threadIdx.x % TEAM;
    int32_t most = __reduce_max_sync(~0u, part.end - part.first);
    int64_t products = 0;
    Term<T> next = term_of<T, NUMERIC>(a, b, part, lane, middle_of(a, part, lane));
    int32_t middle = middle_of(a, part, lane + TEAM);
    for (int32_t base = 0; base < most; base += TEAM) {
        Term<T> mine = next;
        next = term_of<T, NUMERIC>(a, b, part, base + lane + TEAM, middle);
        middle = middle_of(a, part, base + lane + 2 * TEAM);
        products += mine.length;
        int here = static_cast<int>(min(most - base, TEAM));
        for (int j = 0; j < here; j += AHEAD) {
            int32_t column[AHEAD], longest = 0;
            T value[AHEAD];
#pragma unroll
            for (int i = 0; i < AHEAD; i++) {
                /* Threads beyond the last entry of A have rows of no length. */
                int32_t from = __shfl_sync(~0u, mine.from, j + i, TEAM);
                int32_t length = __shfl_sync(~0u, mine.length, j + i, TEAM);
                column[i] = lane < length ? b.indices[from + lane] : -1;
                value[i] = NUMERIC && lane < length ? spg_read_value(b.values, from + lane) : T(0);
                longest = max(longest, length);
            }
            bool is_long = __any_sync(~0u, longest > TEAM);
#pragma unroll
            for (int i = 0; i < AHEAD; i++) {
                T factor = NUMERIC ? shuffled<TEAM>(mine.factor, j + i) : T(0);
                add(room, factor, column[i], value[i]);
                if (!is_long)
                    continue;
                int32_t from = __shfl_sync(~0u, mine.from, j + i, TEAM);
                int32_t length = __shfl_sync(~0u, mine.length, j + i, TEAM);
                for (int32_t at = TEAM; __any_sync(~0u, at < length); at += TEAM) {
                    int32_t l = from + at + lane;
                    bool has = at + lane < length;
                    add(room, factor, has ? b.indices[l] : -1, NUMERIC && has ? spg_read_value(b.values, l) : T(0));
                }
            }
        }
    }
    return products;
}

/* Counts the entries of the row, and with `writes` writes them, by WRITERS threads. The whole warp calls it. */
template <int WRITERS, typename R>
__device__ int write(const spg_target &c, bool writes, const R &room, int columns, int64_t start, int64_t first_extra) {
    int before = 0, lane = threadIdx.x % WRITERS, below = threadIdx.x % 32 - lane;
    for (int base = 0; base < columns; base += WRITERS) {
        int column = base + lane;
        bool there = column < columns && room.marks[column];
        unsigned all = __ballot_sync(~0u, there) >> below & (~0u >> (32 - WRITERS));
        if (there && writes) {
            int rank = before + __popc(all & ((1u << lane) - 1));
            int64_t slot = c.spread.size ? spg_spread_slot(&c.spread, start, first_extra, rank) : start + rank;
            c.columns[slot] = column;
            spg_write_value(static_cast<decltype(room.sums)>(c.values), slot, room.sums[column]);
        }
        before += __popc(all);
    }
    return before;
}

/* Stores the size of the row and requests its extra chunks. Returns whether the row is written, in all threads. */
template <int WRITERS> __device__ bool report(const spg_target &c, int32_t row, int count) {
    int written = row >= 0;
    if (row >= 0 && threadIdx.x % WRITERS == 0) {
        c.size[row] = count;
        if (c.spread.size && count > c.spread.size)
            written = spg_spread_request(c.spread, row, count);
    }
    return __shfl_sync(~0u, written, 0, WRITERS);
}

/* Stores the sums of the block's teams in the memory of the first one, which is returned. */
template <int TEAMS, typename T, bool NUMERIC>
__device__ Room<T, NUMERIC> add_teams(unsigned char *memory, int columns) {
    Room<T, NUMERIC> all(memory, 0, columns);
    __syncthreads();
    for (int i = threadIdx.x; i < columns; i += THREADS<true>) {
        T sum = 0;
        unsigned char mark = 0;
        for (int team = 0; team < TEAMS; team++) {
            Room<T, NUMERIC> room(memory, team, columns);
            if (NUMERIC)
                sum += room.sums[i];
            mark |= room.marks[i];
        }
        all.marks[i] = mark;
        if (NUMERIC)
            all.sums[i] = sum;
    }
    __syncthreads();
    return all;
}

template <int TEAM, typename T, bool NUMERIC> __device__ void clear(const Room<T, NUMERIC> &room, int columns) {
    for (int i = threadIdx.x % TEAM; i < columns; i += TEAM) {
        room.marks[i] = 0;
        if (NUMERIC)
            room.sums[i] = 0;
    }
    __syncwarp();
}

/* Rows that teams compute come first in the list. */
__host__ __device__ int32_t rows_of_teams(const int32_t *count) {
    int32_t rows = 0;
    for (int bin = 0; bin < SPG_WARP_BINS; bin++)
        rows += count[bin];
    return rows;
}

/* SHARED: the teams of a block share a row. Else the longest rows are computed first. */
template <typename T, bool SHARED, int TEAM>
__global__ void __launch_bounds__(THREADS<SHARED>)
    narrow_rows(Operand<T> a, Operand<T> b, const int32_t *list, int32_t rows, int columns, spg_target c) {
    extern __shared__ __align__(16) unsigned char memory[];
    constexpr int TEAMS = THREADS<SHARED> / TEAM, WRITERS = SHARED ? 32 : TEAM;
    int team = threadIdx.x / TEAM;
    int64_t item = SHARED ? blockIdx.x : rows - 1 - (static_cast<int64_t>(blockIdx.x) * TEAMS + team);
    Room<T, true> room(memory, team, columns);
    Part part(a.offsets, item >= 0 ? list[item] : -1);
    if (SHARED)
        part.cut<TEAM, TEAMS>(team);
    clear<TEAM>(room, columns);
    add_all<TEAM>(a, b, part, room);
    if (SHARED)
        room = add_teams<TEAMS, T, true>(memory, columns);
    if (SHARED && threadIdx.x >= WRITERS)
        return;
    /* In a spread, the number of entries decides whether and where the row is written. */
    int32_t row = part.row;
    bool at_once = !c.spread.size && row >= 0;
    int count = write<WRITERS>(c, at_once, room, columns, at_once ? c.start[row] : 0, 0);
    bool written = report<WRITERS>(c, row, count);
    if (!c.spread.size)
        return;
    /* The first thread of the team may have set the extra chunk. */
    bool extra = written && count > c.spread.size;
    write<WRITERS>(c, written, room, columns, written ? spg_first_chunk(&c.spread, row) : 0,
                   extra ? static_cast<volatile int32_t *>(c.spread.first_extra)[row] : 0);
}

template <int WIDTH> __device__ int64_t sum_of(int64_t mine) {
    for (int step = WIDTH / 2; step > 0; step /= 2)
        mine += __shfl_xor_sync(~0u, mine, step);
    return mine;
}

__device__ void add_total(spg_bound_totals *totals, int64_t products) {
    atomicAdd(reinterpret_cast<unsigned long long *>(&totals->bound), static_cast<unsigned long long>(products));
}

/* A team counts a row; the longest rows are counted first. */
template <int TEAM>
__global__ void __launch_bounds__(THREADS<false>)
    count_rows(Operand<spg_pattern> a, Operand<spg_pattern> b, int columns, spg_narrow_count found) {
    extern __shared__ __align__(16) unsigned char memory[];
    int team = threadIdx.x / TEAM;
    int64_t later = static_cast<int64_t>(blockIdx.x) * (THREADS<false> / TEAM) + team;
    int64_t item = rows_of_teams(found.bins) - 1 - later;
    Room<spg_pattern, false> room(memory, team, columns);
    Part part(a.offsets, item >= 0 ? found.list[item] : -1);
    clear<TEAM>(room, columns);
    int64_t products = sum_of<TEAM>(add_all<TEAM>(a, b, part, room));
    __syncwarp();
    int count = write<TEAM>(spg_target(), false, room, columns, 0, 0);
    if (part.row >= 0 && threadIdx.x % TEAM == 0) {
        found.size[part.row] = count;
        found.bound[part.row] = static_cast<int32_t>(products); /* of at most 128 x SPG_NARROW */
    }
}

/* A block counts a row. */
template <int TEAM>
__global__ void __launch_bounds__(THREADS<true>)
    count_long_rows(Operand<spg_pattern> a, Operand<spg_pattern> b, int columns, spg_narrow_count found) {
    extern __shared__ __align__(16) unsigned char memory[];
    __shared__ int64_t sums[THREADS<true> / 32];
    constexpr int TEAMS = THREADS<true> / TEAM;
    int team = threadIdx.x / TEAM;
    Room<spg_pattern, false> room(memory, team, columns);
    int32_t before = rows_of_teams(found.bins), items = found.bins[SPG_WARP_BINS];
    for (int32_t item = static_cast<int32_t>(blockIdx.x); item < items; item += static_cast<int32_t>(gridDim.x)) {
        Part part(a.offsets, found.list[before + item]);
        part.cut<TEAM, TEAMS>(team);
        clear<TEAM>(room, columns);
        int64_t products = sum_of<32>(add_all<TEAM>(a, b, part, room));
        if (threadIdx.x % 32 == 0)
            sums[threadIdx.x / 32] = products;
        Room<spg_pattern, false> all = add_teams<TEAMS, spg_pattern, false>(memory, columns);
        int count = write<32>(spg_target(), false, all, columns, 0, 0);
        products = 0;
        for (int64_t sum : sums)
            products += sum;
        int64_t capped = min(products, static_cast<int64_t>(INT_MAX)); /* sum_bounds() adds it */
        if (threadIdx.x == 0) {
            found.size[part.row] = count;
            found.bound[part.row] = static_cast<int32_t>(capped);
            if (products > capped)
                add_total(found.totals, products - capped);
        }
        __syncthreads();
    }
}

/* Adds the totals of `bound`. */
__global__ void __launch_bounds__(THREADS<true>)
    sum_bounds(const int32_t *bound, int32_t rows, spg_bound_totals *totals) {
    int64_t sum = 0, step = static_cast<int64_t>(gridDim.x) * THREADS<true>;
    int32_t most = 0;
    for (int64_t i = static_cast<int64_t>(blockIdx.x) * THREADS<true> + threadIdx.x; i < rows; i += step) {
        sum += bound[i];
        most = max(most, bound[i]);
    }
    sum = sum_of<32>(sum);
    most = __reduce_max_sync(~0u, most);
    if (threadIdx.x % 32)
        return;
    totals->not_short = 1;
    add_total(totals, sum);
    atomicMax(&totals->row_max, most);
}

template <typename T, bool SHARED, int TEAM>
cudaError_t launch_teams(const spg_operand &a, const spg_operand &b, const int32_t *list, int32_t rows,
                         const spg_target &c, cudaStream_t stream) {
    constexpr int TEAMS = THREADS<SHARED> / TEAM;
    size_t shared = static_cast<size_t>(TEAMS) * Room<T, true>::bytes(b.columns);
    unsigned blocks = SHARED ? static_cast<unsigned>(rows) : static_cast<unsigned>((rows - 1) / TEAMS + 1);
    cudaError_t status = cudaSuccess;
    if (shared > 48 * 1024)
        status = cudaFuncSetAttribute(narrow_rows<T, SHARED, TEAM>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                      static_cast<int>(shared));
    if (status != cudaSuccess)
        return status;
    narrow_rows<T, SHARED, TEAM>
        <<<blocks, THREADS<SHARED>, shared, stream>>>(Operand<T>(a), Operand<T>(b), list, rows, b.columns, c);
    return cudaGetLastError();
}

template <int TEAM>
cudaError_t launch_count(const spg_operand &a, const spg_operand &b, const spg_narrow_count &found,
                         cudaStream_t stream) {
    constexpr int TEAMS = THREADS<false> / TEAM, TEAMS_OF_LONG = THREADS<true> / TEAM;
    size_t bytes = static_cast<size_t>(Room<spg_pattern, false>::bytes(b.columns));
    unsigned blocks = static_cast<unsigned>((a.rows - 1) / TEAMS + 1), few = std::min(blocks, MOST_BLOCKS);
    Operand<spg_pattern> left(a), right(b);
    count_long_rows<TEAM><<<few, THREADS<true>, TEAMS_OF_LONG * bytes, stream>>>(left, right, b.columns, found);
    count_rows<TEAM><<<blocks, THREADS<false>, TEAMS * bytes, stream>>>(left, right, b.columns, found);
    sum_bounds<<<std::min(blocks, 128u), THREADS<true>, 0, stream>>>(found.bound, a.rows, found.totals);
    return cudaGetLastError();
}

/* Calls launch(TEAM), with about as many threads as rows of B have entries. */
template <typename F> cudaError_t by_team(const spg_operand &b, int64_t entries, const F &launch) {
    if (entries <= 8 && b.columns <= MOST_COLUMNS * 8)
        return launch(std::integral_constant<int, 8>());
    if (entries <= 16 && b.columns <= MOST_COLUMNS * 16)
        return launch(std::integral_constant<int, 16>());
    return launch(std::integral_constant<int, 32>());
}

int64_t mean_of(const spg_operand &b) { return b.rows ? b.stored / b.rows : 0; }

template <typename T>
cudaError_t launch_numeric(bool shared, const spg_operand &a, const spg_operand &b, const int32_t *list, int32_t rows,
                           const spg_target &c, cudaStream_t stream) {
    if (!rows)
        return cudaSuccess;
    auto launch = [&](auto team) {
        return shared ? launch_teams<T, true, team>(a, b, list, rows, c, stream)
                      : launch_teams<T, false, team>(a, b, list, rows, c, stream);
    };
    /* The parts of a shared row decide the bits of its sums. So they must not depend on B's entries: a product in slabs
     * (host.c) leaves out rows of B. */
    return by_team(b, shared ? 0 : mean_of(b), launch);
}

} // namespace

cudaError_t spg_launch_narrow_count(const spg_operand *a, const spg_operand *b, const spg_narrow_count *found,
                                    cudaStream_t stream) {
    if (!a->rows)
        return cudaSuccess;
    return by_team(*b, mean_of(*b), [&](auto team) { return launch_count<team>(*a, *b, *found, stream); });
}

cudaError_t spg_launch_narrow_rows(spg_precision precision, const spg_operand *a, const spg_operand *b,
                                   const int32_t *list, const int32_t *count, const spg_target *c,
                                   cudaStream_t stream) {
    int32_t rows = rows_of_teams(count);
    cudaError_t status =
        SPG_BY_VALUE(precision, launch_numeric, true, *a, *b, list + rows, count[SPG_WARP_BINS], *c, stream);
    return status == cudaSuccess ? SPG_BY_VALUE(precision, launch_numeric, false, *a, *b, list, rows, *c, stream)
                                 : status;
}
