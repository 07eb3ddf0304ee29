/* Blocks whose pages can change hands. */
#ifndef GM_RESOURCE_VMM_H
#define GM_RESOURCE_VMM_H

#include "shim/base/base.h"
#include "shim/resource/resource.h"

/* From now on a new block gets its front, as large as the largest smaller block, as a handle of its own: so that it can take over
 * that block's pages. */
GM_INTERNAL void gm_vmm_split_fronts(void);
/* True when block `to` can take over all pages of block `from`: its front is as large as they are. */
GM_INTERNAL bool gm_vmm_can_move(uint64_t from, uint64_t to);
/* Block `to` gets all pages of `from` in place of its own front, which is released; `from` is gone. Nobody may use either; to be
 * called within the capture guard. On failure both are as they were. */
GM_INTERNAL gm_status gm_vmm_move(uint64_t from, uint64_t to);

#endif
