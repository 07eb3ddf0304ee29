/* The pitch that a device would choose. */
#ifndef GM_RESOURCE_PITCH_H
#define GM_RESOURCE_PITCH_H

#include "shim/base/base.h"
#include "shim/driver/driver.h"

/* Bytes for pitched memory of the request and the bytes between its rows. The first request of a (device, width class, element
 * size) asks the driver with one row of native memory, later ones a table. Context current, inside the capture guard.
 * Errors: GM_NOT_SUPPORTED for an empty shape, GM_OUT_OF_MEMORY where the product overflows, the driver's own. */
GM_INTERNAL gm_status gm_pitch_of(const struct gm_request *request, size_t *pitch, size_t *bytes);

#endif
