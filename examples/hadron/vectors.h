/* Vectors of hadron nodes with a share of nodes from the vector before. */
#ifndef HADRON_VECTORS_H
#define HADRON_VECTORS_H

#include "examples/hadron/model.h"

/* Turns vector[0 .. size - 1] into the next vector. `repeated` of its nodes stay: which ones is drawn uniformly, or by
 * a normal distribution around the vector's centre with a standard deviation of a sixth of it. They get uniformly drawn
 * places, the latest node first. All other places get *next_node, which counts up. `scratch` has room for 2 * size
 * numbers. */
void next_vector(const struct experiment *experiment, uint64_t *random, uint32_t *vector, uint32_t *next_node,
                 uint32_t *scratch);

#endif
