#ifndef GM_HOOK_ADVICE_H
#define GM_HOOK_ADVICE_H

#include "shim/hook/hook.h"

/* The block that contains `address` is identified by its address elsewhere (exported, tagged, advised). Its memory
 * must not become another block. */
void gm_hook_pin(CUdeviceptr address);

#endif
