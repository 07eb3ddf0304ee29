/* Policy managed: serves everything from managed memory. This is the baseline of hybrid-allocation-he, III.A. */
#include "policy/setup.h"

static enum gm_kind managed = GM_KIND_MANAGED;

static gm_status setup(struct gm_policy_setup *given) {
    gm_status status = gm_refuse_argument(given, "managed");
    if (status == GM_OK)
        managed = given->managed;
    return status;
}

static void decide(const struct gm_request *request, struct gm_decision *decision) {
    *decision = (struct gm_decision){managed, GM_REASON_POLICY, managed};
    if (request->capturing) {
        decision->kind = GM_KIND_NATIVE;
        decision->reason = GM_REASON_CAPTURE;
    }
}

extern const struct gm_policy gm_policy_managed;
const struct gm_policy gm_policy_managed = {
    .name = "managed",
    .summary = "Serve every allocation from managed memory, within what the device has free.",
    .setup = setup,
    .decide = decide,
};
