#include "examples/hadron/elements.h"

enum { THREADS = 256, TILE = 16 };

extern "C" __global__ void hadron_pointers(struct operands operands, struct complex_number *products, long numbers,
                                           struct pointers *pointers, int count) {
    const int e = static_cast<int>(threadIdx.x);
    if (e < count)
        pointers_element(e, &operands, products, numbers, pointers);
}

// A block for each tile of a product; z: the product.
extern "C" __global__ void hadron_multiply(const struct pointers *pointers, int rows, int inner, int columns) {
    __shared__ complex_number a[TILE][TILE + 1], b[TILE][TILE + 1];
    const int e = static_cast<int>(blockIdx.z), x = static_cast<int>(threadIdx.x), y = static_cast<int>(threadIdx.y);
    const int row = static_cast<int>(blockIdx.x) * TILE + x, column = static_cast<int>(blockIdx.y) * TILE + y;
    const complex_number *left = pointers->left[e], *right = pointers->right[e];
    complex_number sum = {0, 0};
    for (int k = 0; k < inner; k += TILE) {
        const complex_number none = {0, 0};
        a[y][x] = row < rows && k + y < inner ? left[static_cast<size_t>(k + y) * rows + row] : none;
        b[y][x] = column < columns && k + x < inner ? right[static_cast<size_t>(column) * inner + k + x] : none;
        __syncthreads();
        for (int i = 0; i < TILE; i++)
            add_product(&sum, a[i][x], b[y][i]);
        __syncthreads();
    }
    if (row < rows && column < columns)
        pointers->product[e][static_cast<size_t>(column) * rows + row] = sum;
}

// y: the output spin.
extern "C" __global__ void hadron_accumulate(struct operands operands, const struct complex_number *products,
                                             long numbers, int spins, int per_spin) {
    const long i = static_cast<long>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < numbers)
        accumulate_element(i, static_cast<int>(blockIdx.y), &operands, products, numbers, per_spin);
}

cudaError_t launch_pointers(cudaStream_t stream, const struct operands *operands, struct complex_number *products,
                            long numbers, struct pointers *pointers, int count) {
    hadron_pointers<<<1, MAX_PRODUCTS, 0, stream>>>(*operands, products, numbers, pointers, count);
    return cudaGetLastError();
}

cudaError_t launch_multiply(cudaStream_t stream, const struct pointers *pointers, int rows, int inner, int columns,
                            int count) {
    const dim3 grid((rows + TILE - 1) / TILE, (columns + TILE - 1) / TILE, count);
    hadron_multiply<<<grid, dim3(TILE, TILE), 0, stream>>>(pointers, rows, inner, columns);
    return cudaGetLastError();
}

cudaError_t launch_accumulate(cudaStream_t stream, const struct operands *operands,
                              const struct complex_number *products, long numbers, int spins, int per_spin) {
    const dim3 grid(static_cast<unsigned>((numbers + THREADS - 1) / THREADS), spins);
    hadron_accumulate<<<grid, THREADS, 0, stream>>>(*operands, products, numbers, spins, per_spin);
    return cudaGetLastError();
}
