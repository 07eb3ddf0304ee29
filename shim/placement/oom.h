/* What happens when a device is out of memory, or GPUMEM_LIMIT says so: the steps of GPUMEM_OOM, one after the other,
 * until one of them has served the request. The program sees the driver's answer only when none has. */
#ifndef GM_PLACEMENT_OOM_H
#define GM_PLACEMENT_OOM_H

#include "shim/base/base.h"
#include "shim/resource/resource.h"

enum gm_oom_step {
    GM_OOM_TRIM, /* give back what resources keep, then ask again; passed over where GPUMEM_LIMIT refused: kept memory
                    is not counted */
    GM_OOM_HOST, /* host memory mapped to the device */
    GM_OOM_MANAGED, /* managed memory, while all of it fits free device memory */
    GM_OOM_FAIL,
};
enum { GM_OOM_STEPS = 4 };

struct gm_oom_chain {
    unsigned count;
    enum gm_oom_step steps[GM_OOM_STEPS];
};

/* Reads "trim,host,fail": each step at most once, nothing behind fail. GM_OK, or GM_INVALID_VALUE, *chain untouched and
 * a one-line error that names the word and what is accepted. */
GM_INTERNAL gm_status gm_oom_parse(const char *text, struct gm_oom_chain *chain, char *error, size_t error_size);

/* The chain in force; "trim" until set. Before the first request. */
GM_INTERNAL void gm_oom_set(const struct gm_oom_chain *chain);

/* Told of each trim: whose request it was for, bytes given back. NULL: nobody asks. Before the first request. */
GM_INTERNAL extern void (*gm_oom_on_trim)(const struct gm_request *request, size_t given);

/* Walks the chain for a request that native memory had no room for, or whose bytes the limit refused. Success: *block
 * is filled; its reason is `reason` where native memory served after a trim, else GM_REASON_OUT_OF_MEMORY. On failure
 * it is untouched, and the native answer comes back. `root` is what trims, gm_router_server tells who serves a kind. */
GM_INTERNAL gm_status gm_oom_serve(struct gm_resource *root, const struct gm_request *request, enum gm_reason reason,
                                   struct gm_block *block);

#endif
