/* Objects that are linked with the driver itself. Their calls need no look-up, so they pass every entry that gpumem
 * hands out at a look-up. */
#ifndef GM_DRIVER_LINKED_H
#define GM_DRIVER_LINKED_H

#include "shim/base/base.h"

/* True when an object of the process is linked with libcuda. Answers false, too, when no object was loaded since the
 * last call: who needs the state remembers a true. */
GM_INTERNAL bool gm_driver_linked(void);

#endif
