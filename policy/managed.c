/* Policy managed: serves everything from managed memory. This is the baseline of hybrid-allocation-he, III.A. */
#include "policy/setup.h"

static enum gm_kind managed = GM_KIND_MANAGED;

static gm_status managed_setup(struct gm_policy_setup *setup) {
    managed = setup->managed;
    return GM_OK;
}

static void managed_decide(const struct gm_request *request, struct gm_decision *decision) {
    gm_decide_kind(request, managed, GM_REASON_POLICY, decision);
}

const struct gm_policy gm_policy_managed = {
    .name = "managed",
    .summary = "Serve every allocation from managed memory, within what the device has free.",
    .setup = managed_setup,
    .decide = managed_decide,
};
