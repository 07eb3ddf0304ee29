/* The events of a copy: what later users have to wait for. Events are kept for the next recordings. */
#include "shim/residency/parts.h"

#include <stdlib.h>

#include "shim/driver/quiesce.h"

enum { FIRST_ROOM = 8 };

/* ---- events */

gm_status gm_residency_event_take(struct gpumem_residency *r, CUevent *event) {
    if (r->event_count) {
        *event = r->events[--r->event_count];
        return GM_OK;
    }
    return r->driver->event_create(event, CU_EVENT_DISABLE_TIMING);
}

void gm_residency_event_put(struct gpumem_residency *r, CUevent event) {
    if (!event)
        return;
    if (r->event_count == r->event_room) {
        unsigned room = r->event_room ? 2 * r->event_room : 64;
        CUevent *events = realloc(r->events, room * sizeof(CUevent));
        if (!events)
            return; /* it ends with the context: another thread may wait for it now */
        r->events = events;
        r->event_room = room;
    }
    r->events[r->event_count++] = event;
}

/* ---- the work of a copy */

void gm_residency_forget(struct gpumem_residency *r, struct gm_residency_copy *copy) {
    gm_residency_event_put(r, copy->written);
    copy->written = NULL;
    while (copy->read_count)
        gm_residency_event_put(r, copy->read[--copy->read_count]);
    copy->unfenced = false;
}

/* Waits for the events of the copy. Where some work has no event, only the context can be waited for: as a native free
 * does it, because an event of a context would invalidate a capture, and without the preloaded library no capture is
 * known. */
static gm_status wait_for_work(const struct gpumem_residency *r, const struct gm_residency_copy *copy) {
    gm_status status = GM_OK;
    if (copy->unfenced)
        return gm_wait_natively(r->context.handle);
    if (copy->written)
        status = r->driver->event_synchronize(copy->written);
    for (unsigned i = 0; i < copy->read_count && !status; i++)
        status = r->driver->event_synchronize(copy->read[i]);
    return status;
}

static gm_status waited(struct gpumem_residency *r, struct gm_residency_copy *copy, gm_status status) {
    if (status)
        return gm_fail(status, "work on a copy of %zu bytes cannot be waited for: %s", copy->bytes,
                       gpumem_status_name(status));
    gm_residency_forget(r, copy);
    return GM_OK;
}

gm_status gm_residency_order(struct gpumem_residency *r, struct gm_residency_copy *copy, CUstream stream, bool writes) {
    gm_status status = copy->unfenced ? waited(r, copy, wait_for_work(r, copy)) : GM_OK;
    if (status)
        return status;
    if (copy->written)
        status = r->driver->stream_wait_event(stream, copy->written, 0);
    for (unsigned i = 0; writes && i < copy->read_count && !status; i++)
        status = r->driver->stream_wait_event(stream, copy->read[i], 0);
    return status ? gm_fail(status, "stream %p cannot wait for a copy of %zu bytes: %s", (void *)stream, copy->bytes,
                            gpumem_status_name(status))
                  : GM_OK;
}

/* Forgets reads that are done, then has room for one more. */
static bool make_read_room(struct gpumem_residency *r, struct gm_residency_copy *copy) {
    unsigned left = 0;
    if (copy->read_count < copy->read_room)
        return true;
    for (unsigned i = 0; i < copy->read_count; i++) {
        if (r->driver->event_query(copy->read[i]) == CUDA_SUCCESS)
            gm_residency_event_put(r, copy->read[i]);
        else
            copy->read[left++] = copy->read[i];
    }
    copy->read_count = left;
    if (left < copy->read_room)
        return true;
    unsigned room = copy->read_room ? 2 * copy->read_room : FIRST_ROOM;
    CUevent *read = realloc(copy->read, room * sizeof(CUevent));
    if (!read)
        return false;
    copy->read = read;
    copy->read_room = room;
    return true;
}

static gm_status record_event(struct gpumem_residency *r, CUstream stream, CUevent *event) {
    gm_status status = gm_residency_event_take(r, event);
    if (status)
        return status;
    status = r->driver->event_record(*event, stream);
    if (status)
        gm_residency_event_put(r, *event);
    return status;
}

gm_status gm_residency_record(struct gpumem_residency *r, struct gm_residency_copy *copy, CUstream stream,
                              bool writes) {
    CUevent event;
    gm_status status = writes || make_read_room(r, copy) ? record_event(r, stream, &event) : GM_OUT_OF_MEMORY;
    if (status) {
        copy->unfenced = true;
        return gm_fail(status, "work on a copy of %zu bytes cannot be recorded: %s", copy->bytes,
                       gpumem_status_name(status));
    }
    if (writes) {
        gm_residency_forget(r, copy);
        copy->written = event;
    } else {
        copy->read[copy->read_count++] = event;
    }
    return GM_OK;
}

gm_status gm_residency_wait(struct gpumem_residency *r, struct gm_residency_copy *copy) {
    gm_residency_pause(r);
    gm_status status = wait_for_work(r, copy);
    gm_residency_resume(r);
    return waited(r, copy, status);
}
