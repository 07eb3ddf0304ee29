/* Objects that are linked with the driver itself. Their calls need no look-up, so they pass every entry that gpumem
 * hands out at a look-up. */
#ifndef GM_DRIVER_LINKED_H
#define GM_DRIVER_LINKED_H

#include "shim/base/base.h"

/* True when an object of the process is, or was, linked with libcuda. The loader's list is read only when objects were
 * loaded since the last call. */
GM_INTERNAL bool gm_driver_linked(void);

#endif
