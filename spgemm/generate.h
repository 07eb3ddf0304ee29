/* Families of generated matrices, one file each: generate_*.c. All leave the values unset, except where said. On
 * failure *m is empty. */
#ifndef SPG_GENERATE_H
#define SPG_GENERATE_H

#include "spgemm/matrix.h"

struct spg_grid_point {
    int8_t x, y, z;
};
/* A stencil on a grid. Each grid point is coupled with the points at the distances in `points`, as far as they are
 * inside: all `unknowns` of one with all unknowns of the other. Grid points are numbered x fastest; `points` ascends by
 * z, then y, then x. */
bool spg_generate_grid(struct spg_csr *m, const int64_t size[3], const struct spg_grid_point *points, int point_count,
                       int64_t unknowns, struct spg_error *error);

/* The cage model of DNA electrophoresis with 3 to 16 monomers. */
bool spg_generate_cage(struct spg_csr *m, int64_t monomers, struct spg_error *error);

/* The KKT matrix of a boundary control problem on a cube of `size`^3 points. Sets the values. */
bool spg_generate_kkt(struct spg_csr *m, int64_t size, uint64_t seed, struct spg_error *error);

/* An R-MAT graph of 2^scale vertices, with `edges` random edges for each vertex; equal edges become one. */
bool spg_generate_rmat(struct spg_csr *m, int64_t scale, int64_t edges, uint64_t seed, struct spg_error *error);

/* `rows` short rows of at most `each` entries, `dense` of them replaced by rows (by_columns: columns) of all unknowns.
 */
bool spg_generate_dense(struct spg_csr *m, int64_t rows, int64_t each, int64_t dense, bool by_columns, uint64_t seed,
                        struct spg_error *error);

#endif
