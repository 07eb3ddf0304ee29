/* Who has the right answer about an address: the driver, or gpumem. */
#ifndef GM_HOOK_FREED_H
#define GM_HOOK_FREED_H

#include "shim/hook/hook.h"

enum gm_known {
    GM_KNOWN_TO_DRIVER, /* the driver */
    GM_KNOWN_BLOCK,     /* *block contains it, as the program asked for it; its memory may be larger */
    /* The driver knows it, and natively would not: the program freed that memory, or asked for less of it. */
    GM_KNOWN_FREED,
};
enum gm_known gm_hook_known(CUdeviceptr address, struct gm_block *block);
bool gm_hook_is_freed(CUdeviceptr address);

#endif
