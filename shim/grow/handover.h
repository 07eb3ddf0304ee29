/* Page handover (GPUMEM_GROW=move): a larger block takes the pages of the block that is copied to it, and nothing is
 * copied.
 *
 * The program's copy is deferred. If the free of the old block comes next, the old block's pages are mapped in the
 * front of the larger block. If any thread enters the driver before that, the deferred copy is made first, and then the
 * call goes on. So the program cannot see a difference.
 *
 * A copy is deferred only when all of this holds:
 *  - both blocks are living blocks of resource "vmm", on one device and in its only context;
 *  - no peer device has access, and neither block is exported or tagged;
 *  - no stream captures;
 *  - the work submitted before the larger block was created, and before the copy, has finished;
 *  - no call into the driver bypasses gpumem's entries, as far as is known. */
#ifndef GM_GROW_HANDOVER_H
#define GM_GROW_HANDOVER_H

#include "shim/driver/driver.h"
#include "shim/resource/resource.h"

/* A thread enters the driver: makes the deferred copy now, or waits until another thread has made it. */
GM_INTERNAL void gm_handover_driver_entered(void);
/* The program copies `size` bytes. True: the copy is deferred, and the hook returns success. */
GM_INTERNAL bool gm_handover_copy(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream);
/* A context was created, whether or not it allocates: its work can use every block of the device, and no fence covers
 * that work. */
GM_INTERNAL void gm_handover_context_created(void);
/* A block was created: the newest one is the only one that can take pages. */
GM_INTERNAL void gm_handover_created(const struct gm_block *block);
/* A block is about to be freed. True: its pages went to the block it was copied to, and it is destroyed. */
GM_INTERNAL bool gm_handover_freed(const struct gm_block *block);
/* Handovers, the bytes they saved copying, and deferred copies that were made after all. */
GM_INTERNAL void gm_handover_counts(uint64_t *handovers, uint64_t *bytes, uint64_t *made);

#endif
