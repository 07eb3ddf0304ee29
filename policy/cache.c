/* Policy cache: serves every plain allocation from native memory, and freed blocks go to free lists. A
 * stream-ordered call stays native, because its pool already reuses memory. */
#include "policy/setup.h"

static void cache_decide(const struct gm_request *request, struct gm_decision *decision) {
    gm_decide_kind(request, GM_KIND_CACHE, GM_REASON_POLICY, decision);
}

static const struct gm_decision reuse = {GM_KIND_CACHE, GM_REASON_POLICY, GM_KIND_CACHE};

const struct gm_policy gm_policy_cache = {
    .name = "cache",
    .summary = "Serve native memory and reuse freed blocks once earlier work is done, so that cudaFree need not wait.",
    .keeps_mapped = true,
    .reuse = &reuse,
    .decide = cache_decide,
};
