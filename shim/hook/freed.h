/* Decides whether the driver or gpumem answers a query about an address. */
#ifndef GM_HOOK_FREED_H
#define GM_HOOK_FREED_H

#include "shim/hook/hook.h"

enum gm_known {
    GM_KNOWN_TO_DRIVER, /* the driver's answer is right */
    GM_KNOWN_BLOCK,     /* *block contains the address; its size is the requested one, its memory may be larger */
    /* The driver knows the address but natively would not: the program freed that memory, or requested less of it. */
    GM_KNOWN_FREED,
};
enum gm_known gm_hook_known(CUdeviceptr address, struct gm_block *block);
bool gm_hook_is_freed(CUdeviceptr address);

#endif
