/* What those who call spgemm.h share: the driver's modes, and the tests. */
#ifndef SPG_CLIENT_H
#define SPG_CLIENT_H

#include "spgemm/gpu.h"
#include "spgemm/spgemm.h"

static inline bool spg_call_worked(enum gpumem_status status, struct spg_error *error) {
    return !status || spg_fail_as(error, (int)status, "%s", gpumem_spgemm_last_error());
}

/* The argument for a matrix on a device. */
static inline struct gpumem_spgemm_csr spg_argument_of(const struct spg_operand *o) {
    return (struct gpumem_spgemm_csr){.struct_size = sizeof(struct gpumem_spgemm_csr),
                                      .rows = o->rows,
                                      .columns = o->columns,
                                      .stored = o->stored,
                                      .offsets = o->offsets,
                                      .indices = o->indices,
                                      .values = o->values};
}

/* C, or a part of it, with 32-bit offsets: the argument of spg_result_fetch. The arrays stay the library's. */
static inline struct spg_result spg_result_at(int64_t rows, int64_t columns, int64_t stored, void *offsets,
                                              void *indices, void *values) {
    return (struct spg_result){.rows = (int32_t)rows,
                               .columns = (int32_t)columns,
                               .stored = stored,
                               .offsets.at = offsets,
                               .indices.at = indices,
                               .values.at = values};
}

#endif
