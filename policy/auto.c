/* auto: places every block as asked; the active list says what would be transient, and the verdict is recorded beside it. */
#include "policy/active_list.h"
#include "policy/setup.h"

static gm_status setup(struct gm_policy_setup *given) {
    gm_status status = gm_refuse_argument(given, "auto");
    return status == GM_OK ? gm_active_list_setup(given) : status;
}

static void decide(const struct gm_request *request, const struct gm_usage *usage, struct gm_decision *decision) {
    enum gm_reason why;
    (void)usage;
    decision->verdict = gm_active_list_allocated(request, &why);
    decision->kind = GM_KIND_NATIVE;
    decision->reason = request->capturing ? GM_REASON_CAPTURE : GM_REASON_POLICY;
}

extern const struct gm_policy gm_policy_auto;
const struct gm_policy gm_policy_auto = {
    .name = "auto",
    .summary = "Serve every block as the program asked and note which ones the active list takes for short-lived.",
    .setup = setup,
    .decide = decide,
    .failed = gm_active_list_failed,
    .freed = gm_active_list_freed,
};
