/* Memory that goes back to the driver: counted, and written to the trace as one event for each trim and kind.
 *
 * A trim releases many blocks by many calls. The function that knows why puts a gm_releases around them. Inside another
 * one it does nothing: the outermost reason holds. Without a trace all of this costs a test of one variable. */
#ifndef GM_RESOURCE_RELEASES_H
#define GM_RESOURCE_RELEASES_H

#include "policy/policy.h"
#include "shim/base/base.h"
#include "shim/trace/event.h"

struct gm_releases {
    bool active;
    enum gm_reason reason;
    int device;
    const struct gm_request *request; /* the one that found no memory; NULL: none. May be set after gm_releases_begin */
    uint64_t begin_ns;
    uint64_t bytes[GM_KIND_COUNT];
};

GM_INTERNAL void gm_releases_begin(struct gm_releases *releases, enum gm_reason reason);
/* `always`: writes an event even when nothing was given. */
GM_INTERNAL void gm_releases_end(struct gm_releases *releases, bool always);

/* A block that was kept leaves gpumem: it is released to the driver, or its context was destroyed. To be called before
 * the release. */
GM_INTERNAL void gm_release_note(enum gm_kind kind, int device, uint64_t bytes);
/* The release failed, and the block is kept again. */
GM_INTERNAL void gm_release_failed(enum gm_kind kind, int device, uint64_t bytes);

/* A pool of gpumem has `bytes` now; *counted is what it had at the last call. */
GM_INTERNAL void gm_pool_resized(enum gm_kind kind, int device, uint64_t bytes, uint64_t *counted);

#endif
