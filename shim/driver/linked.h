/* Which functions of the driver the loaded objects are linked with: those calls come without a look-up. */
#ifndef GM_DRIVER_LINKED_H
#define GM_DRIVER_LINKED_H

#include "shim/base/base.h"

/* True for a function by which a stream writes values: cuStreamWriteValue*, cuStreamBatchMemOp*. */
GM_INTERNAL bool gm_writes_values(const char *symbol);
/* The program, or a loaded library, is linked with such a function. Reads the objects at the first call, and later only
 * when some were loaded since the last call. Once true, the answer stays true. No lock may be held. */
GM_INTERNAL bool gm_linked_with_writes(void);

#endif
