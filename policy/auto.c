/* Policy auto, the default: native memory for all blocks, of kind cache: a freed block goes to a free list for reuse.
 * A free block serves any request of its size class, so the active list judges sizes by their classes. Its verdict goes
 * into the trace. */
#include "policy/active_list.h"
#include "policy/setup.h"
#include "policy/size_class.h"

enum { GRANULE = 512 };

static struct gm_request by_class(const struct gm_request *request) {
    struct gm_request same = *request;
    same.size = request->size <= SIZE_MAX / 4 ? gm_size_class(request->size, GRANULE) : request->size;
    return same;
}

static void auto_decide(const struct gm_request *request, struct gm_decision *decision) {
    enum gm_reason reason;
    gm_decide_kind(request, GM_KIND_CACHE, GM_REASON_POLICY, decision);
    if (!request->recorded)
        return;
    decision->counted = true;
    const struct gm_request class = by_class(request);
    decision->verdict = gm_active_list_allocated(&class, &reason);
    if (!request->capturing)
        decision->reason = reason;
}

static void auto_failed(const struct gm_request *request) {
    const struct gm_request class = by_class(request);
    gm_active_list_failed(&class);
}

static void auto_freed(const struct gm_request *request) {
    const struct gm_request class = by_class(request);
    gm_active_list_freed(&class);
}

static const struct gm_decision reuse = {GM_KIND_CACHE, GM_REASON_FREE_BLOCK, GM_KIND_ASYNC};

const struct gm_policy gm_policy_auto = {
    .name = "auto",
    .summary = "As cache; a trace also says which sizes active-list would take for short-lived.",
    .keeps_mapped = true,
    .reuse = &reuse,
    .setup = gm_active_list_setup,
    .decide = auto_decide,
    .failed = auto_failed,
    .freed = auto_freed,
    .after_fork = gm_active_list_after_fork,
};
