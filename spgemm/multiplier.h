/* What a handle of spgemm.h holds. */
#ifndef SPG_MULTIPLIER_H
#define SPG_MULTIPLIER_H

#include "spgemm/arguments.h"
#include "spgemm/gpu_product.h"

struct gpumem_spgemm {
    struct spg_product product;
    struct spg_job job;
    int device;
    struct gpumem_spgemm_csr a, b; /* of the last product */
    bool in_own_memory;            /* the last product's entries */
};

static inline struct spg_operand spg_operand_of(const struct gpumem_spgemm_csr *m) {
    return (struct spg_operand){.rows = (int32_t)m->rows,
                                .columns = (int32_t)m->columns,
                                .stored = m->stored,
                                .offsets = (int32_t *)m->offsets,
                                .indices = (int32_t *)m->indices,
                                .values = (void *)m->values};
}

/* Waits for the device and frees all memory, also that of C. Its device is current. */
void spg_multiplier_empty(struct gpumem_spgemm *m);

/* Sets the operands of the next product. */
static inline void spg_multiplier_take(struct gpumem_spgemm *m, const struct gpumem_spgemm_csr *a,
                                       const struct gpumem_spgemm_csr *b) {
    struct spg_gpu *g = &m->product.method.gpu;
    g->first = spg_operand_of(a);
    g->second = spg_operand_of(b);
    g->a = &g->first;
    g->b = &g->second;
}

#endif
