/* The experiment behind tables 1 to 3 and figure 11 of memhc (6.4), replayed without a GPU.
 *
 * The paper prints results and no program. This experiment gives its Pre-Protected rows exactly (V: vector size; r:
 * repeated rate; k: oversubscription / 50 %):
 *
 * - A loop contracts 1 + k vectors of V hadron nodes. Each of the V contractions looks up three tensors: its node, one
 *   tensor that all contractions share, and its output. That makes 3 (1 + k) V look-ups.
 * - r V nodes of a vector are nodes of the vector before, the others are new. The first vector is new as a whole.
 * - Every contraction has a stream of its own: the tensors of a vector are in use until its end.
 * - Outputs are always new. Those of a vector are placed before its nodes arrive and released lazily at its end.
 *   The next vector's outputs overwrite them without an allocation.
 * - The device holds 2 V + 1 tensors of one size: V nodes, V outputs, the shared one. Each of the k vectors after the
 *   first brings V nodes more, which is 50 % of 2 V.
 * - Three allocations of a loop are no tensors, and no look-up counts them. The paper does not say what they are;
 *   three pointer arrays of a batched zgemm fit.
 *
 * Where no node is evicted before its second use: evictions E = k V (1 - r), hits = (1 + 2k) V - 1 - E, misses =
 * (2 + k) V + 1 + E, allocations = 2 V + 4 + E. Under the other policies E grows by the repeated nodes that were
 * evicted. */
#ifndef HADRON_MODEL_H
#define HADRON_MODEL_H

#include "policy/eviction/eviction.h"

enum distribution { UNIFORM, GAUSSIAN, DISTRIBUTIONS };

struct experiment {
    const struct gm_eviction_policy *policy;
    enum distribution distribution;
    uint32_t vector_size;
    uint32_t more_vectors; /* k */
    uint32_t repeated;     /* r V */
};

struct counts {
    uint64_t allocate, evictions, hit, miss;
};

/* Adds what one loop counts. The seed decides nodes, their places, and the victims of `random`. false: no memory. */
bool model_loop(const struct experiment *experiment, uint64_t seed, struct counts *counts);

#endif
