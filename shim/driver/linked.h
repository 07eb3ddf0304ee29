/* Finds objects (the program or a library) that are linked with libcuda itself. The loader binds their calls, so these
 * calls do not pass through dlsym or cuGetProcAddress, where gpumem hands out its entry points. */
#ifndef GM_DRIVER_LINKED_H
#define GM_DRIVER_LINKED_H

#include "shim/base/base.h"

/* True when an object of the process is, or was, linked with libcuda. The loader's list is read only when objects were
 * loaded since the last call. */
GM_INTERNAL bool gm_driver_linked(void);

#endif
