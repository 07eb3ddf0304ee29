/* Policy async: serves plain allocations from a stream-ordered pool. A stream-ordered call uses the pool of its own
 * device. */
#include "policy/setup.h"

static void async_decide(const struct gm_request *request, struct gm_decision *decision) {
    gm_decide_kind(request, GM_KIND_ASYNC, GM_REASON_POLICY, decision);
}

const struct gm_policy gm_policy_async = {
    .name = "async",
    .summary = "Serve cudaMalloc from a private stream-ordered pool, so that cudaFree need not wait.",
    .decide = async_decide,
};
