/* Rows by sorting: expand, sort, add (gpu_sorted.h).
 *
 * 1. expand: every intermediate product of the batch becomes a key, (row of the batch, column), and a value, in the
 *    order of A's entries. One thread makes one product and finds its entry of A by binary search.
 * 2. A stable radix sort by key. Products of equal key stay in the order of A's entries.
 * 3. The first product of each key is an entry of C. Scanned flags number the entries, so they give the sizes of rows.
 * 4. reduce: the products of a key are added in their order: by one thread, or by a warp when there are many. So sums
 * are the same in every run.
 *
 * The symbolic phase has no values and ends after step 3.
 *
 * Cost: a radix pass for each 8 bits of the key; the lengths of rows do not matter. Memory: for each product two keys,
 * two values, and an 8-byte number. */
#include "spgemm/entries.cuh"
#include "spgemm/find.cuh"
#include "spgemm/kernels.h"
#include "spgemm/spread.cuh"
#include "spgemm/value.cuh"

#include <cub/device/device_radix_sort.cuh>

namespace {

constexpr int BLOCK = 256;
constexpr int LENGTHS_BLOCK = 512;
constexpr int SHORT = 64; /* products of one key that one thread adds */

unsigned blocks_of(int64_t threads) { return static_cast<unsigned>((threads + BLOCK - 1) / BLOCK); }

__device__ int64_t thread_number() { return static_cast<int64_t>(blockIdx.x) * BLOCK + threadIdx.x; }

/* A block measures one row: rows that are sorted may have very many entries. */
__global__ void __launch_bounds__(LENGTHS_BLOCK)
    row_lengths(spg_operand a, spg_operand b, const int32_t *list, int32_t *terms, int32_t *products) {
    __shared__ int32_t total;
    auto [begin, end] = spg_entries_of(a, list[blockIdx.x]);
    int32_t sum = 0;
    if (threadIdx.x == 0)
        total = 0;
    __syncthreads();
    for (int32_t k = begin + static_cast<int32_t>(threadIdx.x); k < end; k += LENGTHS_BLOCK) {
        sum += spg_entries_of(b, a.indices[k]).count();
    }
    for (int step = 16; step > 0; step /= 2)
        sum += __shfl_xor_sync(~0u, sum, step);
    if (threadIdx.x % 32 == 0)
        atomicAdd(&total, sum);
    __syncthreads();
    if (threadIdx.x == 0) {
        terms[blockIdx.x] = end - begin;
        products[blockIdx.x] = total;
    }
}

/* Entry of A number `e` of the batch, in row i of it, and its row of B. The row of A may have fewer entries than were
 * measured, if it is another one: then there is no such entry. */
__device__ spg_entries row_of_entry(const spg_operand &a, const spg_operand &b, const spg_sort_batch &batch, int32_t i,
                                    int64_t e, int64_t *k) {
    spg_entries row = spg_entries_of(a, batch.list[i]);
    *k = row.first + (e + batch.terms[0] - batch.terms[i]);
    return *k < row.end ? spg_entries_of(b, a.indices[*k]) : spg_entries();
}

/* For each entry of A's rows: its row of the batch, and the length of its row of B; then a 0. */
__global__ void entry_lengths(spg_operand a, spg_operand b, spg_sort_batch batch, int32_t *row_of, int32_t *length) {
    int64_t e = thread_number(), terms_before = batch.terms[0];
    if (e > batch.entries)
        return;
    if (e == batch.entries) {
        length[e] = 0;
        return;
    }
    int32_t i = spg_last_up_to(batch.terms, batch.rows, e + terms_before);
    int64_t k;
    row_of[e] = i;
    length[e] = row_of_entry(a, b, batch, i, e, &k).count();
}

template <typename T>
__global__ void __launch_bounds__(BLOCK)
    expand(spg_operand a, spg_operand b, spg_sort_batch batch, const int32_t *row_of, const int64_t *start,
           int column_bits, uint64_t *keys, T *values) {
    int64_t p = thread_number();
    if (p >= batch.count)
        return;
    int32_t e = spg_last_up_to(start, batch.entries, p), i = row_of[e];
    int64_t k;
    spg_entries row = row_of_entry(a, b, batch, i, e, &k);
    int64_t l = row.first + (p - start[e]);
    bool exists = l < row.end;
    /* A wrong column does not reach the bits of the row. */
    uint64_t column = exists ? static_cast<uint32_t>(b.indices[l]) & ((uint64_t{1} << column_bits) - 1) : 0;
    keys[p] = static_cast<uint64_t>(i) << column_bits | column;
    if (values)
        spg_write_value(values, p,
                        exists ? spg_read_value(static_cast<const T *>(a.values), k) *
                                     spg_read_value(static_cast<const T *>(b.values), l)
                               : T(0));
}

__device__ bool is_first(const uint64_t *keys, int64_t p) { return p == 0 || keys[p] != keys[p - 1]; }

__global__ void flag_first(const uint64_t *keys, int32_t count, int32_t *flag) {
    int64_t p = thread_number();
    if (p <= count)
        flag[p] = p < count && is_first(keys, p);
}

/* Sizes of rows. Rows that need extra chunks request them; denied[i] is for the next kernel. */
__global__ void set_sizes(spg_sort_batch batch, const int64_t *number, spg_target c, bool *denied) {
    int64_t i = thread_number(), before = batch.products[0];
    if (i >= batch.rows)
        return;
    int32_t row = batch.list[i];
    int32_t size = static_cast<int32_t>(number[batch.products[i + 1] - before] - number[batch.products[i] - before]);
    bool numeric = c.values != nullptr;
    if (numeric && !c.spread.size)
        size = spg_most_of_row(c, row, size);
    c.size[row] = size;
    denied[i] = numeric && c.spread.size && size > c.spread.size && !spg_spread_request(c.spread, row, size);
    if (!numeric && c.spread.size)
        spg_spread_defer_counted(c.spread, row, size);
}

/* Sum of the products of the key, from p on, by all threads of a warp. */
template <typename T>
__device__ T sum_by_warp(const uint64_t *keys, const T *values, int64_t p, int32_t count, uint64_t key) {
    T sum = 0;
    bool inside = true;
    for (p += threadIdx.x % 32; __all_sync(~0u, inside); p += 32) {
        inside = p < count && keys[p] == key;
        if (inside)
            sum += spg_read_value(values, p);
    }
    for (int step = 16; step > 0; step /= 2)
        sum += spg_from_other(sum, step);
    return sum;
}

template <typename T>
__global__ void __launch_bounds__(BLOCK)
    reduce(spg_sort_batch batch, int column_bits, const uint64_t *keys, const T *values, const int64_t *number,
           spg_target c, const bool *denied) {
    int64_t p = thread_number(), next = p;
    bool first = p < batch.count && is_first(keys, p);
    uint64_t key = first ? keys[p] : 0;
    T sum = 0;
    while (first && next < batch.count && next < p + SHORT && keys[next] == key)
        sum += spg_read_value(values, next++);
    bool longer = first && next == p + SHORT && next < batch.count && keys[next] == key;
    for (unsigned left = __ballot_sync(~0u, longer); left; left &= left - 1) {
        int lane = __ffs(static_cast<int>(left)) - 1;
        T rest = sum_by_warp(keys, values, __shfl_sync(~0u, next, lane), batch.count, __shfl_sync(~0u, key, lane));
        if (static_cast<int>(threadIdx.x % 32) == lane)
            sum += rest;
    }
    if (!first)
        return;
    int32_t i = static_cast<int32_t>(key >> column_bits), row = batch.list[i], size = c.spread.size;
    if (denied[i])
        return;
    int32_t rank = static_cast<int32_t>(number[p] - number[batch.products[i] - batch.products[0]]);
    if (static_cast<uint32_t>(rank) >= static_cast<uint32_t>(c.size[row]))
        return; /* the matrices are others than those that were measured */
    int64_t slot = size ? spg_spread_slot(&c.spread, spg_first_chunk(&c.spread, row),
                                          rank >= size ? c.spread.first_extra[row] : 0, rank)
                        : c.start[row] + rank;
    c.columns[slot] = static_cast<int32_t>(key & ((uint64_t{1} << column_bits) - 1));
    spg_write_value(static_cast<T *>(c.values), slot, sum);
}

int bits_of(int64_t numbers) {
    int bits = 1;
    while (int64_t{1} << bits < numbers)
        bits++;
    return bits;
}

/* Scratch memory of a batch. */
template <typename T> struct Space {
    int32_t *row_of, *length; /* of each entry of A */
    int64_t *start;
    uint64_t *keys[2];
    T *values[2];
    int64_t *number; /* of each product's key */
    bool *denied;    /* of each row */
    void *cub;
    size_t cub_size;
};

/* Returns the next part of the scratch memory. Without memory it only adds up the sizes. */
template <typename E> E *part(void *base, size_t *used, size_t count) {
    char *at = base ? static_cast<char *>(base) + *used : nullptr;
    *used += (count * sizeof(E) + 255) / 256 * 256;
    return reinterpret_cast<E *>(at);
}

template <typename T>
cudaError_t sort(Space<T> &s, const spg_sort_batch &batch, int bits, bool numeric, size_t *bytes, int *now,
                 cudaStream_t stream) {
    cub::DoubleBuffer<uint64_t> keys(s.keys[0], s.keys[1]);
    cudaError_t status = cudaSuccess;
    if constexpr (spg_has_value<T>) {
        cub::DoubleBuffer<T> values(s.values[0], s.values[1]);
        if (numeric)
            status = cub::DeviceRadixSort::SortPairs(s.cub, *bytes, keys, values, batch.count, 0, bits, stream);
    }
    if (!numeric || !spg_has_value<T>)
        status = cub::DeviceRadixSort::SortKeys(s.cub, *bytes, keys, batch.count, 0, bits, stream);
    *now = keys.selector;
    return status;
}

template <typename T>
cudaError_t lay_out(Space<T> &s, const spg_sort_batch &batch, int bits, bool numeric, void *base, size_t *bytes,
                    cudaStream_t stream) {
    size_t used = 0, entries = static_cast<size_t>(batch.entries) + 1, count = static_cast<size_t>(batch.count) + 1;
    size_t scan = 0, sorting = 0;
    int now;
    s = {};
    cudaError_t status = sort(s, batch, bits, numeric, &sorting, &now, stream);
    if (status == cudaSuccess)
        status = spg_scan(nullptr, &scan, nullptr, nullptr, batch.count > batch.entries ? batch.count : batch.entries,
                          stream);
    s.row_of = part<int32_t>(base, &used, entries);
    s.length = part<int32_t>(base, &used, entries);
    s.start = part<int64_t>(base, &used, entries);
    s.number = part<int64_t>(base, &used, count);
    for (int i = 0; i < 2; i++) {
        s.keys[i] = part<uint64_t>(base, &used, count);
        s.values[i] = numeric && spg_has_value<T> ? part<T>(base, &used, count) : nullptr;
    }
    s.denied = part<bool>(base, &used, static_cast<size_t>(batch.rows));
    s.cub_size = scan > sorting ? scan : sorting;
    s.cub = part<char>(base, &used, s.cub_size);
    *bytes = used;
    return status;
}

template <typename T>
cudaError_t compute(Space<T> &s, const spg_operand &a, const spg_operand &b, const spg_sort_batch &batch,
                    const spg_target &c, int column_bits, int bits, cudaStream_t stream) {
    bool numeric = c.values != nullptr;
    int now = 0;
    entry_lengths<<<blocks_of(static_cast<int64_t>(batch.entries) + 1), BLOCK, 0, stream>>>(a, b, batch, s.row_of,
                                                                                            s.length);
    cudaError_t status = spg_scan(s.cub, &s.cub_size, s.length, s.start, batch.entries, stream);
    if (status != cudaSuccess)
        return status;
    expand<T><<<blocks_of(batch.count), BLOCK, 0, stream>>>(a, b, batch, s.row_of, s.start, column_bits, s.keys[0],
                                                            s.values[0]);
    status = sort(s, batch, bits, numeric, &s.cub_size, &now, stream);
    if (status != cudaSuccess)
        return status;
    int32_t *flag = reinterpret_cast<int32_t *>(s.keys[1 - now]);
    flag_first<<<blocks_of(static_cast<int64_t>(batch.count) + 1), BLOCK, 0, stream>>>(s.keys[now], batch.count, flag);
    status = spg_scan(s.cub, &s.cub_size, flag, s.number, batch.count, stream);
    if (status != cudaSuccess)
        return status;
    set_sizes<<<blocks_of(batch.rows), BLOCK, 0, stream>>>(batch, s.number, c, s.denied);
    if (numeric)
        reduce<T><<<blocks_of(batch.count), BLOCK, 0, stream>>>(batch, column_bits, s.keys[now], s.values[now],
                                                                s.number, c, s.denied);
    return cudaGetLastError();
}

template <typename T>
cudaError_t launch(const spg_operand &a, const spg_operand &b, const spg_sort_batch &batch, const spg_target &c,
                   void *scratch, size_t *bytes, cudaStream_t stream) {
    int column_bits = bits_of(b.columns), bits = column_bits + bits_of(batch.rows);
    Space<T> space;
    cudaError_t status = lay_out(space, batch, bits, c.values != nullptr, scratch, bytes, stream);
    return status != cudaSuccess || !scratch ? status : compute(space, a, b, batch, c, column_bits, bits, stream);
}

} // namespace

cudaError_t spg_launch_row_lengths(const spg_operand *a, const spg_operand *b, const int32_t *list, int32_t rows,
                                   int32_t *terms, int32_t *products, cudaStream_t stream) {
    if (!rows)
        return cudaSuccess;
    row_lengths<<<static_cast<unsigned>(rows), LENGTHS_BLOCK, 0, stream>>>(*a, *b, list, terms, products);
    return cudaGetLastError();
}

cudaError_t spg_launch_sorted(spg_precision precision, const spg_operand *a, const spg_operand *b,
                              const spg_sort_batch *batch, const spg_target *c, void *scratch, size_t *bytes,
                              cudaStream_t stream) {
    if (!batch->count)
        return cudaSuccess;
    return SPG_BY_VALUE(precision, launch, *a, *b, *batch, *c, scratch, bytes, stream);
}
