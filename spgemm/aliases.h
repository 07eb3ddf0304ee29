/* Matrices of a call that lie in memory which the call writes: the multiplier's last C, and the output. */
#ifndef SPG_ALIASES_H
#define SPG_ALIASES_H

#include "spgemm/multiplier.h"

/* Whether an array of the matrix lies in C. */
bool spg_lies_in(const struct gpumem_spgemm_csr *m, const struct spg_result *c);

/* Before the last C is dropped: sets it aside if a matrix of the call lies in it. It is dropped when the call ends.
 * After GPUMEM_TOO_SMALL it stays, so that the call can be repeated. */
void spg_set_aside(struct gpumem_spgemm *m, const struct spg_request *r);

/* Refuses matrices that lie in the output. `rows`: of C. */
bool spg_apart_from_output(const struct gpumem_spgemm *m, const struct spg_request *r,
                           const struct gpumem_spgemm_output *output, int64_t rows, struct spg_error *error);
/* Refuses matrices that lie in the last C, which a product of the same structure overwrites. */
bool spg_apart_from_c(const struct gpumem_spgemm *m, const struct spg_request *r, struct spg_error *error);

#endif
