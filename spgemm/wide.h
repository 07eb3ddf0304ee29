/* Products whose offsets have 64 bits. */
#ifndef SPG_WIDE_H
#define SPG_WIDE_H

#include "spgemm/arguments.h"
#include "spgemm/gpu_product.h"

/* Only tests change these. */
struct spg_wide_settings {
    int64_t products; /* the most intermediate products of a slab, at most 2^31 - 1 */
    int64_t entries;  /* the most entries of A in a slab, at most 2^31 - 1 - SPG_STEP_MAX */
};
extern struct spg_wide_settings spg_wide_settings;

struct spg_wide_c {
    int64_t stored, products;
    int64_t *offsets;
    int32_t *indices;
    void *values;
};

/* B has no more entries than such a product reaches. To be asked before any of them is read. */
bool spg_wide_takes(const struct gpumem_spgemm_csr *b, struct spg_error *error);

/* Computes C in the product's own memory, or with `place` not NULL in the caller's: `provide` is called with the
 * entries so far, must not move them, and sets *offsets. On failure and on success there is no product for another one
 * of the same structure. */
bool spg_wide_compute(struct spg_product *p, const struct gpumem_spgemm_csr operands[2], const struct spg_place *place,
                      void *const *offsets, struct spg_wide_c *c, struct spg_error *error);

#endif
