/* cache: every plain block from native memory that is kept when freed. A stream-ordered call has a pool that does as
 * much. */
#include "policy/setup.h"

static gm_status setup(struct gm_policy_setup *given) { return gm_refuse_argument(given, "cache"); }

static void decide(const struct gm_request *request, struct gm_decision *decision) {
    gm_decide_plain(request, GM_KIND_CACHE, decision);
}

extern const struct gm_policy gm_policy_cache;
const struct gm_policy gm_policy_cache = {
    .name = "cache",
    .summary =
        "Native memory that is kept when freed and reused once earlier work is done, so that cudaFree need not wait.",
    .setup = setup,
    .decide = decide,
};
