#ifndef GM_HOOK_COPIES_H
#define GM_HOOK_COPIES_H

#include "shim/hook/hook.h"

/* The hook of `function` when it copies device memory and GPUMEM_GROW observes copies; else `function`. */
void *gm_copies_route(void *function);

#endif
