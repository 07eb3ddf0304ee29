/* What the calls of spgemm.h share: the text of errors, structs of other versions, and the check of operands. */
#ifndef SPG_ARGUMENTS_H
#define SPG_ARGUMENTS_H

#include "spgemm/gpu.h"
#include "spgemm/spgemm.h"

/* Keeps the text for gpumem_spgemm_last_error() and returns the status. */
enum gpumem_status spg_failed(const struct spg_error *error);

/* Refuses a handle, or memory for a result, that is NULL. */
bool spg_given(const void *pointer, const char *name, struct spg_error *error);

/* Reads the struct_size with which a caller's struct begins; fails if it cannot be one, or there is no struct. */
bool spg_struct_size(const char *name, const void *theirs, size_t *size, struct spg_error *error);
/* Copies the caller's struct, which may have the size of another version, to ours of `size` bytes. */
bool spg_struct_read(const char *name, void *ours, size_t size, const void *theirs, struct spg_error *error);
/* Copies ours to the caller's; struct_size stays. */
void spg_struct_write(void *theirs, const void *ours, size_t size);

#define SPG_READ_ARRAYS  1u /* the arrays must be there */
#define SPG_READ_WIDE    2u /* offsets may have 64 bits */
#define SPG_READ_PATTERN 4u /* values may be missing */
/* Copies and checks A or B, which is `name`. */
bool spg_read_csr(const char *name, struct gpumem_spgemm_csr *ours, const struct gpumem_spgemm_csr *theirs,
                  unsigned accepts, struct spg_error *error);

/* The matrix for kernels; its offsets must have 32 bits. */
static inline struct spg_operand spg_operand_of(const struct gpumem_spgemm_csr *m) {
    return (struct spg_operand){.rows = (int32_t)m->rows,
                                .columns = (int32_t)m->columns,
                                .stored = m->stored,
                                .offsets = (int32_t *)m->offsets,
                                .indices = (int32_t *)m->indices,
                                .values = (void *)m->values};
}

#endif
