/* Size classes: eight to a doubling, so that a block of its class's size is at most an eighth larger than a request. */
#ifndef GM_SIZE_CLASS_H
#define GM_SIZE_CLASS_H

#include <stddef.h>

/* The largest distance between two classes, bytes. */
#define GM_CLASS_MOST_STEP ((size_t)16 << 20)

/* Distance of the classes around `size`. */
static inline size_t gm_size_class_step(size_t size, size_t granule) {
    size_t eighth = (size_t)1 << (63 - __builtin_clzll((size - 1) | 1)) >> 3;
    size_t most = eighth < GM_CLASS_MOST_STEP ? eighth : GM_CLASS_MOST_STEP;
    return most > granule ? most : granule;
}

/* The class of `size` bytes (1 to SIZE_MAX / 4), a multiple of `granule`, which is a power of two. */
static inline size_t gm_size_class(size_t size, size_t granule) {
    size_t step = gm_size_class_step(size, granule);
    return (size + step - 1) & ~(step - 1);
}

/* The least multiple of the granule that has the class of `size` bytes. */
static inline size_t gm_size_class_least(size_t size, size_t granule) {
    return size - gm_size_class_step(size, granule) + granule;
}

#endif
