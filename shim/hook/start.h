/* Options, policy, resources and trace of this process. */
#ifndef GM_HOOK_START_H
#define GM_HOOK_START_H

#include "shim/base/base.h"

/* What may wait for locks of the C library; any thread, before the start. */
void gm_process_prepare(void);
/* One thread; asks the loader for nothing and waits for no other thread. */
void gm_process_start(void);
/* Each thread that was there, afterwards. */
void gm_process_started(void);

#endif
