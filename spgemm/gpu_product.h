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

/* The structure of a product: what its numeric phase needs beside A and B. */
struct spg_structure {
    struct spg_work work;
    struct spg_result c; /* without entries */
};

struct spg_product {
    struct spg_method method; /* method.gpu.c is C; without entries when they lie in the memory of a caller */
    struct spg_cache cache;
    struct spg_work work; /* of the last product: sizes and offsets of its rows; gpu NULL = there is no product. After
                           * one pass over short rows (gpu_short.c) only its totals: c has the offsets. */
    struct spg_short_memory short_rows;
};

/* Only tests change these. */
struct spg_product_settings {
    int64_t long_row;      /* intermediate products of a row from which rows are counted first */
    int64_t entries;       /* expected entries of C from which rows are counted first */
    int64_t many_products; /* intermediate products from which C is large: its rows may be counted first */
};
extern struct spg_product_settings spg_product_settings;

/* The operands are method.gpu.a and b, in device memory, ready in the order of the memory's stream. Computes C in the
 * multiplier's own memory, or with `place` not NULL in the caller's. *indices and *values are the addresses. On failure
 * there is no product; but if `provide` fails with SPG_TOO_SMALL, its structure stays that of the last product. */
bool spg_product_compute(struct spg_product *p, const struct spg_place *place, int32_t **indices, void **values,
                         struct spg_error *error);
/* The same for operands with the structure of the last product: only values are computed. Does not wait, if the product
 * is planned. */
bool spg_product_recompute(struct spg_product *p, const struct spg_place *place, int32_t **indices, void **values,
                           struct spg_error *error);
bool spg_product_is_planned(const struct spg_product *p);
/* Only the structure. It takes its memory out of the product's; the caller drops it. There is no last product then. */
bool spg_product_count(struct spg_product *p, struct spg_structure *s, struct spg_error *error);
/* Bytes of device memory, which `memory` has counted or not. */
size_t spg_structure_size(const struct spg_structure *s);
void spg_structure_drop(struct spg_structure *s, struct spg_memory *memory);
/* Only columns and values, in the order of the memory's stream. Neither waits nor changes the structure or the last
 * product. */
bool spg_product_fill(struct spg_product *p, const struct spg_structure *s, int32_t *indices, void *values,
                      struct spg_error *error);
/* Helper arrays and the sample, without a product: sets *bytes, *products and *expected. */
bool spg_product_analyse(struct spg_product *p, size_t *bytes, int64_t *products, double *expected,
                         struct spg_error *error);
/* Drops the last product. The cache keeps its memory. */
void spg_product_forget(struct spg_product *p);

#endif
