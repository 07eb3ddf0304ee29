/* Blocks whose pages can change hands. */
#ifndef GM_RESOURCE_VMM_H
#define GM_RESOURCE_VMM_H

#include "shim/base/base.h"
#include "shim/resource/resource.h"

/* From now on a new block gets its front, as large as the largest smaller block, as a handle of its own: so that it can
 * take over that block's pages. `overcommit`: a request that the device has no memory for may be served on the host
 * (resource.h); device memory for what the largest smaller block does not bring is then kept aside until gm_vmm_move or
 * gm_vmm_settle. */
GM_INTERNAL void gm_vmm_split_fronts(bool overcommit);
/* The block is still to become one of device memory, and nobody may have written to it. */
GM_INTERNAL bool gm_vmm_waits_on_host(uint64_t address);
/* The block stays on the host: what is kept aside for it is given back. */
GM_INTERNAL void gm_vmm_settle(uint64_t address);
/* Blocks that were served on the host so far. */
GM_INTERNAL uint64_t gm_vmm_overcommitted(void);
/* True when block `to` can take over all pages of block `from`: they are the device's, and its front is as large as
 * they are. */
GM_INTERNAL bool gm_vmm_can_move(uint64_t from, uint64_t to);
/* Block `to` gets all pages of `from` in place of its own front, which becomes spare (all of its own, and what is kept
 * aside behind, where it waits on the host); `from` is gone. Nobody may use either, no work of either is left, and its
 * context is current; to be called within the capture guard. On failure both are as they were. */
GM_INTERNAL gm_status gm_vmm_move(uint64_t from, uint64_t to);

#endif
