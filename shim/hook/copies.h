#ifndef GM_HOOK_COPIES_H
#define GM_HOOK_COPIES_H

#include "shim/hook/hook.h"

/* Puts hooks in front of copies of device memory where GPUMEM_GROW observes them. */
GM_INTERNAL void gm_copies_start(void);
/* True when the call has such a hook, which itself finds out whether the copy ends a page handover. */
GM_INTERNAL bool gm_copies_defers(unsigned call_number);

#endif
