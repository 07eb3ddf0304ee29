/* GPUMEM_GROW: programs that grow an array by hand. They allocate a larger block, copy the old block to its start and
 * free the old block.
 *
 *   report  counts such growths.
 *   vmm     serves matching allocations from memory that can be mapped anew (resource "vmm").
 *   move    does a page handover instead of the copy (handover.h).
 *
 * A program without the option pays nothing: copies are hooked only where the mode needs to see them. The hooks call
 * these functions. */
#ifndef GM_GROW_GROW_H
#define GM_GROW_GROW_H

#include "shim/base/base.h"
#include "shim/driver/driver.h"
#include "shim/resource/resource.h"

/* In the order of the option's words. From vmm on, each mode also does what the one before it does. */
enum gm_grow { GM_GROW_OFF, GM_GROW_REPORT, GM_GROW_VMM, GM_GROW_MOVE };
GM_INTERNAL extern enum gm_grow gm_grow_mode;
/* Copies of device memory are to be hooked. */
GM_INTERNAL extern bool gm_grow_sees_copies;

/* Reads the options; before the first request. Returns the facts about a request that GPUMEM_GROW_MATCH reads (bits of
 * enum gm_want). */
GM_INTERNAL uint32_t gm_grow_start(void);
/* True when GPUMEM_GROW_MATCH takes the request: its block is to come from resource "vmm". */
GM_INTERNAL bool gm_grow_takes(const struct gm_request *request);
/* The program copied `size` bytes, and the copy succeeded. */
GM_INTERNAL void gm_grow_copied(CUdeviceptr to, CUdeviceptr from, size_t size);
/* The program is about to free `address` with cuMemFree. `block` describes it; NULL: unknown. True: a page handover has
 * already destroyed the block, so there is nothing to free. */
GM_INTERNAL bool gm_grow_freed(uint64_t address, const struct gm_block *block);
/* The program exports, or tries to export, the block that contains `address`. Condition `seen` no longer takes blocks
 * of its call site. */
GM_INTERNAL void gm_grow_exported(uint64_t address);
/* Writes one line of counts to the file descriptor, unless the mode is off or vmm. */
GM_INTERNAL void gm_grow_report(int fd);

#endif
