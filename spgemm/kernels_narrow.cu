/* Rows of a C of few columns (SPG_NARROW): B is tall and skinny. A row has a sum for each column, so nothing is
 * searched and nothing is sorted.
 *
 * The pattern of a row is a mask: words of 64 bits, one for each column. First B's rows become masks, and C's rows are
 * counted: the mask of a row is the union of the masks of B's rows that A's row refers to. Then the values are
 * computed. A team of threads computes a row; a block computes a row of many entries of A. A team has about as many
 * threads as a row of B has entries, but not so few that the teams' sums need too much memory.
 *
 * 1. add: the threads of a team take the entries of one row of B, whose columns differ, so additions are plain reads
 *    and writes. The entries of several rows of B are read before the first one is added. The teams of a block take
 *    equal parts of A's row, and have sums of their own, which are added in the order of the teams. So C has the same
 *    bits in every run.
 * 2. write: the mask of the row gives the ranks of its columns, and the entries come out in their order.
 *
 * The bins (bins.h) give the teams of a warp rows of similar lengths.
 *
 * Cost: counting reads one mask for each entry of A; computing has one addition in shared memory for each intermediate
 * product, and a look at each column of C for each row. Shared memory: a value for each column and team. */
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

using Word = uint64_t; /* of a mask */
constexpr int BITS = SPG_MASK_BITS;
constexpr int MASKERS = SPG_NARROW / BITS; /* threads that make the mask of a row of B */

/* Threads of a block, whose teams share a row or not. A small block does not wait long for its slowest team. */
template <bool SHARED> constexpr int THREADS = SHARED ? 256 : 128;

template <typename T> using Operand = spg_typed_operand<T>;

/* The sums of a team are that far from those of the next one: a multiple of 16, and larger, so that the teams of a
 * warp use different banks. */
__host__ __device__ int padded(int columns) { return (columns + 31) / 16 * 16; }

/* A row of A, or the part of it that one of several teams takes. A team without a row has number -1 and no entries. */
struct Part {
    int32_t row, first = 0, end = 0;

    template <typename M> __device__ Part(const M &m, int32_t number) : row(number) {
        spg_entries entries = spg_entries_of(m, row);
        first = entries.first;
        end = entries.end;
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

template <typename T>
__device__ Term<T> term_of(const Operand<T> &a, const Operand<T> &b, const Part &part, int32_t at, int32_t middle) {
    Term<T> term;
    if (middle >= 0) {
        spg_entries row = spg_entries_of(b, middle);
        term.from = row.first;
        term.length = row.count();
        term.factor = spg_read_value(a.values, part.first + at);
    }
    return term;
}

/* Adds a product for each thread whose column is one of C's: not -1, nor a wrong one. */
template <typename T> __device__ void add(T *sums, T factor, int32_t column, int32_t columns, const T &value) {
    if (static_cast<uint32_t>(column) < static_cast<uint32_t>(columns))
        sums[column] = spg_plus_product(sums[column], factor, value);
    __syncwarp();
}

/* Adds the products of the part, by one team. All teams of a warp call it together. Entries of A are read two steps
 * ahead, and the bounds of their rows of B one step. */
template <int TEAM, typename T>
__device__ void add_all(const Operand<T> &a, const Operand<T> &b, const Part &part, T *sums) {
    int lane = threadIdx.x % TEAM;
    int32_t most = __reduce_max_sync(~0u, part.end - part.first);
    Term<T> next = term_of(a, b, part, lane, middle_of(a, part, lane));
    int32_t middle = middle_of(a, part, lane + TEAM);
    for (int32_t base = 0; base < most; base += TEAM) {
        Term<T> mine = next;
        next = term_of(a, b, part, base + lane + TEAM, middle);
        middle = middle_of(a, part, base + lane + 2 * TEAM);
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
                value[i] = lane < length ? spg_read_value(b.values, from + lane) : T(0);
                longest = max(longest, length);
            }
            bool is_long = __any_sync(~0u, longest > TEAM);
#pragma unroll
            for (int i = 0; i < AHEAD; i++) {
                T factor = shuffled<TEAM>(mine.factor, j + i);
                add(sums, factor, column[i], b.columns, value[i]);
                if (!is_long)
                    continue;
                int32_t from = __shfl_sync(~0u, mine.from, j + i, TEAM);
                int32_t length = __shfl_sync(~0u, mine.length, j + i, TEAM);
                for (int32_t at = TEAM; __any_sync(~0u, at < length); at += TEAM) {
                    int32_t l = from + at + lane;
                    bool has = at + lane < length;
                    add(sums, factor, has ? b.indices[l] : -1, b.columns, has ? spg_read_value(b.values, l) : T(0));
                }
            }
        }
    }
}

/* Where the row is written: its first slot and its first extra chunk. Requests extra chunks, for WRITERS threads.
 * Returns whether the row is written. */
template <int WRITERS>
__device__ bool place(const spg_target &c, int32_t row, int32_t size, int64_t *start, int64_t *first_extra) {
    int written = row >= 0;
    *start = *first_extra = 0;
    if (!c.spread.size) {
        *start = written ? c.start[row] : 0;
        return written;
    }
    if (written && size > c.spread.size && threadIdx.x % WRITERS == 0)
        written = spg_spread_request(c.spread, row, size);
    if (!__shfl_sync(~0u, written, 0, WRITERS))
        return false;
    *start = spg_first_chunk(&c.spread, row);
    /* The first thread may have set the extra chunk. */
    if (size > c.spread.size)
        *first_extra = static_cast<volatile int32_t *>(c.spread.first_extra)[row];
    return true;
}

/* Writes the row by WRITERS threads. */
template <int WRITERS, typename T>
__device__ void write(const spg_target &c, const Word *mask, const T *sums, int columns, int64_t start,
                      int64_t first_extra) {
    int before = 0, lane = threadIdx.x % WRITERS;
    for (int base = 0; base < columns; base += BITS) {
        Word word = mask[base / BITS];
        for (int bit = lane; bit < BITS; bit += WRITERS) {
            if (!(word >> bit & 1))
                continue;
            int rank = before + __popcll(word & ((Word{1} << bit) - 1));
            int64_t slot = c.spread.size ? spg_spread_slot(&c.spread, start, first_extra, rank) : start + rank;
            c.columns[slot] = base + bit;
            spg_write_value(static_cast<T *>(c.values), slot, sums[base + bit]);
        }
        before += __popcll(word);
    }
}

/* Adds the sums of the block's teams to those of the first one. */
template <int TEAMS, typename T> __device__ void add_teams(T *sums, int columns) {
    __syncthreads();
    for (int i = threadIdx.x; i < columns; i += THREADS<true>) {
        T sum = 0;
        for (int team = 0; team < TEAMS; team++)
            sum += sums[team * padded(columns) + i];
        sums[i] = sum;
    }
    __syncthreads();
}

/* SHARED: the teams of a block share a row. Else the longest rows are computed first. */
template <typename T, bool SHARED, int TEAM>
__global__ void __launch_bounds__(THREADS<SHARED>)
    narrow_rows(Operand<T> a, Operand<T> b, const int32_t *list, int32_t rows, int columns, const Word *masks,
                spg_target c) {
    extern __shared__ __align__(16) unsigned char memory[];
    constexpr int TEAMS = THREADS<SHARED> / TEAM, WRITERS = SHARED ? 32 : TEAM;
    int team = threadIdx.x / TEAM;
    int64_t item = SHARED ? blockIdx.x : rows - 1 - (static_cast<int64_t>(blockIdx.x) * TEAMS + team);
    T *all = reinterpret_cast<T *>(memory), *sums = all + team * padded(columns);
    Part part(a, item >= 0 ? list[item] : -1);
    if (SHARED)
        part.cut<TEAM, TEAMS>(team);
    if constexpr (spg_has_value<T>) {
        for (int i = threadIdx.x % TEAM; i < columns; i += TEAM)
            sums[i] = 0;
        __syncwarp();
        add_all<TEAM>(a, b, part, sums);
        if (SHARED)
            add_teams<TEAMS>(all, columns);
    }
    if (SHARED && threadIdx.x >= WRITERS)
        return;
    int64_t start, first_extra;
    int32_t size = part.row >= 0 ? c.size[part.row] : 0;
    if (place<WRITERS>(c, part.row, size, &start, &first_extra))
        write<WRITERS>(c, masks + part.row * static_cast<int64_t>(spg_mask_words(columns)), SHARED ? all : sums,
                       columns, start, first_extra);
}

template <int WIDTH, typename N> __device__ N sum_of(N mine) {
    for (int step = WIDTH / 2; step > 0; step /= 2)
        mine += __shfl_xor_sync(~0u, mine, step);
    return mine;
}

__device__ void add_total(spg_bound_totals *totals, int64_t products) {
    atomicAdd(reinterpret_cast<unsigned long long *>(&totals->bound), static_cast<unsigned long long>(products));
}

/* Rows that teams compute come first in the list. */
__host__ __device__ int32_t rows_of_teams(const int32_t *count) {
    int32_t rows = 0;
    for (int bin = 0; bin < SPG_WARP_BINS; bin++)
        rows += count[bin];
    return rows;
}

/* Sets the masks of B's rows, a team for each. */
__global__ void __launch_bounds__(THREADS<true>)
    mask_rows(Operand<spg_pattern> b, int32_t rows, int words, Word *masks) {
    int64_t row = (static_cast<int64_t>(blockIdx.x) * THREADS<true> + threadIdx.x) / MASKERS;
    int lane = threadIdx.x % MASKERS;
    Part part(b, row < rows ? static_cast<int32_t>(row) : -1);
    int32_t most = __reduce_max_sync(~0u, part.end - part.first);
    Word mine = 0;
    for (int32_t base = 0; base < most; base += MASKERS) {
        int32_t column = middle_of(b, part, base + lane);
#pragma unroll
        for (int i = 0; i < MASKERS; i++) {
            int32_t other = __shfl_sync(~0u, column, i, MASKERS);
            /* -1 / BITS is 0 */
            if (static_cast<uint32_t>(other) < static_cast<uint32_t>(b.columns) && other / BITS == lane)
                mine |= Word{1} << other % BITS;
        }
    }
    if (part.row >= 0 && lane < words)
        masks[row * words + lane] = mine;
}

/* What a thread has found of a row: a word of its mask, and intermediate products. */
struct Found {
    Word word = 0;
    int64_t products = 0;
};

/* Number of the word that a thread reads. WORDS is spg_mask_words() or the next power of two. */
template <int WORDS> __device__ int word_number() { return threadIdx.x % WORDS; }

/* Adds up the masks of the part's entries, by TEAM threads: TEAM / WORDS entries at a time. */
template <int WORDS, int TEAM>
__device__ Found found_of(const Operand<spg_pattern> &a, const Part &part, int words, const Word *masks) {
    constexpr int ENTRIES = TEAM / WORDS;
    int number = word_number<WORDS>();
    Found found;
#pragma unroll 4
    for (int32_t at = static_cast<int32_t>(threadIdx.x % TEAM) / WORDS; at < part.end - part.first; at += ENTRIES) {
        int32_t middle = a.indices[part.first + at];
        bool exists = static_cast<uint32_t>(middle) < static_cast<uint32_t>(a.columns);
        Word word = number < words && exists ? masks[middle * static_cast<int64_t>(words) + number] : 0;
        found.word |= word;
        found.products += __popcll(word);
    }
    return found;
}

/* Of LANES threads of a warp: each word is the union of theirs, and the products are summed. */
template <int WORDS, int LANES> __device__ void join(Found &found) {
#pragma unroll
    for (int step = LANES / 2; step >= WORDS; step /= 2)
        found.word |= __shfl_xor_sync(~0u, found.word, step);
    found.products = sum_of<LANES>(found.products);
}

/* Stores what is known of the row, by the WORDS threads that have the words of its mask. The warp calls it. */
template <int WORDS>
__device__ void store(const spg_narrow_count &to, int32_t row, int words, const Found &found, bool mine) {
    int size = sum_of<WORDS>(__popcll(found.word)), number = word_number<WORDS>();
    int64_t capped = min(found.products, static_cast<int64_t>(INT_MAX)); /* sum_bounds() adds it */
    if (!mine || row < 0)
        return;
    if (number < words)
        to.masks[row * static_cast<int64_t>(words) + number] = found.word;
    if (number)
        return;
    to.size[row] = size;
    to.bound[row] = static_cast<int32_t>(capped);
    if (found.products > capped)
        add_total(to.totals, found.products - capped);
}

/* A team counts a row; the longest rows are counted first. */
template <int WORDS, int TEAM>
__global__ void __launch_bounds__(THREADS<false>)
    count_rows(Operand<spg_pattern> a, int words, const Word *masks, spg_narrow_count to) {
    int64_t later = (static_cast<int64_t>(blockIdx.x) * THREADS<false> + threadIdx.x) / TEAM;
    int64_t item = rows_of_teams(to.bins) - 1 - later;
    Part part(a, item >= 0 ? to.list[item] : -1);
    Found found = found_of<WORDS, TEAM>(a, part, words, masks);
    join<WORDS, TEAM>(found);
    store<WORDS>(to, part.row, words, found, threadIdx.x % TEAM < WORDS);
}

/* A block counts a row. */
template <int WORDS>
__global__ void __launch_bounds__(THREADS<true>)
    count_long_rows(Operand<spg_pattern> a, int words, const Word *masks, spg_narrow_count to) {
    constexpr int WARPS = THREADS<true> / 32;
    __shared__ Found parts[WARPS][WORDS];
    int32_t before = rows_of_teams(to.bins), items = to.bins[SPG_WARP_BINS];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (int32_t item = static_cast<int32_t>(blockIdx.x); item < items; item += static_cast<int32_t>(gridDim.x)) {
        Part part(a, to.list[before + item]);
        Found found = found_of<WORDS, THREADS<true>>(a, part, words, masks);
        join<WORDS, 32>(found);
        if (lane < WORDS)
            parts[warp][lane] = found;
        __syncthreads();
        if (warp == 0) {
            Found all;
            for (int i = 0; i < WARPS; i++) {
                all.word |= parts[i][word_number<WORDS>()].word;
                all.products += parts[i][0].products;
            }
            store<WORDS>(to, part.row, words, all, lane < WORDS);
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
                         const Word *masks, const spg_target &c, cudaStream_t stream) {
    constexpr int TEAMS = THREADS<SHARED> / TEAM;
    size_t shared = spg_has_value<T> ? TEAMS * padded(b.columns) * sizeof(T) : 0;
    unsigned blocks = SHARED ? static_cast<unsigned>(rows) : static_cast<unsigned>((rows - 1) / TEAMS + 1);
    cudaError_t status = cudaSuccess;
    if (shared > 48 * 1024)
        status = cudaFuncSetAttribute(narrow_rows<T, SHARED, TEAM>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                      static_cast<int>(shared));
    if (status != cudaSuccess)
        return status;
    narrow_rows<T, SHARED, TEAM>
        <<<blocks, THREADS<SHARED>, shared, stream>>>(Operand<T>(a), Operand<T>(b), list, rows, b.columns, masks, c);
    return cudaGetLastError();
}

template <int WORDS>
cudaError_t launch_count(const spg_operand &a, const spg_operand &b, Word *masks, const spg_narrow_count &to,
                         cudaStream_t stream) {
    constexpr int TEAM = WORDS < 4 ? 8 : 4 * WORDS;
    int words = spg_mask_words(b.columns);
    auto blocks_of = [](int64_t threads, int block) { return static_cast<unsigned>((threads + block - 1) / block); };
    unsigned blocks = blocks_of(int64_t{a.rows} * TEAM, THREADS<false>);
    Operand<spg_pattern> left(a), right(b);
    if (b.rows)
        mask_rows<<<blocks_of(int64_t{b.rows} * MASKERS, THREADS<true>), THREADS<true>, 0, stream>>>(right, b.rows,
                                                                                                     words, masks);
    count_long_rows<WORDS><<<std::min(blocks, MOST_BLOCKS), THREADS<true>, 0, stream>>>(left, words, masks, to);
    count_rows<WORDS, TEAM><<<blocks, THREADS<false>, 0, stream>>>(left, words, masks, to);
    sum_bounds<<<std::min(blocks, 128u), THREADS<true>, 0, stream>>>(to.bound, a.rows, to.totals);
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

template <typename T>
cudaError_t launch_numeric(bool shared, const spg_operand &a, const spg_operand &b, const int32_t *list, int32_t rows,
                           const Word *masks, const spg_target &c, cudaStream_t stream) {
    if (!rows)
        return cudaSuccess;
    auto launch = [&](auto team) {
        return shared ? launch_teams<T, true, team>(a, b, list, rows, masks, c, stream)
                      : launch_teams<T, false, team>(a, b, list, rows, masks, c, stream);
    };
    /* The parts of a shared row decide the bits of its sums. So they must not depend on B's entries: a product in slabs
     * (host.c) leaves out rows of B. */
    return by_team(b, shared || !b.rows ? 0 : b.stored / b.rows, launch);
}

} // namespace

cudaError_t spg_launch_narrow_count(const spg_operand *a, const spg_operand *b, uint64_t *b_masks,
                                    const spg_narrow_count *to, cudaStream_t stream) {
    static_assert(SPG_NARROW == 8 * BITS, "a case for each power of two up to 8");
    int words = spg_mask_words(b->columns);
    if (!a->rows)
        return cudaSuccess;
    return words <= 1   ? launch_count<1>(*a, *b, b_masks, *to, stream)
           : words <= 2 ? launch_count<2>(*a, *b, b_masks, *to, stream)
           : words <= 4 ? launch_count<4>(*a, *b, b_masks, *to, stream)
                        : launch_count<8>(*a, *b, b_masks, *to, stream);
}

cudaError_t spg_launch_narrow_rows(spg_precision precision, const spg_operand *a, const spg_operand *b,
                                   const int32_t *list, const int32_t *count, const uint64_t *masks,
                                   const spg_target *c, cudaStream_t stream) {
    int32_t rows = rows_of_teams(count);
    cudaError_t status =
        SPG_BY_VALUE(precision, launch_numeric, true, *a, *b, list + rows, count[SPG_WARP_BINS], masks, *c, stream);
    return status == cudaSuccess ? SPG_BY_VALUE(precision, launch_numeric, false, *a, *b, list, rows, masks, *c, stream)
                                 : status;
}
