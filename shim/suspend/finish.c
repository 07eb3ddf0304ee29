/* One context after the other, by a fence of all its work (finish.h). */
#include "shim/suspend/finish.h"

#include "shim/base/file.h"
#include "shim/driver/fence.h"
#include "shim/driver/internal_stream.h"
#include "shim/suspend/select.h"
#include "shim/suspend/submissions.h"

enum { CONTEXTS = 64, POLL_NS = 50000 };

static gm_status refuse(char *why, gm_status status, const char *text) {
    gm_format(why, GM_SUSPEND_WHY, "%s", text);
    return status;
}

static struct gm_context contexts[CONTEXTS]; /* of the thread whose turn it is */
static unsigned context_count;

static void note_context(const struct gm_context *context) {
    if (context_count < CONTEXTS)
        contexts[context_count] = *context;
    context_count++;
}

/* GM_FENCE_PENDING: the time is over. */
static gm_status wait_for_fence(const struct gm_fence *fence, uint64_t until_ns) {
    CUstreamCaptureMode mode;
    gm_status status = GM_FENCE_PENDING;
    while (status == GM_FENCE_PENDING && gm_now_ns() < until_ns) {
        if (!gm_capture_guard_enter(&mode))
            return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        status = gm_fence_query(fence);
        gm_capture_guard_leave(mode);
        if (status == GM_FENCE_PENDING)
            gm_sleep(POLL_NS);
    }
    return status;
}

static gm_status finish_context(const struct gm_context *context, uint64_t until_ns) {
    CUstreamCaptureMode mode;
    struct gm_fence *fence = gm_fence_take();
    if (!fence)
        return GM_OUT_OF_MEMORY;
    gm_status status = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (gm_capture_guard_enter(&mode)) {
        status = gm_fence_record_or_wait(fence, context, GM_FENCE_OWN);
        gm_capture_guard_leave(mode);
    }
    if (!status)
        status = wait_for_fence(fence, until_ns);
    gm_fence_give(fence);
    bool ended = gm_context_life(context->handle, context->id) == GM_CONTEXT_DESTROYED;
    return ended ? GM_OK : status;
}

gm_status gm_finish_work(uint64_t until_ns, char *why) {
    if (!gm_submissions_wait(until_ns))
        return refuse(why, CUDA_ERROR_NOT_READY, "a call of the program does not return");
    if (gm_capture_any() && !gm_capture_recheck())
        return refuse(why, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "a stream is being captured");
    context_count = 0;
    gm_contexts_each(note_context);
    if (context_count > CONTEXTS)
        return refuse(why, GM_NOT_SUPPORTED, "the process has more than 64 contexts");
    for (unsigned i = 0; i < context_count; i++) {
        gm_status status = finish_context(&contexts[i], until_ns);
        if (status == GM_FENCE_PENDING)
            return refuse(why, CUDA_ERROR_NOT_READY,
                          "work of the program does not end; it may wait for a call that is held");
        if (gm_is_capture_error(status))
            return refuse(why, status, "a stream is being captured");
        if (status) {
            gm_format(why, GM_SUSPEND_WHY, "the driver answers %d to a wait for the work in flight", status);
            return status;
        }
    }
    return GM_OK;
}
