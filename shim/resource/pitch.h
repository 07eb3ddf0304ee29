/* Size and pitch of a request. Pitched memory from other makers must have the pitch that the driver would choose. */
#ifndef GM_RESOURCE_PITCH_H
#define GM_RESOURCE_PITCH_H

#include "shim/base/base.h"
#include "shim/driver/driver.h"
#include "shim/resource/block.h"

/* Writes piece->reserved and piece->pitch for a request. Plain memory: its size and 0. Pitched memory: the bytes of all
 * rows at the device's pitch, and the pitch. The first request of a (device, width class, element size) allocates one
 * row of native memory to learn the pitch; later requests read it from a table. The request's context must be current.
 * Errors: GM_NOT_SUPPORTED for an empty shape and during a capture; GM_OUT_OF_MEMORY where the product overflows; the
 * driver's own. */
GM_INTERNAL gm_status gm_shape_of(const struct gm_request *request, struct gm_piece *piece);

#endif
