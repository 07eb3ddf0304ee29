/* GPUMEM_GROW: arrays that a program grows by hand. Nothing of it is in the way of a program that does not ask for it:
 * copies are hooked only where somebody asks for them (report, move, sites where growth is seen), and all other calls
 * of the driver are passed through gates under move only. */
#ifndef GM_GROW_GROW_H
#define GM_GROW_GROW_H

#include "shim/base/base.h"
#include "shim/core/pipeline.h"
#include "shim/driver/driver.h"

/* In the order of the option's words; each from vmm on does what the one before does, and more. */
enum gm_grow { GM_GROW_OFF, GM_GROW_REPORT, GM_GROW_VMM, GM_GROW_MOVE, GM_GROW_OVERCOMMIT };
GM_INTERNAL extern enum gm_grow gm_grow_mode;

/* Reads the options; before the first call of the driver. Returns what GPUMEM_GROW_MATCH has to know of requests (enum
 * gm_want). */
GM_INTERNAL uint32_t gm_grow_start(void);
/* Is the block that this request asks for to be of memory that can be mapped anew? */
GM_INTERNAL bool gm_grow_takes(const struct gm_request *request);
/* What stands for `function`: a hook of a copy, a gate, or the function itself. */
GM_INTERNAL void *gm_grow_route(void *function);
/* A block was made by cuMemAlloc; one is about to be freed by cuMemFree: it was grown by hand if it was copied before.
 */
GM_INTERNAL void gm_grow_freed(uint64_t address);
/* The program exports the block that contains `address`, or tries to: where growth is only seen, its call site is left
 * alone. */
GM_INTERNAL void gm_grow_exported(uint64_t address);
/* One line to file descriptor fd, where anything was asked. */
GM_INTERNAL void gm_grow_report(int fd);
GM_INTERNAL void gm_grow_after_fork(void);

/* ---- move.c: a copy put off until it is known whether the old block is freed next */

/* Nonzero: whoever enters the driver has to say so first. */
GM_INTERNAL extern int gm_trampolines_active;
/* Somebody enters the driver: a copy that was put off is made now. */
GM_INTERNAL void gm_handover_driver_entered(void);
/* A copy that the program made. True: it is put off, and done as far as the program can tell. */
GM_INTERNAL bool gm_handover_copy(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream);
/* A context was made, also one that asks for no memory: its work can reach every block of the device, and no fence
 * covers it. */
GM_INTERNAL void gm_handover_context_made(void);
/* The newest block that may take over pages. */
GM_INTERNAL void gm_handover_created(const struct gm_block *block);
/* The program asks where a block lies: one that waits on the host stays there from now on. */
GM_INTERNAL void gm_handover_address_queried(void);
/* True when the freed block's pages went to the block that it was copied to: it is gone. */
GM_INTERNAL bool gm_handover_freed(const struct gm_block *block);
GM_INTERNAL void gm_handover_counts(uint64_t *moves, uint64_t *bytes, uint64_t *made);
GM_INTERNAL void gm_handover_after_fork(void);
/* The gate of `function` (gate.c); the function itself when it only waits or asks, is none of the driver's, or no gate
 * is left. */
GM_INTERNAL void *gm_trampoline_of(void *function);
/* False from the moment a function was handed out without the gate it needs: nothing is put off any more. */
GM_INTERNAL bool gm_trampolines_hold(void);

#endif
