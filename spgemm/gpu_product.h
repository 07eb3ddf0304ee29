/* The product as the library computes it: it chooses between counting and growing, and keeps memory between calls. */
#ifndef SPG_GPU_PRODUCT_H
#define SPG_GPU_PRODUCT_H

#include "spgemm/gpu_rows.h"
#include "spgemm/gpu_short.h"

/* Memory of the caller for C's entries. */
struct spg_place {
    void *context;
    /* Provides memory for `stored` entries. */
    bool (*provide)(void *context, int64_t stored, int32_t **indices, void **values, struct spg_error *error);
};

struct spg_product {
    struct spg_method method; /* method.gpu.c is C; without entries when they lie in the memory of a caller */
    struct spg_cache cache;
    struct spg_work work; /* of the last product: sizes and offsets of its rows; gpu NULL = there is no product. After
                           * one pass over short rows (gpu_short.c) only its totals: c has the offsets. */
    int32_t sampled_of;   /* rows of the matrices for which method.sample was made; -1 = none was made */
    struct spg_short_memory short_rows;
};

/* Only tests change these. */
struct spg_product_settings {
    int64_t long_row; /* intermediate products of a row from which rows are counted first */
    int64_t entries;  /* expected entries of C from which rows are counted first */
};
extern struct spg_product_settings spg_product_settings;

/* The operands are method.gpu.a and b, in device memory, ordered before the default stream. Computes C in the
 * multiplier's own memory, or with `place` not NULL in the caller's. *indices and *values are the addresses. On failure
 * there is no product. */
bool spg_product_compute(struct spg_product *p, const struct spg_place *place, int32_t **indices, void **values,
                         struct spg_error *error);
/* The same for operands with the structure of the last product: only values are computed. */
bool spg_product_recompute(struct spg_product *p, const struct spg_place *place, int32_t **indices, void **values,
                           struct spg_error *error);
/* Helper arrays and the sample, without a product: sets *bytes, *products and *expected. */
bool spg_product_analyse(struct spg_product *p, size_t *bytes, int64_t *products, double *expected,
                         struct spg_error *error);
/* Drops the last product. The cache keeps its memory. */
void spg_product_forget(struct spg_product *p);

#endif
