/* The end of the work in flight. */
#ifndef GM_SUSPEND_FINISH_H
#define GM_SUSPEND_FINISH_H

#include "shim/driver/driver.h"

/* The entries are closed, and it is this thread's turn: waits until neither a call nor a device is at work. After an
 * error `why` (GM_SUSPEND_WHY) has one line. */
GM_INTERNAL gm_status gm_finish_work(uint64_t until_ns, char *why);

#endif
