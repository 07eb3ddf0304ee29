/* cache: every plain block from native memory that is kept when freed. A stream-ordered call has a pool that does as much. */
#include "policy/setup.h"

static gm_status setup(struct gm_policy_setup *given) { return gm_refuse_argument(given, "cache"); }

static void decide(const struct gm_request *request, const struct gm_usage *usage, struct gm_decision *decision) {
    (void)usage;
    *decision = (struct gm_decision){GM_KIND_CACHE, GM_REASON_POLICY, GM_KIND_CACHE};
    if (request->capturing)
        decision->reason = GM_REASON_CAPTURE;
    if (request->capturing || request->call == GM_CALL_ALLOC_ASYNC)
        decision->kind = GM_KIND_NATIVE;
}

extern const struct gm_policy gm_policy_cache;
const struct gm_policy gm_policy_cache = {
    .name = "cache",
    .summary = "Native memory that is kept when freed and reused once earlier work is done, so that cudaFree need not wait.",
    .setup = setup,
    .decide = decide,
};
