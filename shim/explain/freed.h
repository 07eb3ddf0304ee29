/* The latest frees, by address, so that a second free of a block can name the first one. Kept only while call sites are
 * known (gm_sites_on). */
#ifndef GM_FREED_H
#define GM_FREED_H

#include "shim/base/base.h"
#include "shim/resource/resource.h"

struct gm_freed {
    uint64_t address;
    size_t size;
    uint32_t allocated_at, freed_at; /* call sites */
};

/* The block was freed by the call at `site`. The note replaces an older one of the same hash. */
GM_INTERNAL void gm_freed_note(const struct gm_block *block, uint32_t site);
/* False: no free of this address is noted. */
GM_INTERNAL bool gm_freed_find(uint64_t address, struct gm_freed *freed);
/* In the child of a fork: forgets all frees, with the locks that other threads of the parent held. */
GM_INTERNAL void gm_freed_after_fork(void);

#endif
