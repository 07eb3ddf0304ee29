/* auto: native memory for all, kept when freed where the size is short-lived: the active list says so, or
 * more of its blocks were freed so far than are alive. The second is for programs that allocate in waves, as
 * a training step does: their live counts differ by more than X within L allocations, though nothing piles
 * up. Sizes that are too new to tell go by those of their magnitude: some programs never ask for one twice.
 * A size is kept once two of its blocks, and at least as many as are alive, were freed. */
#include "policy/active_list.h"
#include "policy/setup.h"

static gm_status setup(struct gm_policy_setup *given) {
    gm_status status = gm_refuse_argument(given, "auto");
    return status == GM_OK ? gm_active_list_setup(given) : status;
}

static void decide(const struct gm_request *request, struct gm_decision *decision) {
    decision->verdict = gm_active_list_allocated(request, &decision->reason);
    bool transient = decision->verdict == GM_KIND_ASYNC;
    if (!transient && gm_active_list_turns_over(request)) {
        transient = true;
        decision->reason = GM_REASON_LIST_TURNOVER;
    }
    decision->kind = transient && request->call != GM_CALL_ALLOC_ASYNC ? GM_KIND_CACHE : GM_KIND_NATIVE;
    if (request->capturing) {
        decision->kind = GM_KIND_NATIVE;
        decision->reason = GM_REASON_CAPTURE;
    }
}

extern const struct gm_policy gm_policy_auto;
const struct gm_policy gm_policy_auto = {
    .name = "auto",
    .summary = "Native memory for every block; sizes whose blocks come and go are kept when freed, for reuse.",
    .setup = setup,
    .decide = decide,
    .failed = gm_active_list_failed,
    .freed = gm_active_list_freed,
    .after_fork = gm_active_list_after_fork,
};
