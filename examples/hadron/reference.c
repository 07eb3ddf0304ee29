#include "examples/hadron/reference.h"
#include "policy/eviction/random_numbers.h"

#include <stdlib.h>
#include <string.h>

static const struct contraction *maker_of(const struct reference *r, uint32_t node) {
    for (uint32_t i = 0; i < r->workload->contraction_count; i++) {
        if (r->workload->contractions[i].output == node)
            return &r->workload->contractions[i];
    }
    abort(); /* a node is initial, or a contraction made it */
}

/* sum += row * (the matrices of a spin of a right operand). Products associate, so an output that is a right operand is
 * never formed: its own operands are applied one after the other. */
static void add_times(const struct reference *r, uint32_t node, int spin, const struct complex_number *row,
                      struct complex_number *sum) {
    const struct tensors *t = r->tensors;
    const size_t inner = (size_t)t->inner;
    if (r->workload->nodes[node].initial) {
        for (size_t column = 0; column < (size_t)t->columns; column++) {
            for (size_t k = 0; k < inner; k++) {
                const struct complex_number b = initial_number(r->seed, node, spin, column * inner + k);
                sum[column].re += row[k].re * b.re - row[k].im * b.im;
                sum[column].im += row[k].re * b.im + row[k].im * b.re;
            }
        }
        return;
    }
    const struct contraction *c = maker_of(r, node);
    struct mapping mapping;
    mapping_make(t, r->random_mappings, r->seed, c->left, c->right, &mapping);
    struct complex_number *between = take(inner, sizeof *between);
    for (int e = spin * t->per_spin; e < (spin + 1) * t->per_spin; e++) {
        memset(between, 0, inner * sizeof *between);
        add_times(r, c->left, mapping.left[e], row, between);
        add_times(r, c->right, mapping.right[e], between, sum);
    }
    free(between);
}

/* sum += a row of the matrices of a spin. */
static void add_row(const struct reference *r, uint32_t node, int spin, size_t row, struct complex_number *sum) {
    const struct tensors *t = r->tensors;
    if (r->workload->nodes[node].initial) {
        for (size_t k = 0; k < (size_t)t->inner; k++) {
            const struct complex_number a = initial_number(r->seed, node, spin, k * (size_t)t->rows + row);
            sum[k].re += a.re;
            sum[k].im += a.im;
        }
        return;
    }
    const struct contraction *c = maker_of(r, node);
    struct mapping mapping;
    mapping_make(t, r->random_mappings, r->seed, c->left, c->right, &mapping);
    struct complex_number *left = take((size_t)t->inner, sizeof *left);
    for (int e = spin * t->per_spin; e < (spin + 1) * t->per_spin; e++) {
        memset(left, 0, (size_t)t->inner * sizeof *left);
        add_row(r, c->left, mapping.left[e], row, left);
        add_times(r, c->right, mapping.right[e], left, sum);
    }
    free(left);
}

static size_t row_differences(const struct reference *r, uint32_t node, int spin, size_t row,
                              const struct complex_number *numbers) {
    const size_t columns = (size_t)r->tensors->columns, rows = (size_t)r->tensors->rows;
    struct complex_number *expected = take(columns, sizeof *expected);
    size_t different = 0;
    add_row(r, node, spin, row, expected);
    for (size_t column = 0; column < columns; column++) {
        const struct complex_number got = numbers[column * rows + row];
        different += got.re != expected[column].re || got.im != expected[column].im;
    }
    free(expected);
    return different;
}

size_t reference_differences(const struct reference *r, uint32_t node, struct complex_number *const *spins,
                             uint32_t rows, uint64_t random, size_t *compared) {
    const struct tensors *t = r->tensors;
    const bool all = rows >= (uint32_t)t->rows;
    const uint32_t count = all ? (uint32_t)t->rows : rows;
    size_t different = 0;
#pragma omp parallel for schedule(dynamic, 1) reduction(+ : different)
    for (int spin = 0; spin < t->spins[HADRON]; spin++) {
        uint64_t state = random + (uint64_t)spin;
        for (uint32_t i = 0; i < count; i++)
            different +=
                row_differences(r, node, spin, all ? i : gm_random_below(&state, (uint32_t)t->rows), spins[spin]);
    }
    *compared += (size_t)t->spins[HADRON] * count * (size_t)t->columns;
    return different;
}
