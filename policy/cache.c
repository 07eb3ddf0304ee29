/* Policy cache: serves every plain allocation from native memory, and freed blocks go to free lists. A
 * stream-ordered call stays native, because its pool already reuses memory. */
#include "policy/setup.h"

static gm_status setup(struct gm_policy_setup *given) { return gm_refuse_argument(given, "cache"); }

static void decide(const struct gm_request *request, struct gm_decision *decision) {
    gm_decide_unordered(request, GM_KIND_CACHE, decision);
}

static const struct gm_decision reuse = {GM_KIND_CACHE, GM_REASON_POLICY, GM_KIND_CACHE};

extern const struct gm_policy gm_policy_cache;
const struct gm_policy gm_policy_cache = {
    .name = "cache",
    .summary = "Serve native memory and reuse freed blocks once earlier work is done, so that cudaFree need not wait.",
    .keeps_mapped = true,
    .reuse = &reuse,
    .setup = setup,
    .decide = decide,
};
