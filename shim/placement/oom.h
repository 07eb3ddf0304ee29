/* The steps of GPUMEM_OOM, as text and as the router takes them. */
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

#endif
