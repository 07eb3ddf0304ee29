/* The pitch that a device would choose. */
#ifndef GM_RESOURCE_PITCH_H
#define GM_RESOURCE_PITCH_H

#include "shim/base/base.h"
#include "shim/driver/driver.h"
#include "shim/resource/block.h"

/* Writes piece->reserved and piece->pitch for a request: its own size and 0, or for pitched memory what the rows need
 * at the device's pitch. The first request of a (device, width class, element size) asks the driver with one row of
 * native memory, later ones a table. The request's context must be current. Errors: GM_NOT_SUPPORTED for an empty shape
 * and during a capture, GM_OUT_OF_MEMORY where the product overflows, the driver's own. */
GM_INTERNAL gm_status gm_shape_of(const struct gm_request *request, struct gm_piece *piece);

#endif
