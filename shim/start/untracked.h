/* When the account of a device (shim/accounts/account.h) is taken for readers, and where it goes: to the counters,
 * which viewers and gpumem run read, and to the trace. What the process holds beyond gpumem's view is a row of it.
 *
 * Under gpumem run, and with a trace, the moments are the first 32 MiB of reserved bytes, each growth of their peak by
 * an eighth and 32 MiB, a request that found no memory, and the end of a context or of the program; while a viewer
 * watches, all calls. That is at most ten times a second, or a hundred times when memory runs out, and at most a
 * twentieth of the time, except where the peak has doubled; never while a stream captures. At the end of the program
 * only the card's management library is queried. */
#ifndef GM_UNTRACKED_H
#define GM_UNTRACKED_H

#include "shim/base/events.h"

/* After the trace and the counters are set up. */
void gm_untracked_setup(void);
/* Takes the account of the device, which has the current context. */
GM_INTERNAL void gm_untracked_sample(int device, enum gm_moment moment);

#endif
