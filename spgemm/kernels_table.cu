/* The fast accumulator: a group of threads computes one row of C in a hash table in shared memory. Small rows have a
 * part of a warp or a warp, long rows a block.
 *
 * 1. insert: each thread reads one entry of A's row, and the bounds of its row of B. A group inside a warp takes these
 *    entries one after the other; its threads take the entries of that row of B, whose columns differ. The threads of
 *    a warp search and claim table slots together, and add by plain read and write, because no other thread has the
 *    same slot. The warps of a block take turns (turns.cuh). So no addition is atomic, and sums are the same in every
 *    run. A full table ends the row: it is listed as overflowed.
 *    Rows of A of equal pattern share a table (bins.h): each product's column is probed once for up to SPG_ALIKE rows,
 *    which have a sum each in the slot.
 * 2. The number of claimed table slots is the size of the row. The symbolic phase (NUMERIC = false) ends here.
 * 3. sort: each used table slot becomes a number, column x slots + slot. A network sorts these numbers in registers, by
 *    shuffles inside a warp and through shared memory between warps. A group inside a warp moves them together first,
 *    and sorts only as many; a block sorts one number for each slot. Numbers of more than 32 bits, of very wide
 *    matrices, are sorted in shared memory.
 * 4. write: entries are read in the order of columns and written to the row's slots of C.
 *
 * Cost: one probe or more for each intermediate product, one pass over the table, and log^2(slots) / 2 exchanges of
 * each number. Shared memory: for each row, table slots x (4 bytes + a value), or 8 bytes and a value for wide
 * matrices. Source: Nagasaka et al. (bins.h). */
#include "spgemm/kernels.h"
#include "spgemm/beside.cuh"
#include "spgemm/network.cuh"
#include "spgemm/operand.cuh"
#include "spgemm/spread.cuh"
#include "spgemm/turns.cuh"
#include "spgemm/warp.cuh"

#include <type_traits>

namespace {

template <typename T> using Operand = spg_typed_operand<T>;

/* Listed rows stand for their groups (bins.h), unless alike is NULL. */
struct Groups {
    const uint8_t *alike;
    int32_t rows, slab;
};

struct Overflow {
    int32_t *rows;
    spg_overflows *state;
};

constexpr int32_t NONE = SPG_EMPTY - 1; /* no column */
constexpr int FULL = 1 << 30;           /* more than the entries of any row that warps compute (SPG_TABLE_PRODUCTS) */

constexpr int log2_of(int number) { return number > 1 ? 1 + log2_of(number / 2) : 0; }

/* An entry of A: its row of B and its value, in each row of the group. */
template <typename T, int ALIKE> struct alignas(16) Term {
    T factor[ALIKE] = {};
    int32_t from = 0, length = 0;
};

/* Threads and memory of a bin. KEY: uint32_t or uint64_t, holds column x slots + slot. ALIKE: rows that share a table.
 */
template <typename T, typename KEY, int BIN, bool NUMERIC, int ALIKE> struct Shape {
    static constexpr int alike = ALIKE;
    static constexpr int slots = SPG_TABLE_SLOTS_MIN << BIN, log2_slots = log2_of(slots);
    [[maybe_unused]] static constexpr int place_shift = 32 - log2_slots, log2_value = log2_of(sizeof(T));
    static constexpr int threads = BIN == 3 ? 32 : SPG_GROUP_MIN << BIN;
    static constexpr bool whole = threads > 32; /* the row has the block for itself */
    static constexpr bool gathered = NUMERIC && !whole && sizeof(KEY) == sizeof(uint32_t); /* gather() */
    [[maybe_unused]] static constexpr int lanes = whole ? 32 : threads, warps = whole ? threads / 32 : 1;
    static constexpr int block = whole ? threads : BIN == 3 || ALIKE > 1 ? 128 : 256, rows = block / threads;
    static constexpr int each = slots / threads; /* table slots that a thread sorts */
    /* Threads of a multiprocessor: 64, 48 or 40 registers, or 32 where a block counts. Shared memory limits the rows of
     * bin 3. */
    static constexpr int most = whole || ALIKE > 1 ? 1024 : BIN == 3 || sizeof(KEY) == 8 ? 1280 : 1536;
    static constexpr int resident = whole && !NUMERIC ? 2048 : most;
    static constexpr int blocks = resident / block;
    /* The rows of a warp step through their tables together. The padding puts them on different banks. */
    static constexpr int stride = slots + (threads < 32 ? threads : 0);
    static constexpr size_t keys = NUMERIC ? sizeof(KEY) : sizeof(int32_t);
    static constexpr size_t tables = static_cast<size_t>(rows) * stride * (keys + (NUMERIC ? ALIKE * sizeof(T) : 0));
    static constexpr size_t shared =
        tables + (whole ? sizeof(spg_terms<T, threads>) : rows * (lanes + 1) * sizeof(Term<T, ALIKE>));
};

/* The rows of the group have `length` entries each, one row behind the other. */
template <typename T, int ALIKE, bool NUMERIC>
__device__ Term<T, ALIKE> read_term(const Operand<T> &a, const Operand<T> &b, int32_t k, int32_t length, int alike) {
    Term<T, ALIKE> term;
    int32_t middle = a.indices[k];
    term.from = b.offsets[middle];
    term.length = b.offsets[middle + 1] - term.from;
#pragma unroll
    for (int g = 0; g < ALIKE; g++)
        if (NUMERIC && g < alike)
            term.factor[g] = spg_read_value(a.values, k + g * length);
    return term;
}

template <typename T> struct Entry {
    int32_t column = NONE;
    T value = 0;
};

template <typename T, bool NUMERIC> __device__ Entry<T> read_entry(const Operand<T> &b, int32_t l, int32_t end) {
    Entry<T> entry;
    if (l < end) {
        entry.column = b.indices[l];
        if (NUMERIC)
            entry.value = spg_read_value(b.values, l);
    }
    return entry;
}

struct Inserted {
    int claimed = 0; /* table slots that this thread claimed */
    bool full = false;
};

/* Hide from the compiler how a number was computed, so that it is not computed again where it is used. */
template <typename T> __device__ const T *kept(const T *pointer) {
#ifdef __CUDA_ARCH__
    size_t address = __cvta_generic_to_global(pointer);
    asm("" : "+l"(address));
    pointer = static_cast<const T *>(__cvta_global_to_generic(address));
#endif
    return pointer;
}
__device__ int kept(int number) {
#ifdef __CUDA_ARCH__
    asm("" : "+r"(number));
#endif
    return number;
}

/* The table of a row, its sums, and the terms that its group adds, at offsets in shared memory. A place is a table
 * slot, in the high bits of a number. */
template <typename T, typename S> struct Table {
    unsigned char *memory;
    int columns, sums, terms;

    __device__ int column_at(uint32_t place) const { return columns + static_cast<int>(place >> (S::place_shift - 2)); }
    __device__ int32_t *column(int at) const { return reinterpret_cast<int32_t *>(memory + at); }
    __device__ T *sum(int g, uint32_t place) const {
        constexpr int shift = S::place_shift - S::log2_value;
        return reinterpret_cast<T *>(memory + (sums + static_cast<int>(place >> shift))) + g * S::stride;
    }
    /* S::lanes + 1; the last one has no entries. */
    __device__ Term<T, S::alike> *term(int number) const {
        return reinterpret_cast<Term<T, S::alike> *>(memory +
                                                     (terms + number * static_cast<int>(sizeof(Term<T, S::alike>))));
    }
};

template <typename T, int ALIKE> __device__ Term<T, ALIKE> load(const Term<T, ALIKE> *from) {
    constexpr int parts = sizeof(Term<T, ALIKE>) / sizeof(uint4);
    uint4 part[parts];
    Term<T, ALIKE> term;
#pragma unroll
    for (int i = 0; i < parts; i++)
        part[i] = reinterpret_cast<const uint4 *>(from)[i];
    memcpy(&term, part, sizeof term);
    return term;
}

/* The term's entry of B for this thread, from entry number `first` on. `columns` and `values` are B's, moved by the
 * thread's number. */
template <typename T, int ALIKE, bool NUMERIC>
__device__ Entry<T> entry_of(const Term<T, ALIKE> &term, int32_t first, int lane, const int32_t *columns,
                             const T *values) {
    Entry<T> entry;
    if (first + lane < term.length) {
        entry.column = columns[term.from + first];
        if (NUMERIC)
            entry.value = spg_read_value(values, term.from + first);
    }
    return entry;
}

/* Barriers for racecheck, which does not count votes as barriers. They are votes of the values that were read, so the
 * warp needs no others. */
__device__ void sync_reads() {
#ifdef SPG_RACECHECK
    __syncwarp();
#endif
}

/* Writes a column to a slot that was empty, like other threads of the warp at the same time. racecheck takes writes of
 * one instruction for a race, but not atomic ones. */
__device__ void claim(int32_t *slot, int32_t column) {
#ifdef SPG_RACECHECK
    atomicExch(slot, column);
#else
    *slot = column;
#endif
}

/* Searches the place of a column for each thread, or claims an empty one. The columns of a group's threads differ. All
 * threads of the warp search together, so a claim needs no atomic operation: of several threads that write to a slot,
 * the one that finds its column there has claimed it. A thread that meets another column goes on to the next
 * slot: strides that differ from thread to thread are slower. Sets *missing if the table has no slot left.
 */
template <typename T, typename S> __device__ uint32_t search(const Table<T, S> &table, int32_t column, bool *missing) {
    constexpr uint32_t one = 1u << S::place_shift;
    uint32_t place = static_cast<uint32_t>(column) * SPG_HASH_FACTOR & ~(one - 1);
    int at = table.column_at(place);
    int32_t here = column;
    if (column != NONE)
        here = *table.column(at);
    bool differs = kept(here) != column; /* else the compiler moves `column` to `here` in each round */
#pragma unroll 4
    for (int left = 2 * S::slots; left && __any_sync(~0u, differs); left--) {
        sync_reads();
        if (here == SPG_EMPTY)
            claim(table.column(at), column);
        if (differs && here != SPG_EMPTY)
            place += one;
        at = table.column_at(place);
        __syncwarp();
        if (differs)
            here = *table.column(at);
        differs = kept(here) != column;
    }
    *missing = differs;
    return place;
}

/* Adds one product for each thread of the warp. A thread that finds no slot gets a number of no entry. */
template <typename T, typename S, bool NUMERIC>
__device__ void add(const Term<T, S::alike> &term, const Entry<T> &entry, const Table<T, S> &table, int *lane) {
    bool missing;
    uint32_t place = search(table, entry.column, &missing);
    if (NUMERIC && entry.column != NONE && !missing)
#pragma unroll
        for (int g = 0; g < S::alike; g++)
            *table.sum(g, place) = spg_plus_product(*table.sum(g, place), term.factor[g], entry.value);
    *lane = missing ? FULL : *lane;
    __syncwarp();
}

/* Adds the row's products, for a group inside a warp. The sums must be 0. All threads of the warp take part, with the
 * same number of steps; a group without a row has first = end. An entry of B is read while the one before is added.
 * Returns whether the table is too small. */
template <typename T, typename S, bool NUMERIC>
__device__ bool insert(const Operand<T> &a, const Operand<T> &b, int32_t first, int32_t end, int alike,
                       const Table<T, S> &table) {
    constexpr int LANES = S::lanes, ALIKE = S::alike;
    const int thread = threadIdx.x % LANES;
    int lane = thread; /* FULL, if the table is too small */
    /* The reduction also shows the compiler that the threads of the warp go through the loops together. */
    int32_t most = __reduce_max_sync(~0u, end - first);
    const int32_t *columns = kept(b.indices + thread);
    const T *values = kept(b.values + thread);
    for (int32_t base = 0; base < most; base += LANES) {
        Term<T, ALIKE> mine;
        for (int step = LANES / 2; step > 0; step /= 2)
            lane |= __shfl_xor_sync(~0u, lane, step) & FULL;
        if (lane < end - first - base)
            mine = read_term<T, ALIKE, NUMERIC>(a, b, first + base + lane, end - first, alike);
        bool long_rows = __any_sync(~0u, mine.length > LANES);
        *table.term(thread) = mine;
        if (thread == 0)
            *table.term(LANES) = Term<T, ALIKE>();
        __syncwarp();
        int here = static_cast<int>(min(most - base, static_cast<int32_t>(LANES)));
        Term<T, ALIKE> term = load(table.term(0));
        Entry<T> entry = entry_of<T, ALIKE, NUMERIC>(term, 0, lane, columns, values);
#pragma unroll 2
        for (int j = 0; j < here; j++) {
            Term<T, ALIKE> next = load(table.term(j + 1));
            if (long_rows)
                for (int32_t l = LANES; __any_sync(~0u, l + lane - thread < term.length); l += LANES) {
                    Entry<T> following = entry_of<T, ALIKE, NUMERIC>(term, l, lane, columns, values);
                    add<T, S, NUMERIC>(term, entry, table, &lane);
                    entry = following;
                }
            Entry<T> ahead = entry_of<T, ALIKE, NUMERIC>(next, 0, lane, columns, values);
            add<T, S, NUMERIC>(term, entry, table, &lane);
            term = next;
            entry = ahead;
        }
        __syncwarp();
    }
    return lane & FULL;
}

/* The same for a block, whose warps take turns (turns.cuh). The sums must be 0. */
template <typename T, typename S, bool NUMERIC>
__device__ Inserted insert_by_block(const Operand<T> &a, const Operand<T> &b, int32_t first, int32_t end,
                                    int32_t *table, T *sums, spg_terms<T, S::threads> &terms) {
    constexpr int warps = S::warps;
    Inserted in;
    for (; first < end; first += S::threads) {
        Term<T, 1> mine;
        int at = 0;
        if (static_cast<int32_t>(threadIdx.x) < end - first)
            mine = read_term<T, 1, NUMERIC>(a, b, first + static_cast<int32_t>(threadIdx.x), 0, 1);
        int turns = spg_terms_set(terms, mine.from, mine.from + mine.length, mine.factor[0]);
        for (int number = threadIdx.x / 32; number < turns; number += warps) {
            spg_turn<T> turn = spg_turn_at(terms, number, &at);
            int slot[SPG_AHEAD];
            Entry<T> entry[SPG_AHEAD];
#pragma unroll
            for (int i = 0; i < SPG_AHEAD; i++)
                entry[i] =
                    read_entry<T, NUMERIC>(b, turn.from + 32 * i + static_cast<int32_t>(threadIdx.x % 32), turn.end);
#pragma unroll
            for (int i = 0; i < SPG_AHEAD; i++) {
                bool claimed = false;
                slot[i] = -1;
                if (entry[i].column != NONE && !in.full) {
                    slot[i] = spg_table_find(table, S::log2_slots, entry[i].column, &claimed);
                    in.full = slot[i] < 0;
                }
                in.claimed += claimed;
            }
            if (!NUMERIC)
                continue;
            spg_turn_wait<false>(&terms.turn, number);
            T sum[SPG_AHEAD];
#pragma unroll
            for (int i = 0; i < SPG_AHEAD; i++)
                sum[i] = slot[i] >= 0 ? sums[slot[i]] : T(0);
#pragma unroll
            for (int i = 0; i < SPG_AHEAD; i++)
                if (slot[i] >= 0)
                    sums[slot[i]] = spg_plus_product(sum[i], turn.factor, entry[i].value);
            spg_turn_pass<false>(&terms.turn, number, turns);
        }
        __syncthreads();
    }
    return in;
}

/* The number of a used table slot: number i of the thread. */
template <typename S> __device__ uint32_t number_of(int32_t column, int i) {
    return (static_cast<uint32_t>(column) << S::log2_slots | threadIdx.x % S::threads) + i * S::threads;
}

/* Replaces the table's columns by the numbers of its used slots, for a group inside a warp. Returns how many these are.
 */
template <typename S> __device__ int gather(int32_t *table, uint32_t *numbers) {
    const int thread = threadIdx.x % S::threads;
    int32_t column[S::each];
    int used = S::each;
#pragma unroll
    for (int i = 0; i < S::each; i++) {
        column[i] = table[i * S::threads + thread];
        used += column[i] >> 31; /* SPG_EMPTY is negative */
    }
    int up_to = spg_sum_up_to<S::threads>(used);
    __syncwarp();
    uint32_t *to = numbers + (up_to - used);
#pragma unroll
    for (int i = 0; i < S::each; i++) {
        if (column[i] >= 0)
            to[i] = number_of<S>(column[i], i);
        to += column[i] >> 31;
    }
    __syncwarp();
    return __shfl_sync(~0u, up_to, S::threads - 1, S::threads);
}

/* Sorts the numbers of gather() with the smallest network that holds those of each row of the warp: K numbers a thread,
 * where SMALLER were too few. */
template <typename S, int K = S::each / 4, int SMALLER = 0> __device__ void sort_gathered(uint32_t *sorted, int count) {
    if constexpr (K < S::each)
        if (!__all_sync(~0u, count <= K * S::threads)) {
            constexpr int larger = K < 6 ? K + 1 : K < 8 ? 8 : K + 4;
            sort_gathered<S, larger, K>(sorted, count);
            return;
        }
    uint32_t key[K];
#pragma unroll
    for (int i = 0; i < K; i++) {
        int at = i * S::threads + static_cast<int>(threadIdx.x % S::threads);
        key[i] = (S::lanes == 32 && i < SMALLER) || at < count ? sorted[at] : ~0u;
    }
    spg_network<S::threads, K>::sort(key, sorted);
}

/* Replaces the table's columns by the sorted numbers of its used slots, for a block. The rest of the memory holds
 * larger numbers. */
template <typename S> __device__ void sort(int32_t *table, uint32_t *sorted) {
    uint32_t key[S::each];
#pragma unroll
    for (int i = 0; i < S::each; i++) {
        int32_t column = table[i * S::threads + static_cast<int>(threadIdx.x)];
        key[i] = column == SPG_EMPTY ? ~0u : number_of<S>(column, i);
    }
    spg_network<S::threads, S::each>::sort(key, sorted);
}

template <typename S> __device__ void sort(int32_t *table, uint64_t *sorted) {
    int thread = threadIdx.x % S::threads;
    int32_t column[S::each];
#pragma unroll
    for (int i = 0; i < S::each; i++)
        column[i] = table[i * S::threads + thread];
    spg_row_sync<S::threads>();
#pragma unroll
    for (int i = 0; i < S::each; i++) {
        int slot = i * S::threads + thread;
        sorted[slot] = column[i] == SPG_EMPTY
                           ? ~uint64_t{0}
                           : static_cast<uint64_t>(column[i]) << S::log2_slots | static_cast<uint64_t>(slot);
    }
    for (int run = 2; run <= S::slots; run *= 2) {
        for (int stride = run / 2; stride > 0; stride /= 2) {
            spg_row_sync<S::threads>();
            for (int pair = thread; pair < S::slots / 2; pair += S::threads) {
                int low = (pair & ~(stride - 1)) * 2 | (pair & (stride - 1));
                if (low & run)
                    spg_order_pair(sorted[low + stride], sorted[low]);
                else
                    spg_order_pair(sorted[low], sorted[low + stride]);
            }
        }
    }
    spg_row_sync<S::threads>();
}

/* Writes the entries of ranks `from` to `to` - 1 of a sorted row to the slots of their ranks, from `slot` on. */
template <typename T, typename S, typename KEY>
__device__ void write_ranks(const spg_target &c, int64_t slot, int from, int to, const KEY *sorted, const T *sums) {
    int32_t *columns = c.columns + slot;
    T *values = static_cast<T *>(c.values) + slot;
#pragma unroll 4
    for (int rank = from + static_cast<int>(threadIdx.x % S::threads); rank < to; rank += S::threads) {
        KEY key = sorted[rank];
        columns[rank] = static_cast<int32_t>(key >> S::log2_slots);
        spg_write_value(values, rank, sums[key & (S::slots - 1)]);
    }
}

/* Writes the sorted row to its slots. */
template <typename T, typename S, typename KEY>
__device__ void write(const spg_target &c, int32_t row, const KEY *sorted, const T *sums, int count) {
    const spg_spread &spread = c.spread;
    if (!spread.size) {
        write_ranks<T, S>(c, c.start[row], 0, count, sorted, sums);
        return;
    }
    int inside = min(count, spread.size);
    write_ranks<T, S>(c, spg_spread_slot(&spread, spg_first_chunk(&spread, row), 0, 0), 0, inside, sorted, sums);
    if (inside < count)
        write_ranks<T, S>(c, spg_spread_slot(&spread, 0, spread.first_extra[row], inside) - inside, inside, count,
                          sorted, sums);
}

/* Adds up over the threads of the row. gather() has added up the slots of its row. */
template <typename S> __device__ Inserted total_of(Inserted in, int *claimed, int *full) {
    for (int step = S::gathered ? 0 : S::lanes / 2; step > 0; step /= 2)
        in.claimed += __shfl_xor_sync(~0u, in.claimed, step);
    unsigned others = __ballot_sync(~0u, in.full);
    if (!S::whole) {
        unsigned lanes = S::lanes == 32 ? ~0u : ((1u << S::lanes % 32) - 1) << threadIdx.x % 32 / S::lanes * S::lanes;
        in.full = (others & lanes) != 0;
        return in;
    }
    if (threadIdx.x % 32 == 0) {
        atomicAdd(claimed, in.claimed);
        if (others)
            *full = 1;
    }
    __syncthreads();
    return {*claimed, *full != 0};
}

/* Requests the extra chunks of `alike` rows, if they need some. Returns a bit for each row that cannot be written, in
 * all threads of the group. */
template <typename S> __device__ int denied(const spg_target &c, int32_t row, int alike, int size, int *shared) {
    bool first = threadIdx.x % S::threads == 0;
    int bits = 0;
    for (int g = 0; g < alike; g++)
        if (first && c.spread.size && size > c.spread.size && !spg_spread_request(c.spread, row + g, size))
            bits |= 1 << g;
    if (!S::whole)
        return __shfl_sync(~0u, bits, 0, S::lanes);
    if (first)
        *shared = bits;
    __syncthreads();
    return *shared;
}

/* Stores the sizes of `alike` rows, or lists them as overflowed. Returns the number of rows to write. */
template <typename S>
__device__ int report(const spg_target &c, int32_t row, int alike, const Inserted &in, const Overflow &overflow) {
    for (int g = 0; g < alike && threadIdx.x % S::threads == 0; g++) {
        if (in.full)
            overflow.rows[atomicAdd(&overflow.state->listed, 1)] = row + g;
        else
            c.size[row + g] = in.claimed;
    }
    return in.full ? 0 : alike;
}

template <typename T, typename S> __device__ void clear(T *sums) {
    if constexpr (!spg_zero_is_clear<T>) {
        for (int i = threadIdx.x % S::threads; i < S::slots; i += S::threads)
            sums[i] = 0;
        return;
    }
    constexpr int count = S::slots * sizeof(T) / sizeof(uint4);
    for (int i = threadIdx.x % S::threads; i < count; i += S::threads)
        reinterpret_cast<uint4 *>(sums)[i] = {0, 0, 0, 0};
}

template <typename T, typename KEY, int BIN, bool NUMERIC, int ALIKE>
__global__ void __launch_bounds__(Shape<T, KEY, BIN, NUMERIC, ALIKE>::block, Shape<T, KEY, BIN, NUMERIC, ALIKE>::blocks)
    table_rows(Operand<T> a, Operand<T> b, const int32_t *list, int32_t count, Groups groups, spg_target c,
               Overflow overflow) {
    using S = Shape<T, KEY, BIN, NUMERIC, ALIKE>;
    extern __shared__ __align__(16) unsigned char memory[];
    __shared__ int claimed, full;
    int mine = threadIdx.x / S::threads, thread = threadIdx.x % S::threads;
    int64_t item = static_cast<int64_t>(blockIdx.x) * S::rows + mine;
    if (!list) {
        list = overflow.rows + overflow.state->from;
        count = min(count, overflow.state->count);
        if (static_cast<int64_t>(blockIdx.x) * S::rows >= count)
            return;
    }
    int sums_at = kept(static_cast<int>(NUMERIC ? mine * S::stride * ALIKE * sizeof(T) : 0));
    int table_at = kept(static_cast<int>((NUMERIC ? S::rows * S::stride * ALIKE * sizeof(T) : 0) +
                                         static_cast<size_t>(mine) * S::stride * S::keys));
    T *sums = reinterpret_cast<T *>(memory + sums_at);
    KEY *sorted = reinterpret_cast<KEY *>(memory + table_at);
    int32_t *table = reinterpret_cast<int32_t *>(sorted);
    int32_t row = 0, first = 0, end = 0;
    int alike = 0; /* rows of the group */
    if (item < count) {
        row = list[item];
        first = a.offsets[row];
        end = a.offsets[row + 1];
        if (groups.alike && (!NUMERIC || ALIKE > 1))
            alike = spg_group_rows(groups.alike, row, groups.rows, groups.slab);
        else
            alike = 1;
    }
#pragma unroll
    for (int i = 0; i < S::each; i++)
        table[i * S::threads + thread] = SPG_EMPTY;
    Inserted in;
    if (NUMERIC && spg_has_value<T> && !S::whole)
#pragma unroll
        for (int g = 0; g < S::alike; g++)
            clear<T, S>(sums + g * S::stride);
    if constexpr (S::whole) {
        for (int i = thread; NUMERIC && i < S::slots; i += S::threads)
            sums[i] = 0;
        if (thread == 0)
            claimed = full = 0;
        __syncthreads();
        in = insert_by_block<T, S, NUMERIC>(a, b, first, end, table, sums,
                                            *reinterpret_cast<spg_terms<T, S::threads> *>(memory + S::tables));
    } else {
        int terms = kept(static_cast<int>(S::tables + mine * (S::lanes + 1) * sizeof(Term<T, ALIKE>)));
        __syncwarp();
        in.full = insert<T, S, NUMERIC>(a, b, first, end, alike, {memory, table_at, sums_at, terms});
        if constexpr (S::gathered) {
            in.claimed = gather<S>(table, sorted);
        } else {
#pragma unroll
            for (int i = 0; i < S::each; i++)
                in.claimed += table[i * S::threads + thread] != SPG_EMPTY;
        }
    }
    in = total_of<S>(in, &claimed, &full);
    alike = report<S>(c, row, alike, in, overflow);
    if (!NUMERIC)
        return;
    spg_row_sync<S::threads>(); /* until every thread has read `full` */
    int denied_rows = denied<S>(c, row, alike, in.claimed, &full);
    if constexpr (S::gathered)
        sort_gathered<S>(sorted, alike ? in.claimed : 0);
    else
        sort<S>(table, sorted);
    for (int g = 0; g < alike; g++)
        if (!(denied_rows >> g & 1))
            write<T, S>(c, row + g, sorted, sums + g * S::stride, in.claimed);
}

template <typename T, typename KEY, int BIN, bool NUMERIC, int ALIKE>
cudaError_t launch_shape(const spg_operand &a, const spg_operand &b, const int32_t *list, int32_t rows,
                         const Groups &groups, const spg_target &c, const Overflow &overflow, cudaStream_t stream) {
    using S = Shape<T, KEY, BIN, NUMERIC, ALIKE>;
    auto *kernel = table_rows<T, KEY, BIN, NUMERIC, ALIKE>;
    cudaError_t status = spg_beside(kernel);
    /* The kernel's static shared variables count too. */
    if (status == cudaSuccess && S::shared + sizeof(int[2]) > 48 * 1024)
        status = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(S::shared));
    if (status != cudaSuccess)
        return status;
    kernel<<<(rows - 1) / S::rows + 1, S::block, S::shared, stream>>>(Operand<T>(a), Operand<T>(b), list, rows, groups,
                                                                      c, overflow);
    return cudaGetLastError();
}

template <typename T, typename KEY, int BIN, bool NUMERIC>
cudaError_t launch_key(const spg_operand &a, const spg_operand &b, const int32_t *list, int32_t rows,
                       const Groups &groups, const spg_target &c, const Overflow &overflow, cudaStream_t stream) {
    constexpr int alike = NUMERIC && BIN < SPG_ALIKE_BINS && std::is_floating_point_v<T> ? SPG_ALIKE : 1;
    return groups.alike ? launch_shape<T, KEY, BIN, NUMERIC, alike>(a, b, list, rows, groups, c, overflow, stream)
                        : launch_shape<T, KEY, BIN, NUMERIC, 1>(a, b, list, rows, groups, c, overflow, stream);
}

template <typename T, int BIN, bool NUMERIC>
cudaError_t launch(const spg_operand &a, const spg_operand &b, const int32_t *list, int32_t rows, const Groups &groups,
                   const spg_target &c, const Overflow &overflow, cudaStream_t stream) {
    constexpr int bits = 32 - (6 + BIN); /* of a column in a key of 32 bits */
    if constexpr (NUMERIC)
        if (b.columns >= int64_t{1} << bits)
            return launch_key<T, uint64_t, BIN, true>(a, b, list, rows, groups, c, overflow, stream);
    return launch_key<T, uint32_t, BIN, NUMERIC>(a, b, list, rows, groups, c, overflow, stream);
}

template <typename T, bool NUMERIC>
cudaError_t launch_bin(int bin, const spg_operand &a, const spg_operand &b, const int32_t *list, int32_t rows,
                       const Groups &groups, const spg_target &c, const Overflow &o, cudaStream_t stream) {
    static_assert(SPG_TABLES == 8, "one case for each bin");
    switch (bin) {
    case 0: return launch<T, 0, NUMERIC>(a, b, list, rows, groups, c, o, stream);
    case 1: return launch<T, 1, NUMERIC>(a, b, list, rows, groups, c, o, stream);
    case 2: return launch<T, 2, NUMERIC>(a, b, list, rows, groups, c, o, stream);
    case 3: return launch<T, 3, NUMERIC>(a, b, list, rows, groups, c, o, stream);
    case 4: return launch<T, 4, NUMERIC>(a, b, list, rows, groups, c, o, stream);
    case 5: return launch<T, 5, NUMERIC>(a, b, list, rows, groups, c, o, stream);
    case 6: return launch<T, 6, NUMERIC>(a, b, list, rows, groups, c, o, stream);
    default: return launch<T, 7, NUMERIC>(a, b, list, rows, groups, c, o, stream);
    }
}

} // namespace

/* This file makes two objects, which compile at the same time: for real values, and for the others. */
#ifdef SPG_OTHER_VALUES

#ifdef SPG_SEMIRINGS
const bool spg_semirings = true;
#else
const bool spg_semirings = false;
#endif

cudaError_t spg_launch_table_other(int bin, spg_precision precision, const spg_operand *a, const spg_operand *b,
                                   const int32_t *list, int32_t rows, const spg_target *c, cudaStream_t stream) {
    Groups none{};
    Overflow never{};
    if (precision == SPG_COMPLEX_DOUBLE)
        return launch_bin<spg_complex<double>, true>(bin, *a, *b, list, rows, none, *c, never, stream);
    if (precision == SPG_COMPLEX_FLOAT)
        return launch_bin<spg_complex<float>, true>(bin, *a, *b, list, rows, none, *c, never, stream);
#ifdef SPG_SEMIRINGS
    if (precision == SPG_MIN_PLUS_DOUBLE)
        return launch_bin<spg_min_plus<double>, true>(bin, *a, *b, list, rows, none, *c, never, stream);
    if (precision == SPG_MIN_PLUS_FLOAT)
        return launch_bin<spg_min_plus<float>, true>(bin, *a, *b, list, rows, none, *c, never, stream);
#endif
    return launch_bin<spg_pattern, true>(bin, *a, *b, list, rows, none, *c, never, stream);
}

#else

cudaError_t spg_launch_table(int bin, spg_precision precision, const spg_operand *a, const spg_operand *b,
                             const int32_t *list, int32_t rows, const uint8_t *alike, const spg_target *c,
                             int32_t *overflow, spg_overflows *overflows, cudaStream_t stream) {
    Overflow o{overflow, overflows};
    Groups groups{bin < SPG_ALIKE_BINS ? alike : nullptr, a->rows, c->spread.size ? c->spread.slab : INT32_MAX};
    if (!rows)
        return cudaSuccess;
    /* The symbolic phase needs no values, so one type serves all precisions. */
    if (!c->values)
        return launch_bin<float, false>(bin, *a, *b, list, rows, groups, *c, o, stream);
    if (!spg_is_real(precision))
        return spg_launch_table_other(bin, precision, a, b, list, rows, c, stream);
    if (precision == SPG_FLOAT)
        return launch_bin<float, true>(bin, *a, *b, list, rows, groups, *c, o, stream);
    return launch_bin<double, true>(bin, *a, *b, list, rows, groups, *c, o, stream);
}

#endif
