/* Steps 1 and 2 of kernels_table.cu: a group of threads, or a block, adds the products of a row of C to its table in
 * shared memory. */
#ifndef SPG_TABLE_INSERT_CUH
#define SPG_TABLE_INSERT_CUH

#include "spgemm/kernels.h"
#include "spgemm/operand.cuh"
#include "spgemm/turns.cuh"
#include "spgemm/warp.cuh"

namespace {

template <typename T> using Operand = spg_typed_operand<T>;

constexpr int32_t NONE = SPG_EMPTY - 1; /* no column */
constexpr int FULL = 1 << 30;           /* more than the entries of any row that warps compute (SPG_TABLE_PRODUCTS) */

constexpr int log2_of(int number) { return number > 1 ? 1 + log2_of(number / 2) : 0; }

/* An entry of A: its row of B and its value, in each row of the group. */
template <typename T, int ALIKE> struct alignas(16) Term {
    T factor[ALIKE] = {};
    int32_t from = 0, length = 0;
};

/* The threads of the warp that compute the calling thread's row: a bit for each. */
template <int LANES> __device__ unsigned team_of() {
    return LANES == 32 ? ~0u : ((1u << LANES % 32) - 1) << threadIdx.x % 32 / LANES * LANES;
}

/* A bit for each column of a part of C's columns, by which a block of THREADS finds the ranks of a row's columns. */
constexpr int MARK_WORDS = 8; /* for each thread */
template <int THREADS> struct alignas(16) Marks {
    static constexpr int words = MARK_WORDS * THREADS, columns = 32 * words;

    uint32_t bits[words];
    uint16_t before[words]; /* bits that are set in the words before */
    int32_t sums[THREADS / 32], least, most;
};

/* Threads and memory of a bin. KEY: uint32_t or uint64_t, holds column x slots + slot. ALIKE: rows that share a table.
 */
template <typename T, typename KEY, int BIN, bool NUMERIC, int ALIKE> struct Shape {
    static constexpr int alike = ALIKE;
    static constexpr int slots = SPG_TABLE_SLOTS_MIN << BIN, log2_slots = log2_of(slots);
    [[maybe_unused]] static constexpr int place_shift = 32 - log2_slots, log2_value = log2_of(sizeof(T));
    static constexpr bool large = BIN == 4 && ALIKE > 1; /* few rows fit a multiprocessor */
    static constexpr int threads = BIN == 3 || large ? 32 : SPG_GROUP_MIN << BIN;
    static constexpr bool whole = threads > 32; /* the row has the block for itself */
    static constexpr bool gathered = NUMERIC && !whole && sizeof(KEY) == sizeof(uint32_t); /* gather() */
    [[maybe_unused]] static constexpr int lanes = whole ? 32 : threads, warps = whole ? threads / 32 : 1;
    static constexpr int block = whole || large ? threads : BIN == 3 || ALIKE > 1 ? 128 : 256, rows = block / threads;
    static constexpr int each = slots / threads; /* table slots that a thread sorts */
    /* Threads of a multiprocessor: 128, 64, 48 or 40 registers, or 32 where a block counts. Shared memory limits the
     * rows of bin 3, and of a large group. */
    static constexpr int most = large ? 512 : whole || ALIKE > 1 ? 1024 : BIN == 3 || sizeof(KEY) == 8 ? 1280 : 1536;
    static constexpr int resident = whole && !NUMERIC ? 2048 : most;
    static constexpr int blocks = resident / block;
    /* The rows of a warp step through their tables together. The padding puts them on different banks. */
    static constexpr int stride = slots + (threads < 32 ? threads : 0);
    static constexpr size_t keys = NUMERIC ? sizeof(KEY) : sizeof(int32_t);
    static constexpr size_t tables = static_cast<size_t>(rows) * stride * (keys + (NUMERIC ? ALIKE * sizeof(T) : 0));
    static constexpr size_t terms = whole ? sizeof(spg_terms<T, threads>) : rows * (lanes + 1) * sizeof(Term<T, ALIKE>);
    /* Marks of columns, by which a block sorts, lie where the terms were. */
    static constexpr size_t marks = whole && NUMERIC ? sizeof(Marks<threads>) : 0;
    static constexpr size_t shared = tables + (marks > terms ? marks : terms);
};

/* Entry k of A, which refers to row `middle` of B. The rows of the group have `length` entries each, one row behind the
 * other. */
template <typename T, int ALIKE, bool NUMERIC>
__device__ Term<T, ALIKE> read_term(const Operand<T> &a, const Operand<T> &b, int32_t k, int32_t middle, int32_t length,
                                    int alike) {
    Term<T, ALIKE> term;
    spg_entries row = spg_entries_of(b, middle);
    term.from = row.first;
    term.length = row.count();
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

/* Searches the place of a column for each thread, or claims an empty one. All threads of the warp search together, so a
 * claim needs no atomic operation: of several threads that write to a slot, those that find their column there have
 * claimed it. A thread that meets another column goes on as spg_table_find() does. Sets *missing if the table has no
 * slot left. */
template <typename T, typename S> __device__ uint32_t search(const Table<T, S> &table, int32_t column, bool *missing) {
    constexpr uint32_t one = 1u << S::place_shift;
    uint32_t place = static_cast<uint32_t>(column) * SPG_HASH_FACTOR & ~(one - 1), step = one;
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
        if (differs && here != SPG_EMPTY) {
            place += step;
            step += spg_table_stretch(S::log2_slots) * one;
        }
        at = table.column_at(place);
        __syncwarp();
        if (differs)
            here = *table.column(at);
        differs = kept(here) != column;
    }
    *missing = differs;
    return place;
}

/* Adds a product for each thread of the warp that has one, at the places of their columns. The columns of a team's
 * threads differ. */
template <typename T, typename S>
__device__ void add(bool adds, const Term<T, S::alike> &term, const T &value, const Table<T, S> &table,
                    uint32_t place) {
    if (adds)
#pragma unroll
        for (int g = 0; g < S::alike; g++)
            *table.sum(g, place) = spg_plus_product(*table.sum(g, place), term.factor[g], value);
    __syncwarp();
}

/* ---- term by term: a team takes the entries of one row of B at a time */

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

/* Returns whether the table has no slot left for the thread's column. */
template <typename T, typename S, bool NUMERIC>
__device__ bool insert_entry(const Term<T, S::alike> &term, const Entry<T> &entry, const Table<T, S> &table) {
    bool missing;
    uint32_t place = search(table, entry.column, &missing);
    add(NUMERIC && entry.column != NONE && !missing, term, entry.value, table, place);
    return missing;
}

/* `mine`: the thread's term. Terms without entries are left out. An entry of B is read while the one before is added.
 */
template <typename T, typename S, bool NUMERIC>
__device__ bool insert_terms(const Operand<T> &b, const Term<T, S::alike> &mine, const Table<T, S> &table) {
    constexpr int LANES = S::lanes, ALIKE = S::alike;
    const int thread = threadIdx.x % LANES;
    const unsigned some = __ballot_sync(~0u, mine.length > 0) & team_of<LANES>();
    const int own = __popc(some), count = LANES == 32 ? own : __reduce_max_sync(~0u, own);
    int lane = thread; /* FULL, if the table is too small */
    const int32_t *columns = kept(b.indices + thread);
    const T *values = kept(b.values + thread);
    bool long_rows = __any_sync(~0u, mine.length > LANES);
    if (mine.length > 0)
        *table.term(__popc(some & ((1u << threadIdx.x % 32) - 1))) = mine;
    if (thread >= own)
        *table.term(thread) = Term<T, ALIKE>();
    if (thread == 0)
        *table.term(LANES) = Term<T, ALIKE>();
    __syncwarp();
    Term<T, ALIKE> term = load(table.term(0));
    Entry<T> entry = entry_of<T, ALIKE, NUMERIC>(term, 0, lane, columns, values);
#pragma unroll 2
    for (int j = 0; j < count; j++) {
        Term<T, ALIKE> next = load(table.term(j + 1));
        if (long_rows)
            for (int32_t l = LANES; __any_sync(~0u, l + lane - thread < term.length); l += LANES) {
                Entry<T> following = entry_of<T, ALIKE, NUMERIC>(term, l, lane, columns, values);
                lane = insert_entry<T, S, NUMERIC>(term, entry, table) ? FULL : lane;
                entry = following;
            }
        Entry<T> ahead = entry_of<T, ALIKE, NUMERIC>(next, 0, lane, columns, values);
        lane = insert_entry<T, S, NUMERIC>(term, entry, table) ? FULL : lane;
        term = next;
        entry = ahead;
    }
    __syncwarp();
    return lane & FULL;
}

/* ---- packed: a team takes its products one behind the other, of several terms at a time */

/* A product for each thread. */
template <typename T, int ALIKE> struct Product {
    Term<T, ALIKE> term;
    Entry<T> entry;
    int turn;  /* terms of the team's threads before the product's one */
    int turns; /* terms of the team's threads */
};

template <typename T, typename S, bool NUMERIC> struct Products {
    const int32_t *columns; /* B's, moved by the thread's number */
    const T *values;
    int32_t left;       /* products of the team that were not read yet, less the thread's number */
    int32_t start;      /* where those of the thread's term begin behind those that were read; else negative */
    int32_t begun = -1; /* terms of the team that began before, less one */

    /* Terms of no entries leave no gap in the list. */
    __device__ Products(const Operand<T> &b, const Term<T, S::alike> &mine, const Table<T, S> &table)
        : columns(b.indices + threadIdx.x % S::lanes), values(b.values + threadIdx.x % S::lanes) {
        int32_t up_to = spg_sum_up_to<S::lanes>(mine.length);
        unsigned some = __ballot_sync(~0u, mine.length > 0) & team_of<S::lanes>();
        start = mine.length ? up_to - mine.length : -1;
        left = __shfl_sync(~0u, up_to, S::lanes - 1, S::lanes) - static_cast<int32_t>(threadIdx.x % S::lanes);
        if (mine.length) {
            Term<T, S::alike> term = mine;
            term.from -= start;
            *table.term(__popc(some & ((1u << threadIdx.x % 32) - 1))) = term;
        }
        __syncwarp();
    }

    /* `at`: products of the team that were read. */
    __device__ Product<T, S::alike> next(const Table<T, S> &table, int32_t at) {
        constexpr unsigned LANES = S::lanes;
        const unsigned lane = threadIdx.x % 32, first = lane / LANES * LANES;
        unsigned begins = static_cast<unsigned>(start) < LANES ? 1u << (first + start) : 0;
        begins = __reduce_or_sync(~0u, begins) & team_of<S::lanes>();
        int at_first = static_cast<int>(begins >> first & 1), up_to = __popc(begins & (~0u >> (31 - lane)));
        Product<T, S::alike> product;
        product.turn = up_to - at_first;
        product.turns = __popc(begins) - at_first + 1;
        if (left > 0) {
            product.term = load(table.term(begun + up_to));
            product.entry.column = columns[product.term.from + at];
            if (NUMERIC)
                product.entry.value = spg_read_value(values, product.term.from + at);
        }
        begun += __popc(begins);
        start = start < static_cast<int32_t>(LANES) ? -1 : start - static_cast<int32_t>(LANES);
        left -= static_cast<int32_t>(LANES);
        return product;
    }
};

/* The terms of a team take turns to add: their columns may be equal. */
template <typename T, typename S, bool NUMERIC>
__device__ bool insert_product(const Product<T, S::alike> &product, const Table<T, S> &table) {
    bool missing;
    uint32_t place = search(table, product.entry.column, &missing);
    bool adds = product.entry.column != NONE && !missing;
    int turns = NUMERIC ? S::lanes == 32 ? product.turns : __reduce_max_sync(~0u, product.turns) : 0;
    __syncwarp();
    for (int turn = 0; turn < turns; turn++)
        add(adds && turn == product.turn, product.term, product.entry.value, table, place);
    return missing;
}

/* Entries of B are read while those before are added. */
template <typename T, typename S, bool NUMERIC>
__device__ bool insert_packed(const Operand<T> &b, const Term<T, S::alike> &mine, const Table<T, S> &table) {
    constexpr int LANES = S::lanes;
    Products<T, S, NUMERIC> products(b, mine, table);
    int32_t count = __reduce_max_sync(~0u, products.left + static_cast<int32_t>(threadIdx.x % LANES));
    Product<T, S::alike> product = products.next(table, 0);
    bool full = false;
    for (int32_t at = LANES; at < count; at += LANES) {
        Product<T, S::alike> following = products.next(table, at);
        full |= insert_product<T, S, NUMERIC>(product, table);
        product = following;
    }
    full |= insert_product<T, S, NUMERIC>(product, table);
    __syncwarp();
    return full;
}

/* ---- by runs: consecutive terms whose rows of B are one behind the other and have equal patterns, as the unknowns of
 * a node do. A team takes a part of the columns of all rows of a run at a time, and searches their places once. */

template <typename T, typename S> struct Runs {
    static constexpr int LANES = S::lanes, AHEAD = S::large ? 6 : 3; /* values that are read before their columns'
                                                                      * places are known */
    const Operand<T> &b;
    const Table<T, S> &table;
    unsigned follows; /* a bit for each term of the team: it belongs to the run of the term before */
    unsigned left;    /* the same: a run begins with it, and was not taken yet */
    int first = 0;    /* term of the run */
    int terms = 0;    /* of the run; 0: all runs were taken */
    int32_t from = 0, length = 0, at = 0; /* the first row of B, its length, and where the part begins */

    /* A part of a run, for a thread: its column, and its first values. */
    struct Part {
        int first, terms;
        const T *values;
        int32_t length, column = NONE;
        T value[AHEAD];
    };

    /* The next part of the team's runs; `full`: the thread takes no more columns. */
    __device__ Part next(bool full) {
        const int lane = threadIdx.x % LANES;
        at += LANES;
        if (at >= length) {
            terms = 0;
            length = at = 0;
            if (left) {
                first = __ffs(static_cast<int>(left)) - 1;
                left &= left - 1;
                terms = __ffs(static_cast<int>(~(follows >> first >> 1)));
                const Term<T, S::alike> *term = table.term(first);
                from = term->from;
                length = term->length;
            }
        }
        Part part;
        part.first = first;
        part.terms = terms;
        part.length = length;
        part.values = b.values + (from + at + lane);
        if (at + lane < length && !full) {
            part.column = b.indices[from + at + lane];
#pragma unroll
            for (int i = 0; i < AHEAD; i++)
                if (i < terms)
                    part.value[i] = spg_read_value(part.values, i * length);
        }
        return part;
    }

    /* Adds the products of one part. The additions to a sum are in the order of the terms. */
    __device__ void add(const Part &part, uint32_t place) const {
        T sum[S::alike];
#pragma unroll
        for (int g = 0; g < S::alike; g++)
            sum[g] = *table.sum(g, place);
        auto add_term = [&](int i, const T &value) {
            Term<T, S::alike> term = load(table.term(part.first + i));
#pragma unroll
            for (int g = 0; g < S::alike; g++)
                sum[g] = spg_plus_product(sum[g], term.factor[g], value);
        };
#pragma unroll
        for (int i = 0; i < AHEAD; i++)
            if (i < part.terms)
                add_term(i, part.value[i]);
        for (int i = AHEAD; i < part.terms; i++)
            add_term(i, spg_read_value(part.values, i * part.length));
#pragma unroll
        for (int g = 0; g < S::alike; g++)
            *table.sum(g, place) = sum[g];
    }
};

/* `follows`: whether the thread's term belongs to the run of the term before. */
template <typename T, typename S>
__device__ bool insert_runs(const Operand<T> &b, const Term<T, S::alike> &mine, bool follows,
                            const Table<T, S> &table) {
    const int first = threadIdx.x % 32 / S::lanes * S::lanes;
    const unsigned team = team_of<S::lanes>();
    unsigned following = (__ballot_sync(~0u, follows) & team) >> first;
    unsigned begins = (__ballot_sync(~0u, !follows && mine.length > 0) & team) >> first;
    bool full = false;
    *table.term(threadIdx.x % S::lanes) = mine;
    __syncwarp();
    Runs<T, S> runs{b, table, following, begins};
    auto part = runs.next(full);
    while (__any_sync(~0u, part.terms > 0)) {
        auto ahead = runs.next(full);
        bool missing;
        uint32_t place = search(table, part.column, &missing);
        if (part.column != NONE && !missing)
            runs.add(part, place);
        full |= missing;
        part = ahead;
        __syncwarp();
    }
    return full;
}

/* ---- rows */

/* Whether terms are packed: the steps are then at most half as many as the terms. */
__device__ bool packs(int32_t length, int count) {
    constexpr int32_t many = 16 * 32 + 1; /* so that the sum of any lengths fits */
    return __reduce_add_sync(~0u, static_cast<unsigned>(min(length, many))) <= 16u * static_cast<unsigned>(count);
}

/* Whether the row of B follows that of the team's thread before, with an equal pattern. Called by all threads of a
 * warp; those without a row pass 0. Only groups of rows and the symbolic phase ask: it need not insert the same columns
 * again. */
template <typename S, bool NUMERIC>
__device__ bool follows_row_before(int32_t middle, int32_t rows, const uint8_t *b_alike) {
    if (NUMERIC && S::alike == 1)
        return false;
    int32_t before = __shfl_up_sync(~0u, middle, 1);
    return threadIdx.x % S::lanes > 0 && b_alike && middle == before + 1 && middle > 0 && middle < rows &&
           b_alike[middle];
}

/* Adds the row's products, for a team: a group inside a warp. The sums must be 0. All threads of the warp take part,
 * with the same number of steps; a team without a row has first = end. b_alike: of each row of B, whether its pattern
 * is that of the row before; NULL: not known. Returns whether the table is too small. */
template <typename T, typename S, bool NUMERIC>
__device__ bool insert(const Operand<T> &a, const Operand<T> &b, int32_t first, int32_t end, int alike,
                       const uint8_t *b_alike, const Table<T, S> &table) {
    constexpr int LANES = S::lanes;
    const int thread = threadIdx.x % LANES;
    bool full = false;
    /* The reduction also shows the compiler that the threads of the warp go through the loops together. */
    int32_t most = __reduce_max_sync(~0u, end - first);
    for (int32_t base = 0; base < most; base += LANES) {
        Term<T, S::alike> mine;
        int32_t middle = 0;
        if (!full && thread < end - first - base) {
            middle = a.indices[first + base + thread];
            mine = read_term<T, S::alike, NUMERIC>(a, b, first + base + thread, middle, end - first, alike);
        }
        bool follows = follows_row_before<S, NUMERIC>(middle, b.rows, b_alike);
        if constexpr (S::alike > 1) {
            /* A run reads B's rows one behind the other, as they were when the patterns were compared. */
            int32_t length = __shfl_up_sync(~0u, mine.length, 1), from = __shfl_up_sync(~0u, mine.from, 1);
            follows &= length == mine.length && from + length == mine.from;
            full |= insert_runs<T, S>(b, mine, follows, table);
        } else {
            if (follows)
                mine.length = 0;
            int count = static_cast<int>(min(most - base, static_cast<int32_t>(LANES)));
            if (packs(mine.length, count))
                full |= insert_packed<T, S, NUMERIC>(b, mine, table);
            else
                full |= insert_terms<T, S, NUMERIC>(b, mine, table);
        }
        full = (__ballot_sync(~0u, full) & team_of<LANES>()) != 0;
    }
    return full;
}

/* The same for a block, whose warps take turns (turns.cuh). The sums must be 0. */
template <typename T, typename S, bool NUMERIC>
__device__ Inserted insert_by_block(const Operand<T> &a, const Operand<T> &b, int32_t first, int32_t end,
                                    const uint8_t *b_alike, int32_t *table, T *sums, spg_terms<T, S::threads> &terms) {
    constexpr int warps = S::warps;
    Inserted in;
    for (; first < end; first += S::threads) {
        Term<T, 1> mine;
        int32_t middle = 0;
        int at = 0;
        if (static_cast<int32_t>(threadIdx.x) < end - first) {
            middle = a.indices[first + static_cast<int32_t>(threadIdx.x)];
            mine = read_term<T, 1, NUMERIC>(a, b, first + static_cast<int32_t>(threadIdx.x), middle, 0, 1);
        }
        if (follows_row_before<S, NUMERIC>(middle, b.rows, b_alike))
            mine.length = 0;
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

} // namespace

#endif
