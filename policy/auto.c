/* Policy auto, the default: native memory for all blocks. A block of a short-lived size is of kind cache: its free
 * puts it into a free list for reuse.
 *
 * A size is short-lived when the active list says so, or when one of its blocks was freed and at most eight times as
 * many are live. The second rule is for programs that allocate in waves, such as training steps, or nest their
 * temporaries: their live counts differ by more than X within L allocations, though no memory accumulates. A wrong
 * verdict costs little: a lasting block of kind cache is a native block until it is freed. A size that is too new for a
 * verdict is judged together with the sizes of the same power of two, because some programs never request a size twice.
 *
 * The verdict "short-lived" holds for REPEATS more blocks of the size, as long as kept blocks serve them. */
#include "policy/active_list.h"
#include "policy/setup.h"

enum { REPEATS = 255 };

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
    decision->repeats = decision->kind == GM_KIND_CACHE ? REPEATS : 0;
    if (request->capturing) {
        decision->kind = GM_KIND_NATIVE;
        decision->reason = GM_REASON_CAPTURE;
    }
}

extern const struct gm_policy gm_policy_auto;
const struct gm_policy gm_policy_auto = {
    .name = "auto",
    .summary = "Serve native memory; reuse freed blocks of sizes whose blocks come and go.",
    .keeps_mapped = true,
    .setup = setup,
    .decide = decide,
    .failed = gm_active_list_failed,
    .freed = gm_active_list_freed,
    .after_fork = gm_active_list_after_fork,
};
