/* What can leave the device at an address of the program: a block of gpumem's (suspendable_memory.h), or memory that
 * the program mapped (suspendable_handles.h). */
#ifndef GM_RESOURCE_SUSPENDABLE_AT_H
#define GM_RESOURCE_SUSPENDABLE_AT_H

#include "shim/resource/suspendable_memory.h"

GM_INTERNAL bool gm_suspendable_covers(uint64_t address);
/* The memory there cannot leave from now on, for example because it is exported. `why`: static text. */
GM_INTERNAL void gm_suspendable_stay(uint64_t address, const char *why);
/* Of the block or mapping that starts there; NULL, 0: there is none. */
GM_INTERNAL struct gm_suspendable_range *gm_suspendable_range_of(uint64_t address);
GM_INTERNAL void gm_suspendable_tag(uint64_t address, uint8_t tag);
GM_INTERNAL uint8_t gm_suspendable_tag_at(uint64_t address);

#endif
