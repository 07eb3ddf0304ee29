#ifndef GM_HOOK_COPIES_H
#define GM_HOOK_COPIES_H

#include "shim/hook/hook.h"

/* The hook of `function` where it copies device memory and GPUMEM_GROW sees copies; else `function`. */
void *gm_copies_route(void *function);

#endif
