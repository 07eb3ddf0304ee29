/* Reuse of whole buffers that the program makes by virtual memory management, as the platform allocator of JAX does for
 * each array: cuMemCreate and cuMemAddressReserve in either order, cuMemMap, cuMemSetAccess, and back by cuMemUnmap,
 * cuMemRelease, cuMemAddressFree.
 *
 * A buffer is reused if its sequence is exactly that: one handle of ordinary device memory that is never exported,
 * mapped as a whole into an address range of its own size, with read and write access for its own device, and for
 * others if the program wants that. The access stays with the buffer. When the program has given
 * back all of it, the buffer stays mapped and goes to the free lists of a cache. There it gets a fence, counts against
 * the cache limits, and is trimmed, as any block of cudaMalloc. A later sequence of the same size gets its handle and
 * its address, and makes no call of the driver. Its contents are undefined, as those of cudaMalloc.
 *
 * What the program has of a buffer is always real: handle and addresses are the driver's own. A call that deviates from
 * the sequence first brings the driver to the state that the program's calls imply, and then is an ordinary call. While
 * deviations are frequent, nothing is kept.
 *
 * cuMemUnmap does not wait for the GPU. So no call here waits either, except for work that a free by cudaFree left in
 * flight (shim/driver/free_sync.h), before memory is really unmapped. */
#ifndef GM_CACHE_MAPPED_H
#define GM_CACHE_MAPPED_H

#include "shim/base/base.h"
#include "shim/driver/driver.h"
#include "shim/resource/resource.h"

/* Returns the cache of mapped buffers, for the router. NULL: no memory. To be called once, before the first of the
 * calls below; before that, they are the driver's own. */
GM_INTERNAL struct gm_resource *gm_mapped_start(void);

/* ---- the program's calls, with their arguments. `request` carries the current context; `device` is its device. */

GM_INTERNAL CUresult gm_mapped_reserve(const struct gm_request *request, CUdeviceptr *address, size_t size,
                                       size_t alignment, CUdeviceptr wanted, unsigned long long flags);
GM_INTERNAL CUresult gm_mapped_address_free(CUdeviceptr address, size_t size);
/* *reused: the handle is that of kept memory. */
GM_INTERNAL CUresult gm_mapped_create(const struct gm_request *request, int device,
                                      CUmemGenericAllocationHandle *handle, size_t size,
                                      const CUmemAllocationProp *properties, unsigned long long flags, bool *reused);
/* *kept: the program has no memory of the buffer any more, and it is kept for reuse. */
GM_INTERNAL CUresult gm_mapped_release(CUmemGenericAllocationHandle handle, bool *kept);
/* *reused: kept memory is mapped. */
GM_INTERNAL CUresult gm_mapped_map(CUdeviceptr address, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                                   unsigned long long flags, bool *reused);
GM_INTERNAL CUresult gm_mapped_set_access(CUdeviceptr address, size_t size, const CUmemAccessDesc *access,
                                          size_t count);
/* `pinned`: the memory must not be reused (gm_block.pinned_native). *kept: as above. */
GM_INTERNAL CUresult gm_mapped_unmap(CUdeviceptr address, size_t size, bool pinned, bool *kept);
/* Before cuMemRetainAllocationHandle. False: to the program, the address is not mapped. */
GM_INTERNAL bool gm_mapped_may_retain(CUdeviceptr address);
/* After it. False: the handle is that of no buffer here. */
GM_INTERNAL bool gm_mapped_retained(CUmemGenericAllocationHandle handle);
/* The handle's memory may be used from elsewhere from now on: it is never reused. */
GM_INTERNAL void gm_mapped_share(CUmemGenericAllocationHandle handle);

#endif
