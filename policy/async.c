/* Policy async: serves plain allocations from a stream-ordered pool. A stream-ordered call uses the pool of its own
 * device. */
#include "policy/setup.h"

static gm_status setup(struct gm_policy_setup *given) { return gm_refuse_argument(given, "async"); }

static void decide(const struct gm_request *request, struct gm_decision *decision) {
    gm_decide_unordered(request, GM_KIND_ASYNC, decision);
}

extern const struct gm_policy gm_policy_async;
const struct gm_policy gm_policy_async = {
    .name = "async",
    .summary = "Serve cudaMalloc from a private stream-ordered pool, so that cudaFree need not wait.",
    .setup = setup,
    .decide = decide,
};
