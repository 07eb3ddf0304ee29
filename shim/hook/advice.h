#ifndef GM_HOOK_ADVICE_H
#define GM_HOOK_ADVICE_H

#include "shim/hook/hook.h"

/* The block that contains `address` is known elsewhere by its address (exported, tagged, advised): it must not come
 * back as another block. */
void gm_hook_pin(CUdeviceptr address);

#endif
