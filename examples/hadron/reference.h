/* The same contractions on the host, by other code: rows of an output, from the numbers of the initial nodes alone. */
#ifndef HADRON_REFERENCE_H
#define HADRON_REFERENCE_H

#include "examples/hadron/workload.h"

struct reference {
    const struct tensors *tensors;
    const struct workload *workload;
    bool random_mappings;
    uint64_t seed;
};

/* Compares `rows` rows of each spin of an output with `spins`, all of them where there are not more; otherwise `random`
 * draws them. Returns how many numbers differ. *compared: adds how many were compared. */
size_t reference_differences(const struct reference *reference, uint32_t node, struct complex_number *const *spins,
                             uint32_t rows, uint64_t random, size_t *compared);

#endif
