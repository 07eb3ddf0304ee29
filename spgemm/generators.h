/* Matrices made on request, by name: NAME[:ARGUMENT...]. Some equal matrices of public collections in structure, some
 * only resemble them. Values are random numbers in (0, 1], equal on every machine (random.h). The last argument of
 * every name is their seed. */
#ifndef SPG_GENERATORS_H
#define SPG_GENERATORS_H

#include "spgemm/matrix.h"

#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SPG_GENERATOR_ARGUMENTS 5

/* Makes the matrix that `text` names ("cage:5", "rmat:18:8:7"). On failure *m is empty and `error` names what is
 * accepted. */
bool spg_generate(struct spg_csr *m, const char *text, struct spg_error *error);
/* Prints one line for each name: its arguments, their defaults, a description. */
void spg_generators_list(FILE *file);

#ifdef __cplusplus
}
#endif

#endif
