/* Explains errors of memory on stderr when they happen: out of memory, memory that an out-of-memory step took from
 * another kind, wrong frees. Each cause is explained once for each device; later ones are only counted, and one line at
 * the end states how many there were. A program that allocates until it fails is therefore neither flooded nor slowed
 * down.
 *
 * All functions use no heap and little stack, hold no lock across a call, and may run in many threads at once. */
#ifndef GM_EXPLAIN_H
#define GM_EXPLAIN_H

#include "policy/policy.h"
#include "shim/base/base.h"
#include "shim/resource/resource.h"

/* The request failed for lack of memory of `kind`, after all steps of GPUMEM_OOM. `exceeds_limit`: GPUMEM_LIMIT refused
 * it, not the driver. */
GM_INTERNAL void gm_explain_failure(const struct gm_request *request, enum gm_kind kind, bool exceeds_limit);
/* A step of GPUMEM_OOM served the request with memory of another kind. */
GM_INTERNAL void gm_explain_move(const struct gm_request *request, const struct gm_block *block, bool exceeds_limit);
/* A free failed because no block is live at `address`. Call sites must be known. */
GM_INTERNAL void gm_explain_wrong_free(const struct gm_request *request, uint64_t address);
/* A free failed because another call frees this live block. */
GM_INTERNAL void gm_explain_wrong_call(const struct gm_request *request, const struct gm_block *block);

/* Logs how many errors were counted but not explained. */
void gm_explain_finish(void);

#endif
