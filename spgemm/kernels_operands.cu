/* Operands of other forms than plain matrices (gpu_operands.h), as plain ones:
 *
 * - transposed: the entries' columns are sorted, stably, so that rows stay in order inside a column. Cost: a radix pass
 *   for each 8 bits of a column. Memory while it runs: 16 bytes for each entry.
 * - scaled: a copy of the values.
 * - beside, below: A with a multiple of the identity at its right, B above D. Their product is A B + beta D.
 * - identity: sorts the rows of a matrix when it is multiplied by it.
 *
 * One thread takes an entry, and finds its row by binary search where it needs it. */
#include "spgemm/find.cuh"
#include "spgemm/kernels.h"
#include "spgemm/value.cuh"

#include <cub/device/device_radix_sort.cuh>

namespace {

constexpr int BLOCK = 256;

unsigned blocks_of(int64_t threads) { return static_cast<unsigned>((threads + BLOCK - 1) / BLOCK); }

__device__ int64_t thread_number() { return static_cast<int64_t>(blockIdx.x) * BLOCK + threadIdx.x; }

__global__ void __launch_bounds__(BLOCK)
    number_entries(const int32_t *indices, int64_t stored, uint32_t *columns, int32_t *entries) {
    int64_t k = thread_number();
    if (k >= stored)
        return;
    columns[k] = static_cast<uint32_t>(indices[k]);
    entries[k] = static_cast<int32_t>(k);
}

/* The first sorted entry of column `row` or a later one. */
__global__ void __launch_bounds__(BLOCK)
    column_offsets(const uint32_t *columns, int32_t stored, int32_t rows, int32_t *offsets) {
    int64_t row = thread_number();
    if (row > rows)
        return;
    offsets[row] = spg_first(0, stored, [&](int32_t k) { return columns[k] >= static_cast<uint64_t>(row); });
}

template <typename T>
__global__ void __launch_bounds__(BLOCK) gather_entries(spg_operand m, const int32_t *entries, T scale, bool scaled,
                                                        bool conjugated, int32_t *indices, T *values) {
    int64_t i = thread_number();
    if (i >= m.stored)
        return;
    int32_t k = entries[i];
    indices[i] = spg_last_up_to(m.offsets, m.rows, k);
    if constexpr (spg_has_value<T>) {
        T value = static_cast<const T *>(m.values)[k];
        value = conjugated ? spg_conjugate(value) : value;
        values[i] = scaled ? scale * value : value;
    }
}

template <typename T>
__global__ void __launch_bounds__(BLOCK) scale_values(const T *from, int64_t stored, T scale, T *to) {
    int64_t k = thread_number();
    if (k < stored)
        spg_write_value(to, k, scale * spg_read_value(from, k));
}

/* Wrong offsets give wrong places. */
__device__ bool exists(const spg_operand &m, int64_t at) { return at >= 0 && at < m.stored; }

/* Row i of A, then column `columns` + i. */
template <typename T> __global__ void __launch_bounds__(BLOCK) put_beside(spg_operand a, T beta, spg_operand to) {
    int64_t k = thread_number();
    T *values = static_cast<T *>(to.values);
    if (k <= a.rows)
        to.offsets[k] = a.offsets[k] + static_cast<int32_t>(k);
    if (k < a.stored) {
        int64_t at = k + spg_last_up_to(a.offsets, a.rows, k);
        if (exists(to, at)) {
            to.indices[at] = a.indices[k];
            spg_write_value(values, at, spg_read_value(static_cast<const T *>(a.values), k));
        }
    }
    if (k < a.rows) {
        int64_t at = a.offsets[k + 1] + k;
        if (exists(to, at)) {
            to.indices[at] = a.columns + static_cast<int32_t>(k);
            spg_write_value(values, at, beta);
        }
    }
}

__global__ void __launch_bounds__(BLOCK) offsets_below(spg_operand b, spg_operand d, int32_t *offsets) {
    int64_t row = thread_number();
    if (row < b.rows)
        offsets[row] = b.offsets[row];
    if (row <= d.rows)
        offsets[b.rows + row] = static_cast<int32_t>(b.stored) + d.offsets[row];
}

template <typename T> __global__ void __launch_bounds__(BLOCK) identity(spg_operand m) {
    int64_t row = thread_number();
    if (row <= m.rows)
        m.offsets[row] = static_cast<int32_t>(row);
    if (row >= m.rows)
        return;
    m.indices[row] = static_cast<int32_t>(row);
    spg_write_value(static_cast<T *>(m.values), row, T(1));
}

/* The caller's value of a scale, on the host; NULL: 1. */
template <typename T> T value_of(const void *scale) { return scale ? *static_cast<const T *>(scale) : T(1); }

template <typename T>
cudaError_t launch_gather(const spg_operand &m, const int32_t *entries, const void *scale, bool conjugated,
                          const spg_operand &to, cudaStream_t stream) {
    T factor = value_of<T>(scale);
    gather_entries<T><<<blocks_of(m.stored), BLOCK, 0, stream>>>(m, entries, factor, scale != nullptr, conjugated,
                                                                 to.indices, static_cast<T *>(to.values));
    return cudaGetLastError();
}

template <typename T>
cudaError_t launch_scale(const void *from, int64_t stored, const void *scale, void *to, cudaStream_t stream) {
    T factor = value_of<T>(scale);
    scale_values<T>
        <<<blocks_of(stored), BLOCK, 0, stream>>>(static_cast<const T *>(from), stored, factor, static_cast<T *>(to));
    return cudaGetLastError();
}

template <typename T>
cudaError_t launch_beside(const spg_operand &a, const void *beta, const spg_operand &to, cudaStream_t stream) {
    T factor = value_of<T>(beta);
    int64_t threads = a.stored > a.rows ? a.stored : static_cast<int64_t>(a.rows) + 1;
    put_beside<T><<<blocks_of(threads), BLOCK, 0, stream>>>(a, factor, to);
    return cudaGetLastError();
}

template <typename T> cudaError_t launch_identity(const spg_operand &to, cudaStream_t stream) {
    identity<T><<<blocks_of(static_cast<int64_t>(to.rows) + 1), BLOCK, 0, stream>>>(to);
    return cudaGetLastError();
}

int bits_of(int64_t numbers) {
    int bits = 1;
    while (int64_t{1} << bits < numbers)
        bits++;
    return bits;
}

/* Memory of a transposition: columns and numbers of the entries, twice each, and the sort's own. */
struct Sorting {
    uint32_t *columns[2];
    int32_t *entries[2];
    void *cub;
    size_t cub_size;
};

size_t lay_out(Sorting &s, void *base, int64_t stored) {
    size_t used = 0, part = (static_cast<size_t>(stored) * 4 + 255) / 256 * 256;
    char *at = static_cast<char *>(base);
    for (int i = 0; i < 2; i++) {
        s.columns[i] = reinterpret_cast<uint32_t *>(at ? at + used : nullptr);
        s.entries[i] = reinterpret_cast<int32_t *>(at ? at + used + part : nullptr);
        used += 2 * part;
    }
    s.cub = at ? at + used : nullptr;
    return used + s.cub_size;
}

} // namespace

cudaError_t spg_launch_transpose(spg_precision precision, const spg_operand *matrix, const void *scale, bool conjugated,
                                 const spg_operand *result, void *scratch, size_t *bytes, cudaStream_t stream) {
    const spg_operand m = *matrix, to = *result;
    Sorting s{};
    int count = static_cast<int>(m.stored), bits = bits_of(m.columns);
    lay_out(s, scratch, m.stored);
    cub::DoubleBuffer<uint32_t> columns(s.columns[0], s.columns[1]);
    cub::DoubleBuffer<int32_t> entries(s.entries[0], s.entries[1]);
    cudaError_t status = cub::DeviceRadixSort::SortPairs(nullptr, s.cub_size, columns, entries, count, 0, bits, stream);
    size_t size = lay_out(s, scratch, m.stored);
    if (!scratch)
        *bytes = size;
    if (status != cudaSuccess || !scratch)
        return status;
    if (m.stored) {
        number_entries<<<blocks_of(m.stored), BLOCK, 0, stream>>>(m.indices, m.stored, s.columns[0], s.entries[0]);
        status = cub::DeviceRadixSort::SortPairs(s.cub, s.cub_size, columns, entries, count, 0, bits, stream);
    }
    if (status != cudaSuccess)
        return status;
    column_offsets<<<blocks_of(static_cast<int64_t>(m.columns) + 1), BLOCK, 0, stream>>>(s.columns[columns.selector],
                                                                                         count, m.columns, to.offsets);
    if (!m.stored)
        return cudaGetLastError();
    const int32_t *sorted = s.entries[entries.selector];
    return SPG_BY_VALUE(precision, launch_gather, m, sorted, scale, conjugated, to, stream);
}

cudaError_t spg_launch_scale(spg_precision precision, const void *from, int64_t stored, const void *scale, void *to,
                             cudaStream_t stream) {
    if (!stored)
        return cudaSuccess;
    return SPG_BY_VALUE(precision, launch_scale, from, stored, scale, to, stream);
}

cudaError_t spg_launch_beside(spg_precision precision, const spg_operand *a, const void *beta, const spg_operand *to,
                              cudaStream_t stream) {
    return SPG_BY_VALUE(precision, launch_beside, *a, beta, *to, stream);
}

cudaError_t spg_launch_below(const spg_operand *above, const spg_operand *below, int32_t *offsets,
                             cudaStream_t stream) {
    const spg_operand b = *above, d = *below;
    int64_t rows = static_cast<int64_t>(b.rows > d.rows ? b.rows : d.rows) + 1;
    offsets_below<<<blocks_of(rows), BLOCK, 0, stream>>>(b, d, offsets);
    return cudaGetLastError();
}

cudaError_t spg_launch_identity(spg_precision precision, const spg_operand *to, cudaStream_t stream) {
    return SPG_BY_VALUE(precision, launch_identity, *to, stream);
}
