/* A wrapper as the toolkit's header has them: always here, whether it is inlined or not. */
#ifndef PLACES_CUDA_RUNTIME_H
#define PLACES_CUDA_RUNTIME_H

#include "places/runtime.h"

static inline int typed_malloc(int size) { return cudaMalloc(size) + 1; }

#endif
