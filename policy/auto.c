/* auto: native memory for all, kept when freed where the active list takes the size for short-lived. */
#include "policy/active_list.h"
#include "policy/setup.h"

static gm_status setup(struct gm_policy_setup *given) {
    gm_status status = gm_refuse_argument(given, "auto");
    return status == GM_OK ? gm_active_list_setup(given) : status;
}

static void decide(const struct gm_request *request, const struct gm_usage *usage, struct gm_decision *decision) {
    (void)usage;
    decision->verdict = gm_active_list_allocated(request, &decision->reason);
    decision->kind = decision->verdict == GM_KIND_ASYNC && request->call != GM_CALL_ALLOC_ASYNC ? GM_KIND_CACHE : GM_KIND_NATIVE;
    if (request->capturing) {
        decision->kind = GM_KIND_NATIVE;
        decision->reason = GM_REASON_CAPTURE;
    }
}

extern const struct gm_policy gm_policy_auto;
const struct gm_policy gm_policy_auto = {
    .name = "auto",
    .summary = "Native memory for every block; sizes that the active list takes for short-lived are kept when freed, for reuse.",
    .setup = setup,
    .decide = decide,
    .failed = gm_active_list_failed,
    .freed = gm_active_list_freed,
};
