/* Matrices made on the spot, exactly or nearly those of the collections, by name: NAME[:ARGUMENT...].
 * Values are random, in (0, 1], equal on every machine (random.h); the last argument of every name is their
 * seed. */
#ifndef SPG_GENERATORS_H
#define SPG_GENERATORS_H

#include "spgemm/matrix.h"

#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SPG_GENERATOR_ARGUMENTS 5

/* Makes what `text` names ("cage:5", "rmat:18:8:7"). On failure *m is empty and `error` says what is
 * accepted. */
bool spg_generate(struct spg_csr *m, const char *text, struct spg_error *error);
void spg_generators_list(FILE *file); /* a line for each name: arguments with their defaults, and what it is */

/* ---- families; all leave the values to be set, except where said */

struct spg_grid_point {
    int8_t x, y, z;
};
/* Points x fastest; each is coupled with itself plus `points`, where that is inside, all `unknowns` of one
 * with all of the other. `points` ascends by z, then y, then x. */
bool spg_generate_grid(struct spg_csr *m, const int64_t size[3], const struct spg_grid_point *points, int point_count,
                       int64_t unknowns, struct spg_error *error);

/* The cage model of DNA electrophoresis with `monomers` (3 to 16) of them: generate_cage.c. */
bool spg_generate_cage(struct spg_csr *m, int64_t monomers, struct spg_error *error);

/* The KKT matrix of a boundary control problem on a cube of `size`^3 points: generate_kkt.c. Values are set.
 */
bool spg_generate_kkt(struct spg_csr *m, int64_t size, uint64_t seed, struct spg_error *error);

/* R-MAT, `edges` a vertex on 2^scale vertices, equal edges once: generate_rmat.c. */
bool spg_generate_rmat(struct spg_csr *m, int64_t scale, int64_t edges, uint64_t seed, struct spg_error *error);

#ifdef __cplusplus
}
#endif

#endif
