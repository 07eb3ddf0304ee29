/* Each call holds the event's context, so that it cannot be destroyed meanwhile (event.h). */
#include "shim/driver/event.h"

static gm_status without_context(int life, bool own) {
    return life == GM_CONTEXT_DESTROYED && !own ? GM_OK : GM_FENCE_PENDING;
}

static gm_status answer(gm_status status, bool own) {
    if (gm_is_destroyed_error(status))
        return without_context(GM_CONTEXT_DESTROYED, own);
    return !own && status == CUDA_ERROR_INVALID_HANDLE ? GM_OK : status;
}

gm_status gm_event_query(const struct gm_event_of *event, bool own) {
    int hold = gm_context_hold(event->context, event->context_id);
    if (hold < 0)
        return without_context(hold, own);
    gm_status status = gm_drv.event_query(event->event);
    gm_context_let_go(hold);
    return answer(status, own);
}

gm_status gm_event_wait(const struct gm_event_of *event, bool own) {
    int hold = gm_context_hold(event->context, event->context_id);
    if (hold < 0)
        return without_context(hold, own);
    gm_status status = gm_event_block(event);
    gm_context_let_go(hold);
    return answer(status, own);
}

gm_status gm_event_order(const struct gm_event_of *event, bool own, CUcontext context, CUstream stream) {
    int hold = gm_context_hold(event->context, event->context_id);
    if (hold < 0)
        return without_context(hold, own);
    gm_status status = stream ? (gm_status)gm_drv.stream_wait_event(stream, event->event, 0)
                              : (gm_status)gm_drv.ctx_wait_event(context, event->event);
    gm_context_let_go(hold);
    return answer(status, own);
}

void gm_event_discard(const struct gm_event_of *event) {
    int hold = gm_context_hold(event->context, event->context_id);
    if (hold < 0)
        return;
    gm_drv.event_destroy(event->event);
    gm_context_let_go(hold);
}
