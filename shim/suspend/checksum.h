/* Checksums of pages of the device, which the device computes itself, so that pages that did not change need not be
 * copied, and that what came back is known to be what left.
 *
 * A page is the polynomial whose coefficients are its words of 32 bits, the first word the highest, evaluated modulo
 * 2^61 - 1 at two random points of this process: Carter and Wegman, New hash functions and their use in authentication
 * and set equality (1981). Two pages that differ have one sum with a probability below (2^19 / 2^61)^2 = 2^-84,
 * whatever they contain; it is no protection against somebody who knows the points. The sum of zeros is zero, and by
 * the same bound no other page's is. */
#ifndef GM_SUSPEND_CHECKSUM_H
#define GM_SUSPEND_CHECKSUM_H

#include "shim/driver/driver.h"
#include "shim/resource/backing.h"

static inline bool gm_checksum_is_zero(const struct gm_checksum *sum) { return !sum->words[0] && !sum->words[1]; }

/* Writes the sums of whole pages at these addresses, which lie on the context's device and are mapped, and returns when
 * that is done. The context is held. One thread at a time. Errors: GM_OUT_OF_MEMORY, the driver's own, also where it
 * does not take the kernel. */
GM_INTERNAL gm_status gm_checksums(const struct gm_context *context, const uint64_t *pages, unsigned count,
                                   struct gm_checksum *sums);

#endif
