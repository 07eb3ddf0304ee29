/* The handle of spgemm.h for one device. */
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
