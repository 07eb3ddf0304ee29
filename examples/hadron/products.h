/* The batched matrix products of a contraction, by cuBLAS or by the program's own kernel. */
#ifndef HADRON_PRODUCTS_H
#define HADRON_PRODUCTS_H

#include "examples/hadron/kernels.h"

/* NULL as a handle: the own kernel. */
struct cublasContext;

/* Opens cuBLAS, so that the program also starts on machines without it. false: *why says why not. */
bool products_open(const char **why);

/* A handle for the work of one stream. Ends the program on failure. */
struct cublasContext *products_handle(cudaStream_t stream);
void products_close(struct cublasContext *handle);

void products_launch(struct cublasContext *handle, cudaStream_t stream, const struct tensors *tensors,
                     struct pointers *pointers);

#endif
