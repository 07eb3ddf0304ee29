/* A matrix as kernels read it, with values of one precision. */
#ifndef SPG_OPERAND_CUH
#define SPG_OPERAND_CUH

#include "spgemm/entries.cuh"
#include "spgemm/kernels.h"
#include "spgemm/value.cuh"

template <typename T> struct spg_typed_operand {
    int32_t rows, columns, first, stored;
    const int32_t *offsets, *indices;
    const T *values;

    explicit spg_typed_operand(const spg_operand &o)
        : rows(o.rows), columns(o.columns), first(o.first), stored(static_cast<int32_t>(o.stored)), offsets(o.offsets),
          indices(o.indices), values(static_cast<const T *>(o.values)) {}
};

#endif
