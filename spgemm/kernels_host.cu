/* Memory of the host (host.c): the rows of B that rows of A name, as a matrix on the device. Its other rows are empty,
 * so the rows keep their numbers, and sums their order.
 *
 * - name_rows: one thread takes an entry of A and notes the length of its row of B.
 * - fetch_rows: one thread copies an entry out of host memory. Neighbours read neighbours. The host copies nothing.
 * - post: one block writes a few words that the host waits for. */
#include "spgemm/find.cuh"
#include "spgemm/kernels.h"

namespace {

constexpr int BLOCK = 256;
/* Blocks of fetch_rows: enough reads in flight for the bus, and few, so that a product beside them has room. */
constexpr unsigned FETCHERS = 256;

unsigned blocks_of(int64_t threads) { return static_cast<unsigned>((threads + BLOCK - 1) / BLOCK); }

__device__ int64_t thread_number() { return static_cast<int64_t>(blockIdx.x) * BLOCK + threadIdx.x; }

__global__ void __launch_bounds__(BLOCK)
    name_rows(const int32_t *columns, int64_t count, const int64_t *offsets, int32_t rows, int32_t *length) {
    int64_t k = thread_number();
    if (k >= count)
        return;
    int32_t row = columns[k];
    if (row >= 0 && row < rows)
        length[row] = static_cast<int32_t>(offsets[row + 1] - offsets[row]);
}

/* V has the size of a value. */
template <typename V>
__global__ void __launch_bounds__(BLOCK)
    fetch_rows(spg_operand to, const int64_t *offsets, const int32_t *indices, const V *values) {
    for (int64_t k = thread_number(); k < to.stored; k += static_cast<int64_t>(gridDim.x) * BLOCK) {
        int32_t row = spg_last_up_to(to.offsets, to.rows, k);
        int64_t from = offsets[row] + (k - to.offsets[row]);
        to.indices[k] = indices[from];
        if (values)
            static_cast<V *>(to.values)[k] = values[from];
    }
}

__global__ void __launch_bounds__(BLOCK) post(const uint32_t *from, size_t words, uint32_t *to) {
    for (size_t i = threadIdx.x; i < words; i += BLOCK)
        to[i] = from[i];
}

template <typename V>
cudaError_t launch_fetch(const spg_operand &to, const int64_t *offsets, const int32_t *indices, const void *values,
                         cudaStream_t stream) {
    unsigned all = blocks_of(to.stored), blocks = all < FETCHERS ? all : FETCHERS;
    const V *from = static_cast<const V *>(values);
    fetch_rows<V><<<blocks, BLOCK, 0, stream>>>(to, offsets, indices, from);
    return cudaGetLastError();
}

} // namespace

cudaError_t spg_launch_name_rows(const int32_t *columns, int64_t count, const int64_t *offsets, int32_t rows,
                                 int32_t *length, cudaStream_t stream) {
    if (count)
        name_rows<<<blocks_of(count), BLOCK, 0, stream>>>(columns, count, offsets, rows, length);
    return cudaGetLastError();
}

cudaError_t spg_launch_fetch_rows(size_t value_size, const spg_operand *to, const int64_t *offsets,
                                  const int32_t *indices, const void *values, cudaStream_t stream) {
    if (!to->stored)
        return cudaSuccess;
    auto *launch = value_size == 16  ? launch_fetch<uint4>
                   : value_size == 8 ? launch_fetch<uint64_t>
                                     : launch_fetch<uint32_t>;
    return launch(*to, offsets, indices, value_size ? values : nullptr, stream);
}

cudaError_t spg_launch_post(const void *from, size_t size, void *to, cudaStream_t stream) {
    post<<<1, BLOCK, 0, stream>>>(static_cast<const uint32_t *>(from), size / sizeof(uint32_t),
                                  static_cast<uint32_t *>(to));
    return cudaGetLastError();
}
