// Kernels of the example, with plain names so that host twins can be found by them. Each does for all x below `count`
// what the function of its name in elements.h says.
#ifndef HE_OPS_KERNELS_H
#define HE_OPS_KERNELS_H

#include "elements.h"

extern "C" {
__global__ void he_uniform(long count, word *out, const modulus *table, shape s, word seed);
__global__ void he_small(long count, word *out, const modulus *table, shape s, word seed, word bound);
__global__ void he_hide(long count, word *out, const word *noise, const word *mask, const word *secret,
                        const modulus *table, shape s);
__global__ void he_gadget(long count, word *key, const word *from, const word *special_product, const modulus *table,
                          shape s);
__global__ void he_add(long count, word *out, const word *a, const word *b, const modulus *table, shape s, int a_limbs,
                       int b_limbs);
__global__ void he_multiply(long count, word *out, const word *a, const word *factor, const modulus *table, shape s,
                            int a_limbs);
__global__ void he_tensor(long count, word *out, const word *a, const word *b, const modulus *table, shape s,
                          int a_limbs, int b_limbs);
__global__ void he_automorphism(long count, word *out, const word *in, shape s, long galois, int in_limbs);
__global__ void he_scale(long count, word *out, const word *in, const word *scale, const modulus *table, shape s);
__global__ void he_convert(long count, word *out, const word *scaled, const word *matrix, const modulus *table, shape s,
                           int sources);
__global__ void he_lift(long count, word *out, const word *in, const modulus *table, shape s, int from);
__global__ void he_divide(long count, word *out, const word *in, const word *rest, const word *inverses,
                          const modulus *table, shape s, int in_limbs);
__global__ void he_inner(long count, word *sum, const word *extended, const word *key, const modulus *table, shape s,
                         int first, int key_limbs);
__global__ void he_ntt_outer(long count, word *data, const word *factors, const modulus *table, shape s);
__global__ void he_intt_outer(long count, word *data, const word *factors, const word *scales, const modulus *table,
                              shape s);
// A block of threads for each of `count` blocks of 2^INNER_LOG words.
__global__ void he_ntt_inner(long count, word *data, const word *factors, const modulus *table, shape s);
__global__ void he_intt_inner(long count, word *data, const word *factors, const modulus *table, shape s);
}

enum { THREADS = 256, INNER_THREADS = 512 };

#endif
