/* Policy observe: serves every request as the program made it. Traces and counters work as with every policy. */
#include "policy/setup.h"

static void observe_decide(const struct gm_request *request, struct gm_decision *decision) {
    *decision = (struct gm_decision){GM_KIND_NATIVE, GM_REASON_POLICY, GM_KIND_NATIVE};
}

const struct gm_policy gm_policy_observe = {
    .name = "observe",
    .summary = "Only observe: serve every request as the program made it.",
    .decide = observe_decide,
};
