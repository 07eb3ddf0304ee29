/* Operands that are not plain matrices: transposed ones, scaled ones, and the sum of a product and a matrix. They are
 * made plain in memory of the call, so that every kernel multiplies them:
 *
 * - op(A) is made by a sort of A's entries (kernels_operands.cu);
 * - a scale other than 1 multiplies a copy of the values;
 * - A B + beta D is [A | beta I] times [B; D].
 *
 * Cost: each step reads and writes the matrices that it makes once; a transposition also sorts. Memory: a matrix for
 * each step, values only for a scale; 16 bytes for each entry while a matrix is transposed. */
#ifndef SPG_GPU_OPERANDS_H
#define SPG_GPU_OPERANDS_H

#include "spgemm/gpu.h"

struct spg_form {
    bool transposed, conjugated;
    const void *scale; /* a value of the product's precision, on the host; NULL: 1 */
};

/* Memory of the operands of one call. */
#define SPG_FORMED 8
struct spg_formed {
    int count;
    struct spg_block block[SPG_FORMED];
};
/* The next work of the memory's stream may use the memory again. */
void spg_formed_drop(struct spg_formed *formed, struct spg_memory *memory);

/* A plain matrix: `m` itself, or one that `formed` owns. These calls submit work and do not wait. Drop `formed` after a
 * failure, too. */
bool spg_form_operand(struct spg_gpu *g, const struct spg_operand *m, const struct spg_form *form,
                      struct spg_formed *formed, struct spg_operand *plain, struct spg_error *error);
/* Replaces A and B by the operands of A B + beta D. Fails beyond what 32-bit offsets can describe. */
bool spg_form_sum(struct spg_gpu *g, struct spg_operand *a, struct spg_operand *b, const struct spg_operand *d,
                  const void *beta, struct spg_formed *formed, struct spg_error *error);
bool spg_form_identity(struct spg_gpu *g, int32_t rows, struct spg_formed *formed, struct spg_operand *identity,
                       struct spg_error *error);

#endif
