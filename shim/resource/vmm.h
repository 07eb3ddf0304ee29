/* Device memory mapped by gpumem: what resources "vmm" and "guard" share, and page handover between blocks of "vmm": a
 * larger block takes the pages of a smaller one. */
#ifndef GM_RESOURCE_VMM_H
#define GM_RESOURCE_VMM_H

#include "shim/base/base.h"
#include "shim/driver/mapping.h"
#include "shim/resource/resource.h"

/* Whether gpumem may map device memory for a request now. `granularity`: the device's, in bytes. GM_NOT_SUPPORTED: the
 * request, the device, or a network card that may know the process's memory excludes it. */
GM_INTERNAL gm_status gm_vmm_prepare(const struct gm_request *request, size_t *granularity);
/* Maps extents side by side and opens them to every device that has a context. After a failure none is mapped. */
GM_INTERNAL gm_status gm_vmm_map(int device, uint64_t address, const struct gm_extent *extents, unsigned count);

/* From now on each new block is prepared to take the pages of the largest smaller block: its front, of the same size,
 * is an extent of its own. */
GM_INTERNAL void gm_vmm_split_fronts(void);
/* True when block `to` can take all pages of block `from`: same device, same context, and `to` has a front of the size
 * of `from`. */
GM_INTERNAL bool gm_vmm_can_move(uint64_t from, uint64_t to);
/* Replaces the front of `to` by all pages of `from` and destroys `from`. The replaced pages go to the page reserve. The
 * caller guarantees that no work of the GPU uses either block, and no thread; the context of both is current, and the
 * caller is within the capture guard. On failure both blocks are as before; GM_NOT_SUPPORTED: not possible. */
GM_INTERNAL gm_status gm_vmm_move(uint64_t from, uint64_t to);

#endif
