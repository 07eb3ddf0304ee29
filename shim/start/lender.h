/* The thread that gives kept memory back to whoever needs it outside of this process, and inside of it without a free.
 *
 * It begins when a cache keeps more than 1/64 of a device. It releases what it can without a wait when another process
 * of this user asks (shim/accounts/loans.h), so that the request that was refused there is served. For processes that
 * do not run under gpumem, it gives back what is kept above 1/64 of the device once the program has made no call for
 * 100 ms and the context is idle; GPUMEM_CACHE_IDLE=0 turns this off. */
#ifndef GM_START_LENDER_H
#define GM_START_LENDER_H

#include "shim/base/base.h"

/* Others can ask for memory of this device from here on. */
GM_INTERNAL void gm_lender_begin(int device);
void gm_lender_after_fork(void);

#endif
