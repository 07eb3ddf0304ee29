/* The table of all resources, from the list in rows.h. */
#include "shim/resource/rows.h"

const struct gm_resource_ops *const gm_resource_rows[] = {
#define X(name) &gm_resource_##name,
#ifdef GM_HAVE_CUDA
    GM_RESOURCES_CUDA(X)
#endif
        GM_RESOURCES_PURE(X)
#undef X
            NULL,
};
