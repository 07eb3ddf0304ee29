/* Slabs of the rows of a product: cut so that they have equal work, or so that 32-bit offsets can count their entries.
 */
#ifndef SPG_GPU_SPLIT_H
#define SPG_GPU_SPLIT_H

#include "spgemm/gpu_rows.h"

struct spg_slabs {
    int32_t parts;
    int32_t *cut; /* on the host: first row of each slab, then the number of rows */
    int32_t *at;  /* the offset of A at each cut */
};
void spg_slabs_free(struct spg_slabs *slabs);

/* Cuts the rows of method->gpu.a into `parts` slabs of equal work (intermediate products); some may be empty. */
bool spg_slabs_even(struct spg_slabs *slabs, struct spg_method *method, int32_t parts, struct spg_error *error);
/* Cuts them into slabs of at most `most` intermediate products, or of one row. */
bool spg_slabs_limited(struct spg_slabs *slabs, struct spg_method *method, int64_t most, struct spg_error *error);

/* Rows `first` to first + rows - 1 of a matrix, as an operand in the same memory: its offsets begin with `entry`. */
static inline struct spg_operand spg_operand_rows(const struct spg_operand *o, int32_t first, int32_t rows,
                                                  int32_t entry, int64_t stored) {
    return (struct spg_operand){.rows = rows,
                                .columns = o->columns,
                                .stored = stored,
                                .first = entry,
                                .offsets = o->offsets + first,
                                .indices = o->indices,
                                .values = o->values};
}

#endif
