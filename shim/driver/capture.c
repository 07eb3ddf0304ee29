/* Keeps the list of stream captures, and the guarded sections in which no capture may begin. A context-wide event, or
 * another conflicting call, invalidates a running capture. So gpumem makes such calls only inside a guarded section: a
 * section is entered only while no stream captures, and a capture begins only when no section is open (driver.h states
 * the rules).
 *
 * The list has an entry for each capture, because programs lose captures: an exception destroys the stream, resets the
 * device or ends the thread of a capture that nobody ended. An entry is removed when the capture, its stream, its
 * context or its thread ends, or when the driver reports that the stream of a long capture does not capture. */
#include "shim/base/events.h"
#include "shim/base/base.h"
#include "shim/base/nodes.h"
#include "shim/base/real_dl.h"
#include "shim/driver/driver.h"
#include "shim/driver/watch.h"

#define RECHECK_NS 100000000ull /* captures that last longer are checked by a driver query, no more often than this */

struct slot {
    struct slot *next;
    uint64_t serial; /* of the capture, never reused */
    uint64_t since;  /* ticks at the begin */
    struct gm_capture capture;
    bool begun;         /* the driver has begun it */
    bool context_known; /* capture.context is certainly the stream's context */
    bool ending;        /* its stream or context is being destroyed */
    bool orphan;        /* its thread has ended, and no other thread may end the capture */
    bool lost;          /* it is over, and a thread reports it now */
};

int gm_captures;

static struct slot *listed;
static gm_nodes unused;
static int unlisted; /* captures without an entry, since the kernel gave no memory */
static uint64_t serials, last_recheck;
static int sections;    /* open guarded sections */
static int query_count; /* threads that query the driver about streams now */
GM_LOCK(lock);
static uint32_t threads;
GM_ZERO_IN_CHILD(gm_captures);
GM_ZERO_IN_CHILD(listed);
GM_ZERO_IN_CHILD(unused);
GM_ZERO_IN_CHILD(unlisted);
GM_ZERO_IN_CHILD(sections);
GM_ZERO_IN_CHILD(query_count);
static __thread struct {
    uint32_t number : 31, observed : 1; /* observed: thread_ends is called when it ends */
} thread __attribute__((tls_model("initial-exec")));

static uint32_t this_thread(void) {
    if (GM_UNLIKELY(!thread.number))
        thread.number = __atomic_add_fetch(&threads, 1, __ATOMIC_RELAXED);
    return thread.number;
}

/* ---- the list; the caller holds the lock */

static void count_captures(int change) {
    __atomic_store_n(&gm_captures, gm_captures + change, __ATOMIC_SEQ_CST);
    gm_watch_set(GM_WATCH_CAPTURES, gm_captures > 0);
}

static void remove_capture(struct slot **link) {
    struct slot *slot = *link;
    *link = slot->next;
    gm_node_give(&unused, slot);
    count_captures(-1);
}

static struct slot **find_serial(uint64_t serial) {
    struct slot **link = &listed;
    while (*link && (*link)->serial != serial)
        link = &(*link)->next;
    return link;
}

/* The per-thread default stream is a different stream in each thread and each context. */
static bool is_stream(const struct gm_capture *capture, CUstream stream, uint32_t thread, CUcontext context) {
    if (capture->per_thread)
        return thread == capture->thread && context == capture->context;
    return !thread && stream == capture->stream;
}

/* Reports the first capture that `matches` selects as lost, and removes it then: what waits for its end comes after the
 * report. False: there is none. */
static bool remove_lost(bool (*matches)(const struct slot *slot, const void *what), const void *what) {
    struct gm_capture capture;
    uint64_t serial = 0;
    gm_spin_lock(&lock);
    struct slot **link = &listed;
    while (*link && ((*link)->lost || !matches(*link, what)))
        link = &(*link)->next;
    if (*link) {
        (*link)->lost = true;
        capture = (*link)->capture;
        serial = (*link)->serial;
    }
    gm_spin_unlock(&lock);
    if (!serial)
        return false;
    GM_PUBLISH(capture_lost, &capture);
    gm_spin_lock(&lock);
    link = find_serial(serial);
    if (*link)
        remove_capture(link);
    gm_spin_unlock(&lock);
    return true;
}

/* ---- begin and end */

uint64_t gm_capture_begin(CUstream stream, bool per_thread, CUstreamCaptureMode mode) {
    struct gm_capture made = {stream, NULL, this_thread(), gm_is_per_thread(stream, per_thread), mode};
    bool context_known = gm_context_of_stream(stream, &made.context);
    uint64_t serial = 0;
    gm_context_note_graphs();
    gm_spin_lock(&lock);
    struct slot *slot = gm_node_take(&unused, sizeof *slot, &lock);
    if (slot) {
        serial = ++serials;
        *slot = (struct slot){
            .next = listed, .serial = serial, .since = gm_ticks(), .capture = made, .context_known = context_known};
        listed = slot;
    } else {
        unlisted++;
    }
    count_captures(1);
    gm_spin_unlock(&lock);
    gm_wait_for_users(&sections);
    return serial;
}

/* Marks the captures that only this thread could have ended. Later destructors of the thread may still end them. */
static void thread_ends(void *number) {
    gm_spin_lock(&lock);
    for (struct slot *slot = listed; slot; slot = slot->next)
        if (slot->capture.thread == (uint32_t)(uintptr_t)number &&
            (slot->capture.per_thread || slot->capture.mode != CU_STREAM_CAPTURE_MODE_RELAXED)) {
            slot->orphan = true;
            __atomic_store_n(&last_recheck, 0, __ATOMIC_RELAXED); /* check without delay */
        }
    gm_spin_unlock(&lock);
}

void gm_capture_begun(uint64_t serial, bool ok) {
    gm_spin_lock(&lock);
    struct slot **link = find_serial(serial);
    if (*link && ok)
        (*link)->begun = true;
    else if (*link)
        remove_capture(link);
    else if (!serial && !ok && unlisted)
        unlisted--, count_captures(-1);
    gm_spin_unlock(&lock);
    if (ok && !thread.observed)
        thread.observed = gm_thread_at_exit(thread_ends, (void *)(uintptr_t)this_thread()) == 0;
}

void gm_capture_end(CUstream stream, bool per_thread) {
    bool own = gm_is_per_thread(stream, per_thread);
    uint32_t thread = own ? this_thread() : 0;
    CUcontext context = own ? gm_context_handle() : NULL;
    gm_spin_lock(&lock);
    struct slot **link = &listed;
    while (*link && !is_stream(&(*link)->capture, stream, thread, context))
        link = &(*link)->next;
    if (*link)
        remove_capture(link);
    else if (unlisted) /* otherwise it is the end of a capture whose begin was not seen */
        unlisted--, count_captures(-1);
    gm_spin_unlock(&lock);
}

/* ---- streams and contexts that are destroyed */

struct target {
    CUstream stream;
    CUcontext context;
};

static bool is_of_target(const struct slot *slot, const struct target *what) {
    return what->context ? slot->capture.context == what->context : is_stream(&slot->capture, what->stream, 0, NULL);
}

static bool is_of_destroyed(const struct slot *slot, const void *what) {
    return slot->ending && is_of_target(slot, what);
}

static void mark_ending(const struct target *what, bool ending) {
    gm_spin_lock(&lock);
    for (struct slot *slot = listed; slot; slot = slot->next)
        if (is_of_target(slot, what))
            slot->ending = ending;
    gm_spin_unlock(&lock);
}

void gm_capture_ending(CUstream stream, CUcontext context) {
    const struct target what = {stream, context};
    if (!stream && !context)
        return;
    if (gm_capture_any())
        mark_ending(&what, true);
    gm_wait_for_users(&query_count);
}

void gm_capture_destroyed(CUstream stream, CUcontext context, bool destroyed) {
    const struct target what = {stream, context};
    if ((!stream && !context) || !gm_capture_any())
        return;
    while (destroyed && remove_lost(is_of_destroyed, &what))
        ;
    if (!destroyed)
        mark_ending(&what, false);
}

/* ---- captures that last long */

static bool is_orphan(const struct slot *slot, const void *what) { return (void)what, slot->orphan; }

static bool has_serial(const struct slot *slot, const void *serial) {
    return slot->serial == *(const uint64_t *)serial;
}

/* The next capture to check, with a serial below `below`. Its stream is not destroyed before `query_count` falls.
 * Captures are skipped whose stream may have been destroyed unseen, and those of a per-thread default stream, which no
 * other thread can name. */
static CUstream next_lasting(uint64_t *below, uint64_t now) {
    CUstream stream = NULL;
    uint64_t found = 0;
    gm_spin_lock(&lock);
    for (const struct slot *slot = listed; slot; slot = slot->next)
        if (slot->serial < *below && slot->serial > found && slot->begun && slot->context_known && !slot->ending &&
            now > slot->since && gm_ticks_span_ns(now - slot->since) > RECHECK_NS) {
            found = slot->serial;
            stream = slot->capture.stream;
        }
    if (found)
        __atomic_add_fetch(&query_count, 1, __ATOMIC_SEQ_CST);
    gm_spin_unlock(&lock);
    *below = found;
    return stream;
}

/* An invalid capture still has to be ended. Other errors prove nothing. */
static bool is_over(CUresult result, CUstreamCaptureStatus status) {
    return result == CUDA_SUCCESS ? status == CU_STREAM_CAPTURE_STATUS_NONE
                                  : result == CUDA_ERROR_CONTEXT_IS_DESTROYED || result == CUDA_ERROR_INVALID_HANDLE;
}

bool gm_capture_recheck(void) {
    uint64_t now = gm_ticks(), before = __atomic_load_n(&last_recheck, __ATOMIC_RELAXED), below = UINT64_MAX;
    if (!gm_capture_any())
        return true;
    if ((before && gm_ticks_span_ns(now - before) < RECHECK_NS) ||
        !__atomic_compare_exchange_n(&last_recheck, &before, now, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        return false;
    while (remove_lost(is_orphan, NULL))
        ;
    for (CUstream stream; gm_drv.stream_is_capturing && (stream = next_lasting(&below, now)) != NULL;) {
        CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
        CUresult result = gm_drv.stream_is_capturing(stream, &status);
        __atomic_sub_fetch(&query_count, 1, __ATOMIC_SEQ_CST);
        if (is_over(result, status))
            remove_lost(has_serial, &below);
    }
    return !gm_capture_any();
}

/* ---- sections */

bool gm_capture_guard_enter(CUstreamCaptureMode *saved) {
    do {
        __atomic_add_fetch(&sections, 1, __ATOMIC_SEQ_CST);
        if (GM_LIKELY(__atomic_load_n(&gm_captures, __ATOMIC_SEQ_CST) == 0)) {
            *saved = gm_capture_relax();
            return true;
        }
        __atomic_sub_fetch(&sections, 1, __ATOMIC_SEQ_CST);
    } while (gm_capture_recheck());
    return false;
}

void gm_capture_guard_leave(CUstreamCaptureMode saved) {
    gm_capture_unrelax(saved);
    __atomic_sub_fetch(&sections, 1, __ATOMIC_SEQ_CST);
}

CUstreamCaptureMode gm_capture_relax(void) {
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    if (gm_drv.thread_exchange_capture_mode)
        gm_drv.thread_exchange_capture_mode(&mode);
    return mode;
}

void gm_capture_unrelax(CUstreamCaptureMode saved) {
    if (gm_drv.thread_exchange_capture_mode)
        gm_drv.thread_exchange_capture_mode(&saved);
}

bool gm_capture_on(CUstream stream, bool per_thread) {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    CUresult result = (per_thread ? gm_drv.stream_is_capturing_ptsz : gm_drv.stream_is_capturing)(stream, &status);
    return result == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE;
}

bool gm_capture_holds(CUstream stream) {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    return gm_drv.stream_is_capturing(stream, &status) == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT ||
           status != CU_STREAM_CAPTURE_STATUS_NONE;
}
