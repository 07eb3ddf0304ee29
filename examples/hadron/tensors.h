/* What a hadron node holds, and which matrix products one contraction is (memhc 2.3, 2.4, figure 3).
 *
 * meson   Rank 2. A node has 16 spins, two indices of 4; each spin is an N x N matrix of double complex.
 *         C^ab(ij) = sum over c and k of A^ac(ik) B^cb(kj): a batch of 64 products, 4 for each spin of the output.
 *         N = 384: 37.7 MB a node, as in the paper.
 * baryon  Rank 3. A node has 8 spins, three indices of 2; each spin holds N x N x N numbers. The paper prints no
 * formula. Two nodes of rank 3 do not contract to one of rank 3, so one quark line of the baryon is contracted with a
 *         meson of 4 spins here: C^abr(ijl) = sum over s and k of A^abs(ijk) B^sr(kl): a batch of 16 products of
 *         N^2 x N by N x N, 2 for each spin of the output. N = 128: 268 MB a node (the paper says 280 MB).
 *
 * Which spins meet in a product is the batch-spin mapping. It overlaps: each spin stands in several products. The
 * products of an output spin follow one another. */
#ifndef HADRON_TENSORS_H
#define HADRON_TENSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MAX_SPINS = 16, MAX_PRODUCTS = 64 };

/* Aligned as cuDoubleComplex is. */
struct __attribute__((aligned(16))) complex_number {
    double re, im;
};

enum role { HADRON, RIGHT_MESON, ROLES }; /* RIGHT_MESON: what a baryon is contracted with */

struct tensors {
    const char *name;
    uint32_t size;            /* N */
    bool same_roles;          /* a right operand is a HADRON too */
    int spins[ROLES];         /* the output has those of a HADRON */
    size_t numbers[ROLES];    /* of a spin */
    int products, per_spin;   /* of a contraction, of an output spin */
    int rows, inner, columns; /* of a product: rows x inner by inner x columns, columns first in memory */
};

struct tensors tensors_make(bool baryon, uint32_t size);

static inline size_t node_bytes(const struct tensors *tensors, enum role role) {
    return (size_t)tensors->spins[role] * tensors->numbers[role] * sizeof(struct complex_number);
}

/* Floating-point operations of a contraction: 8 for each multiplication of complex numbers with its addition. The
 * additions of the accumulation do not count. The paper prints no formula, but its figure 7 leaves this one: 3541
 * GFLOP/s on a P100 are two thirds of what the card can do, and the work of a smaller count would exceed that. Seconds
 * times GFLOP/s of a1_rhopi in table 5 then are 32 products for each contraction, those of f0d2 and f0d4 are 8.2. */
double tensors_operations(const struct tensors *tensors);

struct mapping {
    unsigned char left[MAX_PRODUCTS], right[MAX_PRODUCTS]; /* spins by product */
};

/* random: each input's spins in an order that seed and the two nodes decide, every spin as often as before. The paper
 * takes mappings as unpredictable (5.2). Otherwise those of the formulas above. */
void mapping_make(const struct tensors *tensors, bool random, uint64_t seed, uint32_t left, uint32_t right,
                  struct mapping *mapping);

/* The number at `index` of a spin of an initial node. Parts are -1, 0 or 1, so that sums of products are exact in
 * double precision, in any order: results are compared for equality. */
struct complex_number initial_number(uint64_t seed, uint32_t node, int spin, size_t index);

void initial_fill(uint64_t seed, uint32_t node, int spin, struct complex_number *numbers, size_t count);

#endif
