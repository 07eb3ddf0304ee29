/* Call sites: the chain of return addresses above a hook, interned to a small number.
 *
 * At a driver hook the return address lies in the CUDA runtime, the same for every cudaMalloc of a program, so frames
 * further out are needed. A full unwind costs microseconds; it runs once for each new chain. From it the stack slots
 * that held the return addresses are learnt as offsets from the hook's frame (a layout); afterwards a call reads those
 * slots and looks the values up. A chain that is not known under any layout is unwound again, so a wrong guess costs
 * time, never truth. */
#ifndef GM_SITE_H
#define GM_SITE_H

#include <stdbool.h>
#include <stdint.h>

#include "policy/site_key.h"
#include "shim/base/base.h"

enum { GM_SITE_FRAMES = 72 };

/* Somebody wants call sites: a trace, or the policy. */
GM_INTERNAL extern bool gm_sites_on;

/* `extra` frames are kept beyond the first outside the CUDA runtime (GPUMEM_STACKS); `keys`: for gm_site_keys.
 * Call before the first gm_site_find. */
void gm_site_setup(unsigned extra, bool keys);
/* Finds the unwinder, else the first gm_site_find does; waits for locks of the loader. False: there is none, every site
 * is 0. */
bool gm_site_find_unwinder(void);

/* What a site that gm_site_find returned is called in other runs, for the life of the process; NULL for 0, and when no
 * keys were asked for. */
const struct gm_site_keys *gm_site_keys(uint32_t id);

/* Id of the call chain that starts at return address `caller`, whose callee's frame ends at `frame` (canonical frame
 * address: the stack pointer before the call). 0 when it cannot be told. New modules and sites are written to the
 * trace. */
uint32_t gm_site_find(uintptr_t caller, uintptr_t frame);

/* Both for the function that uses the macro; it must not be inlined. */
#if defined(__x86_64__)
#define GM_SITE_HERE() gm_site_find((uintptr_t)__builtin_return_address(0), (uintptr_t)__builtin_frame_address(0) + 16)
#else
#define GM_SITE_HERE()                                                                  \
    gm_site_find((uintptr_t)__builtin_extract_return_addr(__builtin_return_address(0)), \
                 (uintptr_t)__builtin_dwarf_cfa())
#endif

/* Where a site lies: the module of its first frame outside a shared CUDA runtime, and the return addresses there,
 * innermost first; beyond the first only where the runtime may be linked into that module. Asks the loader. False: not
 * known, or the module is gone. */
enum { GM_SITE_PLACE_FRAMES = 6 };
struct gm_site_place {
    uintptr_t base, frames[GM_SITE_PLACE_FRAMES];
    unsigned count;
    char module[196];
};
bool gm_site_place(uint32_t id, struct gm_site_place *place);

void gm_site_after_fork(void);

#endif
