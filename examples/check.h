/* For all examples: any CUDA error ends the program with a message and a failing exit status. */
#ifndef EXAMPLES_CHECK_H
#define EXAMPLES_CHECK_H

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(call)                                                                                    \
    do {                                                                                               \
        cudaError_t error_ = (call);                                                                   \
        if (error_ != cudaSuccess) {                                                                   \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(error_)); \
            exit(1);                                                                                   \
        }                                                                                              \
    } while (0)

#endif
