/* Call sites: each chain of return addresses above a hook gets a small number.
 *
 * At a driver hook the return address lies in the CUDA runtime and is the same for every cudaMalloc of a program, so
 * frames further out are needed. A full unwind costs microseconds and runs once for each new chain. It also shows
 * which stack slots hold the return addresses, as offsets from the hook's frame (a layout). Later calls read those
 * slots and look up the values. A chain that is not found under any layout is unwound again, so a wrong layout costs
 * time but never gives a wrong site. */
#ifndef GM_SITE_H
#define GM_SITE_H

#include <stdbool.h>
#include <stdint.h>

#include "policy/site_key.h"
#include "shim/base/base.h"

enum { GM_SITE_FRAMES = 72 };

/* Call sites are needed, by a trace or by the policy. */
GM_INTERNAL extern bool gm_sites_on;
static inline bool gm_sites_are_on(void) { return __atomic_load_n(&gm_sites_on, __ATOMIC_ACQUIRE); }

/* Those of new memory are looked up all the same, for the words when memory runs out: the driver's call takes far
 * longer. A block that is reused has no call site then. */
GM_INTERNAL extern bool gm_sites_of_new;
static inline bool gm_sites_are_of_new(void) { return __atomic_load_n(&gm_sites_of_new, __ATOMIC_ACQUIRE); }
/* Begins it. Unless gm_site_setup was called before, sites have so many frames until it is. */
GM_INTERNAL void gm_site_setup_of_new(unsigned extra);

/* Call before the first gm_site_find; a later call only switches call sites on. Safe from any thread. `extra`: frames
 * that are stored beyond the first one outside the CUDA runtime (GPUMEM_STACKS). `keys`: gm_site_keys will be used. */
void gm_site_setup(unsigned extra, bool keys);
/* Finds the unwinder, which the first gm_site_find does otherwise. May wait for locks of the loader. False: there is
 * no unwinder, and every site is 0. */
bool gm_site_find_unwinder(void);

/* The key of a site in a form that holds in other runs, valid until the process ends. NULL for site 0, and when
 * gm_site_setup requested no keys. */
const struct gm_site_keys *gm_site_keys(uint32_t id);

/* Returns the id of the call chain that starts at return address `caller`. `frame` is the canonical frame address of
 * its callee: the stack pointer before the call. 0: the site is unknown. New modules and sites are written to the
 * trace. */
uint32_t gm_site_find(uintptr_t caller, uintptr_t frame);

/* The site of the function that uses the macro. That function must not be inlined. */
#if defined(__x86_64__)
#define GM_SITE_HERE() gm_site_find((uintptr_t)__builtin_return_address(0), (uintptr_t)__builtin_frame_address(0) + 16)
#else
#define GM_SITE_HERE()                                                                  \
    gm_site_find((uintptr_t)__builtin_extract_return_addr(__builtin_return_address(0)), \
                 (uintptr_t)__builtin_dwarf_cfa())
#endif

/* The same for a function that hands its rare part to another: the caller of the first, as two arguments. */
#define GM_CALLER_HERE() (uintptr_t) __builtin_return_address(0), (uintptr_t)__builtin_dwarf_cfa()

/* The code location of a site: the module of its first frame outside a shared CUDA runtime, and the return addresses
 * in that module, innermost first. More than one address is given only where the runtime may be linked into that
 * module. Asks the loader. False: the site is unknown, or the module was unloaded. */
enum { GM_SITE_LOCATION_FRAMES = 6 };
struct gm_site_location {
    uintptr_t base, frames[GM_SITE_LOCATION_FRAMES];
    unsigned count;
    char module[196];
};
bool gm_site_location(uint32_t id, struct gm_site_location *location);

/* The return addresses of a site, innermost first, and their number; valid until a fork. 0: the site is unknown. */
unsigned gm_site_frames(uint32_t id, const uintptr_t **frames);

/* Writes the return addresses of this thread's stack now, innermost first, those inside gpumem included. Returns their
 * number. Takes microseconds, and may wait for locks of the loader. Needs no gm_site_setup. */
unsigned gm_site_walk(uintptr_t frames[GM_SITE_FRAMES]);

/* Writes the Python frames of a site outside the known wrappers, innermost first, or the outermost one where all are
 * wrappers: words for gm_python_text. Returns their number. */
unsigned gm_site_python(uint32_t id, uintptr_t *frames, unsigned room);

/* Writes modules and chains to a trace that begins in the middle of the run. It queries the dynamic loader. */
GM_INTERNAL void gm_site_define_again(void);
void gm_site_after_fork(void);

#endif
