/* What one thread of each kernel does; kernels and host twins share it. */
#ifndef HADRON_ELEMENTS_H
#define HADRON_ELEMENTS_H

#include "examples/hadron/kernels.h"

#ifdef __CUDACC__
#define HOST_DEVICE __host__ __device__
#else
#define HOST_DEVICE
#endif

static inline HOST_DEVICE void pointers_element(int e, const struct operands *operands, struct complex_number *products,
                                                long numbers, struct pointers *pointers) {
    pointers->left[e] = operands->left[operands->mapping.left[e]];
    pointers->right[e] = operands->right[operands->mapping.right[e]];
    pointers->product[e] = products + e * numbers;
}

static inline HOST_DEVICE void add_product(struct complex_number *sum, struct complex_number a,
                                           struct complex_number b) {
    sum->re += a.re * b.re - a.im * b.im;
    sum->im += a.re * b.im + a.im * b.re;
}

static inline HOST_DEVICE void accumulate_element(long i, int spin, const struct operands *operands,
                                                  const struct complex_number *products, long numbers, int per_spin) {
    struct complex_number sum = {0, 0};
    for (int e = spin * per_spin; e < (spin + 1) * per_spin; e++) {
        sum.re += products[e * numbers + i].re;
        sum.im += products[e * numbers + i].im;
    }
    operands->output[spin][i] = sum;
}

#endif
