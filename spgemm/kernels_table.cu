/* The fast accumulator: a group of threads computes one row of C in a hash table in shared memory. Small rows have a
 * part of a warp or a warp, long rows a block.
 *
 * 1. insert: each thread reads one entry of A's row, and the bounds of its row of B. A group inside a warp takes these
 *    entries one after the other; its threads take the entries of that row of B, whose columns differ. The threads of
 *    a warp search and claim table slots together, and add by plain read and write, because no other thread has the
 *    same slot. The warps of a block take turns (turns.cuh). So no addition is atomic, and sums are the same in every
 *    run. A full table ends the row: it is listed as overflowed.
 *    Rows of A of equal pattern share a table (bins.h): each product's column is probed once for up to SPG_ALIKE rows,
 *    which have a sum each in the slot. Where rows of B that follow one another have equal patterns, too, a column is
 *    probed once for all of them.
 * 2. The number of claimed table slots is the size of the row. The symbolic phase (NUMERIC = false) ends here.
 * 3. sort: each used table slot becomes a number, column x slots + slot. A group inside a warp moves these numbers
 *    together, and sorts them by a network in registers and shuffles. A block marks the row's columns by bits, and
 *    counts the bits before each. Where the columns lie too far apart for that, a network sorts one number for each
 *    slot, through shared memory between warps. Numbers of more than 32 bits, of very wide matrices, are sorted in
 *    shared memory.
 * 4. write: entries are read in the order of columns and written to the row's slots of C.
 *
 * Steps 1 and 2 are in table_insert.cuh, steps 3 and 4 in table_sort.cuh.
 *
 * Cost: one probe or more for each intermediate product, one pass over the table, and log^2(slots) / 2 exchanges of
 * each number. Shared memory: for each row, table slots x (4 bytes + a value), or 8 bytes and a value for wide
 * matrices. Source: Nagasaka et al. (bins.h). */
#include "spgemm/kernels.h"
#include "spgemm/beside.cuh"
#include "spgemm/entries.cuh"
#include "spgemm/spread.cuh"
#include "spgemm/table_insert.cuh"
#include "spgemm/table_sort.cuh"

#include <type_traits>

namespace {

/* Listed rows stand for their groups (bins.h), unless alike is NULL. */
struct Groups {
    const uint8_t *alike, *b_alike; /* of A's rows and of B's; the second may be NULL */
    int32_t rows, slab;
};

struct Overflow {
    int32_t *rows;
    spg_overflows *state; /* NULL: no row overflows, unless the matrices are others than those that were counted */
    int32_t most;         /* rows that the list holds */
};

/* Adds up over the threads of the row. gather() has added up the slots of its row. */
template <typename S> __device__ Inserted total_of(Inserted in, int *claimed, int *full) {
    for (int step = S::gathered ? 0 : S::lanes / 2; step > 0; step /= 2)
        in.claimed += __shfl_xor_sync(~0u, in.claimed, step);
    unsigned others = __ballot_sync(~0u, in.full);
    if (!S::whole) {
        in.full = (others & team_of<S::lanes>()) != 0;
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
template <typename S, bool NUMERIC>
__device__ int report(const spg_target &c, int32_t row, int alike, const Inserted &in, const Overflow &overflow) {
    for (int g = 0; g < alike && threadIdx.x % S::threads == 0; g++) {
        if (!in.full) {
            c.size[row + g] = NUMERIC && !c.spread.size ? spg_most_of_row(c, row + g, in.claimed) : in.claimed;
        } else if (overflow.state) {
            int32_t at = atomicAdd(&overflow.state->listed, 1);
            if (at < overflow.most)
                overflow.rows[at] = row + g;
        }
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
        first = spg_entries_of(a, row).first;
        end = spg_entries_of(a, row).end;
        if (groups.alike && (!NUMERIC || ALIKE > 1))
            alike = spg_group_rows(groups.alike, row, groups.rows, groups.slab);
        else
            alike = 1;
        /* The rows of a group have equal lengths, if they are those that were compared. */
        if (ALIKE > 1 && static_cast<int64_t>(end - first) * (alike - 1) > a.first + int64_t{a.stored} - end)
            end = first;
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
        in = insert_by_block<T, S, NUMERIC>(a, b, first, end, groups.b_alike, table, sums,
                                            *reinterpret_cast<spg_terms<T, S::threads> *>(memory + S::tables));
    } else {
        int terms = kept(static_cast<int>(S::tables + mine * (S::lanes + 1) * sizeof(Term<T, ALIKE>)));
        __syncwarp();
        in.full = insert<T, S, NUMERIC>(a, b, first, end, alike, groups.b_alike, {memory, table_at, sums_at, terms});
        if constexpr (S::gathered) {
            in.claimed = gather<S>(table, sorted);
        } else {
#pragma unroll
            for (int i = 0; i < S::each; i++)
                in.claimed += table[i * S::threads + thread] != SPG_EMPTY;
        }
    }
    in = total_of<S>(in, &claimed, &full);
    alike = report<S, NUMERIC>(c, row, alike, in, overflow);
    if (!NUMERIC)
        return;
    spg_row_sync<S::threads>(); /* until every thread has read `full` */
    int denied_rows = denied<S>(c, row, alike, in.claimed, &full);
    if constexpr (S::gathered)
        sort_gathered<S>(sorted, alike ? in.claimed : 0);
    else
        sort<S>(table, sorted, memory + S::tables);
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
                             const int32_t *list, int32_t rows, const uint8_t *alike, const uint8_t *b_alike,
                             const spg_target *c, int32_t *overflow, spg_overflows *overflows, cudaStream_t stream) {
    Overflow o{overflow, overflows, a->rows};
    Groups groups{bin < SPG_ALIKE_BINS ? alike : nullptr, b_alike, a->rows,
                  c->spread.size ? c->spread.slab : INT32_MAX};
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
