// A CUDA call that must succeed: otherwise its text and the driver's words for the error are said, and the program
// ends.
#ifndef GPU_CHECK_H
#define GPU_CHECK_H

#include <cstdio>
#include <cstdlib>

#define CHECK(call)                                                                                        \
    do {                                                                                                   \
        cudaError_t error = (call);                                                                        \
        if (error != cudaSuccess) {                                                                        \
            std::fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(error)); \
            std::exit(1);                                                                                  \
        }                                                                                                  \
    } while (0)

#endif
