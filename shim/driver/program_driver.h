/* The driver functions for work that gpumem does in the name of the program. The memory of a region belongs to the
 * program, so it must be traced and limited like the program's own allocations. */
#ifndef GM_DRIVER_PROGRAM_DRIVER_H
#define GM_DRIVER_PROGRAM_DRIVER_H

#include "shim/base/base.h"
#include "shim/driver/driver.h"

/* With libgpumem.so preloaded this is a table of its hooks: the calls are traced, count against GPUMEM_LIMIT, and free
 * blocks of the cache are released when memory runs out. Otherwise it is the driver's own table. Loads the driver
 * where needed. NULL: there is no driver. Must not be called inside a hook. */
GM_INTERNAL const struct gm_driver *gm_program_driver(void);
/* The current context, for a public call that makes something in it. Where none is current, the primary context of
 * device 0 becomes it. Fails by gm_fail: GM_NOT_INITIALIZED, the driver's error. Must not be called inside a hook. */
GM_INTERNAL gm_status gm_program_context(struct gm_context *context);

#endif
