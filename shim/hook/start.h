/* The start of gpumem in a process: options, policy, resources and trace. */
#ifndef GM_HOOK_START_H
#define GM_HOOK_START_H

#include "shim/base/base.h"

/* Work that may wait for locks of the C library. Called by any thread before the start. */
void gm_process_prepare(void);
/* The start. Called by one thread; calls no function of the loader and waits for no other thread. */
void gm_process_start(void);
/* Called after the start by each thread that waited for it or made it. */
void gm_process_started(void);

#endif
