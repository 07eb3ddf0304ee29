/* Policy auto, the default: native memory for all blocks. A block of a short-lived size is of kind cache: its free
 * puts it into a free list for reuse. A free block serves any request of its size class, and the policy decides the
 * rest. So it judges sizes by their classes.
 *
 * A size class is short-lived when the active list says so, or when one of its blocks was freed and at most eight times
 * as many are live. The second rule is for programs that allocate in waves, such as training steps, or nest their
 * temporaries: their live counts differ by more than X within L allocations, though no memory accumulates. A wrong
 * verdict costs little: a lasting block of kind cache is a native block until it is freed. A class that is too new for
 * a verdict is judged together with those of the same power of two, because some programs never request a size twice.
 */
#include "policy/active_list.h"
#include "policy/setup.h"
#include "policy/size_class.h"

enum { GRANULE = 512 };

static gm_status setup(struct gm_policy_setup *given) {
    gm_status status = gm_refuse_argument(given, "auto");
    return status == GM_OK ? gm_active_list_setup(given) : status;
}

static struct gm_request by_class(const struct gm_request *request) {
    struct gm_request same = *request;
    same.size = request->size <= SIZE_MAX / 4 ? gm_size_class(request->size, GRANULE) : request->size;
    return same;
}

static void decide(const struct gm_request *request, struct gm_decision *decision) {
    const struct gm_request class = by_class(request);
    decision->verdict = gm_active_list_allocated(&class, &decision->reason);
    bool transient = decision->verdict == GM_KIND_ASYNC;
    if (!transient && gm_active_list_turns_over(&class)) {
        transient = true;
        decision->reason = GM_REASON_LIST_TURNOVER;
    }
    decision->kind = transient && request->call != GM_CALL_ALLOC_ASYNC ? GM_KIND_CACHE : GM_KIND_NATIVE;
    if (request->capturing) {
        decision->kind = GM_KIND_NATIVE;
        decision->reason = GM_REASON_CAPTURE;
    }
}

static void failed(const struct gm_request *request) {
    const struct gm_request class = by_class(request);
    gm_active_list_failed(&class);
}

static void freed(const struct gm_request *request) {
    const struct gm_request class = by_class(request);
    gm_active_list_freed(&class);
}

static const struct gm_decision reuse = {GM_KIND_CACHE, GM_REASON_FREE_BLOCK, GM_KIND_ASYNC};

extern const struct gm_policy gm_policy_auto;
const struct gm_policy gm_policy_auto = {
    .name = "auto",
    .summary = "Serve native memory; reuse freed blocks of sizes whose blocks come and go.",
    .keeps_mapped = true,
    .reuse = &reuse,
    .setup = setup,
    .decide = decide,
    .failed = failed,
    .freed = freed,
    .after_fork = gm_active_list_after_fork,
};
