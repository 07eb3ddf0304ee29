/* The driver as programs call it, for what works on their behalf: memory that a region takes is the program's. */
#ifndef GM_DRIVER_PROGRAM_DRIVER_H
#define GM_DRIVER_PROGRAM_DRIVER_H

#include "shim/base/base.h"
#include "shim/driver/driver.h"

/* With libgpumem.so preloaded, its hooks: the calls are traced, bound by GPUMEM_LIMIT, and memory kept for reuse makes
 * room for them. Else the driver's own functions. Loads the driver if need be; NULL: there is none. Not to be called
 * inside a hook. */
GM_INTERNAL const struct gm_driver *gm_program_driver(void);

#endif
