/* The locks around a call, and who waits for objects that move meanwhile. */
#include "shim/residency/parts.h"

#include "shim/driver/internal_stream.h"
#include "shim/driver/quiesce.h"

gm_status gm_residency_enter(struct gpumem_residency *r, struct gm_residency_call *call, bool places) {
    gm_status status = gm_context_enter_again(&r->context, &call->pushed);
    if (status)
        return gm_fail(status, "the residency's context cannot be entered: %s", gpumem_status_name(status));
    gm_cancel_hold();
    call->mode = gm_capture_relax();
    if (places)
        pthread_mutex_lock(&r->placement);
    call->places = places;
    pthread_mutex_lock(&r->state);
    return GM_OK;
}

void gm_residency_begin_placing(struct gpumem_residency *r, struct gm_residency_call *call) {
    pthread_mutex_unlock(&r->state);
    pthread_mutex_lock(&r->placement);
    pthread_mutex_lock(&r->state);
    call->places = true;
}

void gm_residency_await_move(struct gpumem_residency *r, struct gm_residency_call *call) {
    const bool places = call->places;
    if (places)
        gm_residency_end_placing(r, call);
    gm_condition_wait(&r->moved, &r->state);
    if (places)
        gm_residency_begin_placing(r, call);
}

void gm_residency_moved(struct gpumem_residency *r, struct gm_residency_object *object) {
    object->busy = false;
    gm_condition_wake(&r->moved);
}

void gm_residency_end_placing(struct gpumem_residency *r, struct gm_residency_call *call) {
    pthread_mutex_unlock(&r->placement);
    call->places = false;
}

void gm_residency_leave(struct gpumem_residency *r, struct gm_residency_call *call) {
    pthread_mutex_unlock(&r->state);
    if (call->places)
        pthread_mutex_unlock(&r->placement);
    gm_capture_unrelax(call->mode);
    gm_cancel_release();
    gm_context_leave(call->pushed);
}

gm_status gm_residency_check_stream(CUstream stream) {
    if (gm_capture_holds(stream))
        return gm_fail(GM_STREAM_CAPTURE, "stream %p is being captured", (void *)stream);
    return GM_OK;
}
