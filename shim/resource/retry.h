/* What the adaptor "retry" calls. */
#ifndef GM_RESOURCE_RETRY_H
#define GM_RESOURCE_RETRY_H

#include "shim/base/base.h"
#include "shim/resource/resource.h"

/* Before the first allocation. Any thread may call the callback; it returns 1 to try again. NULL: nothing is tried. */
GM_INTERNAL void gm_retry_by(struct gm_resource *retry, int (*callback)(size_t bytes, void *user), void *user);

#endif
