/* Kernels of a contraction: pointers of its batch, the matrix products where cuBLAS is not used, the accumulation. Each
 * launch returns the runtime's error. */
#ifndef HADRON_KERNELS_H
#define HADRON_KERNELS_H

#include "examples/hadron/tensors.h"

#include <cuda_runtime_api.h>

/* Device addresses of the spins of one contraction; passed by value. */
struct operands {
    struct complex_number *left[MAX_SPINS], *right[MAX_SPINS], *output[MAX_SPINS];
    struct mapping mapping;
};

/* Matrices of the batch: MAX_PRODUCTS pointers to each of left, right and product. */
struct pointers {
    struct complex_number *left[MAX_PRODUCTS], *right[MAX_PRODUCTS], *product[MAX_PRODUCTS];
};

#ifdef __cplusplus
extern "C" {
#endif

/* Product e lies at products + e * numbers. */
cudaError_t launch_pointers(cudaStream_t stream, const struct operands *operands, struct complex_number *products,
                            long numbers, struct pointers *pointers, int count);

/* product[e] = left[e] * right[e], columns first, without cuBLAS: for small sizes and for the simulated CUDA. */
cudaError_t launch_multiply(cudaStream_t stream, const struct pointers *pointers, int rows, int inner, int columns,
                            int count);

/* output[s][i] = sum of the `per_spin` products from s * per_spin on. */
cudaError_t launch_accumulate(cudaStream_t stream, const struct operands *operands,
                              const struct complex_number *products, long numbers, int spins, int per_spin);

#ifdef __cplusplus
}
#endif

#endif
