/* The steps of GPUMEM_OOM: what the router tries, in this order, when a device is out of memory. */
#ifndef GM_PLACEMENT_OOM_H
#define GM_PLACEMENT_OOM_H

#include "shim/base/base.h"
#include "shim/resource/resource.h"

enum gm_oom_step {
    GM_OOM_TRIM,    /* release unused memory, then try again; skipped when GPUMEM_LIMIT refused the request, because the
                       limit does not count unused memory */
    GM_OOM_SPLIT,   /* what is free on the device, and host memory for the rest; skipped when GPUMEM_LIMIT refused the
                       request, because the first part would exceed it */
    GM_OOM_HOST,    /* host memory mapped to the device */
    GM_OOM_MANAGED, /* managed memory, while the managed quota has room (managed_quota.h) */
    GM_OOM_FAIL,    /* report out of memory */
};
enum { GM_OOM_STEPS = 5 };

struct gm_oom_chain {
    unsigned count;
    enum gm_oom_step steps[GM_OOM_STEPS];
};

/* Parses a list such as "trim,host,fail". Each step may appear once, and nothing may follow fail. Returns GM_OK, or
 * GM_INVALID_VALUE with *chain untouched and a one-line error that names the wrong word and what is accepted. */
GM_INTERNAL gm_status gm_oom_parse(const char *text, struct gm_oom_chain *chain, char *error, size_t error_size);
/* The steps as GPUMEM_OOM takes them. */
struct gm_oom_text {
    char text[32];
};
GM_INTERNAL struct gm_oom_text gm_oom_text(const struct gm_oom_chain *chain);
GM_INTERNAL bool gm_oom_has(const struct gm_oom_chain *chain, enum gm_oom_step step);

#endif
