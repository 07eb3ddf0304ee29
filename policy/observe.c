/* Policy observe: serves every request as the program made it. Traces and counters work as with every policy. */
#include "policy/setup.h"

static gm_status setup(struct gm_policy_setup *given) { return gm_refuse_argument(given, "observe"); }

static void decide(const struct gm_request *request, struct gm_decision *decision) {
    *decision = (struct gm_decision){GM_KIND_NATIVE, GM_REASON_POLICY, GM_KIND_NATIVE};
}

extern const struct gm_policy gm_policy_observe;
const struct gm_policy gm_policy_observe = {
    .name = "observe",
    .summary = "Only observe: serve every request as the program made it.",
    .setup = setup,
    .decide = decide,
};
