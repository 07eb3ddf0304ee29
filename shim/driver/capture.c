/* Stream capture: which streams capture, and sections in which none may begin. While a stream captures, context-wide
 * events and what else conflicts with it would invalidate the capture; so they run inside a guarded section, and a
 * capture begins only when no section is open (driver.h states the rule).
 *
 * Captures are listed one by one, because programs lose some: an exception destroys the stream, resets the device or
 * ends the thread of a capture that nobody ended. A capture leaves the list with its end, its stream, its context, its
 * thread, or when the driver, asked about one that lasts, knows nothing of it. */
#include <sched.h>

#include "shim/base/base.h"
#include "shim/base/real_dl.h"
#include "shim/driver/driver.h"

enum { PAGE_BYTES = 16384 };

#define ASK_NS 100000000ull /* captures that last longer are asked about, no more often than this */

struct slot {
    struct slot *next;
    uint64_t serial; /* of the capture: never another's */
    uint64_t since;  /* ticks */
    struct gm_capture capture;
    bool begun;  /* the driver said so */
    bool sure;   /* that it goes with the context */
    bool ending; /* its stream or context is being destroyed */
    bool orphan; /* its thread is gone, and nobody else may end it */
};

int gm_captures;
void (*gm_capture_on_lost)(const struct gm_capture *capture);

static struct slot *listed, *unused;
static int unlisted; /* captures that the kernel gave no page for */
static uint64_t serials, asked;
static int sections; /* guarded sections open now */
static int asking;   /* threads that ask the driver about streams now */
static gm_spin lock;
static uint32_t threads;
static __thread uint32_t thread_number __attribute__((tls_model("initial-exec")));
static __thread bool watched __attribute__((tls_model("initial-exec")));

static uint32_t this_thread(void) {
    if (GM_UNLIKELY(!thread_number))
        thread_number = __atomic_add_fetch(&threads, 1, __ATOMIC_RELAXED);
    return thread_number;
}

/* Such users are inside for a few microseconds; one that has not returned within a second (a stopped thread) must not
 * hang the program. */
static void wait_until_none(const int *users) {
    for (int spins = 0; __atomic_load_n(users, __ATOMIC_SEQ_CST) > 0 && spins < 1000000; spins++)
        sched_yield();
}

/* ---- the list; its lock is held */

static void count(int change) { __atomic_store_n(&gm_captures, gm_captures + change, __ATOMIC_SEQ_CST); }

/* NULL: the kernel gives no page. It is asked without the lock. */
static struct slot *take_slot(void) {
    if (!unused) {
        gm_spin_unlock(&lock);
        struct slot *made = gm_pages(PAGE_BYTES);
        gm_spin_lock(&lock);
        for (size_t i = 0; made && i < PAGE_BYTES / sizeof *made; i++) {
            made[i].next = unused;
            unused = &made[i];
        }
    }
    struct slot *slot = unused;
    if (slot)
        unused = slot->next;
    return slot;
}

static void take_out(struct slot **link) {
    struct slot *slot = *link;
    *link = slot->next;
    slot->next = unused;
    unused = slot;
    count(-1);
}

static struct slot **find_serial(uint64_t serial) {
    struct slot **link = &listed;
    while (*link && (*link)->serial != serial)
        link = &(*link)->next;
    return link;
}

/* A thread's default stream is another one in each thread and each context. */
static bool is_stream(const struct gm_capture *capture, CUstream stream, uint32_t thread, CUcontext context) {
    if (capture->per_thread)
        return thread == capture->thread && context == capture->context;
    return !thread && stream == capture->stream;
}

/* Takes the first capture out that `leaves` names; false: there is none. */
static bool lose(bool (*leaves)(const struct slot *slot, const void *what), const void *what) {
    struct gm_capture lost;
    gm_spin_lock(&lock);
    struct slot **link = &listed;
    while (*link && !leaves(*link, what))
        link = &(*link)->next;
    bool found = *link != NULL;
    if (found) {
        lost = (*link)->capture;
        take_out(link);
    }
    gm_spin_unlock(&lock);
    if (found && gm_capture_on_lost)
        gm_capture_on_lost(&lost);
    return found;
}

/* ---- begin and end */

static bool is_own(CUstream stream, bool per_thread) { return stream ? stream == CU_STREAM_PER_THREAD : per_thread; }

static CUcontext current_context(void) {
    CUcontext context = NULL;
    if (!gm_drv.ctx_get_current || gm_drv.ctx_get_current(&context) != CUDA_SUCCESS)
        return NULL;
    return context;
}

/* False: the stream is a green context's, or the driver is older than the question. */
static bool context_of(CUstream stream, CUcontext *context) {
    bool sure = stream > CU_STREAM_PER_THREAD && gm_drv.stream_get_ctx &&
                gm_drv.stream_get_ctx(stream, context) == CUDA_SUCCESS;
    if (!sure)
        *context = current_context();
    return sure;
}

uint64_t gm_capture_begin(CUstream stream, bool per_thread, CUstreamCaptureMode mode) {
    struct gm_capture made = {stream, NULL, this_thread(), is_own(stream, per_thread), mode};
    bool sure = context_of(stream, &made.context);
    uint64_t serial = 0;
    gm_spin_lock(&lock);
    struct slot *slot = take_slot();
    if (slot) {
        serial = ++serials;
        *slot = (struct slot){.next = listed, .serial = serial, .since = gm_ticks(), .capture = made, .sure = sure};
        listed = slot;
    } else {
        unlisted++;
    }
    count(1);
    gm_spin_unlock(&lock);
    wait_until_none(&sections);
    return serial;
}

/* Captures that only this thread could have ended, if it did not. What runs later in its end may still do so. */
static void thread_ends(void *number) {
    gm_spin_lock(&lock);
    for (struct slot *slot = listed; slot; slot = slot->next)
        if (slot->capture.thread == (uint32_t)(uintptr_t)number &&
            (slot->capture.per_thread || slot->capture.mode != CU_STREAM_CAPTURE_MODE_RELAXED)) {
            slot->orphan = true;
            __atomic_store_n(&asked, 0, __ATOMIC_RELAXED); /* at once */
        }
    gm_spin_unlock(&lock);
}

void gm_capture_begun(uint64_t serial, bool ok) {
    gm_spin_lock(&lock);
    struct slot **link = find_serial(serial);
    if (*link && ok)
        (*link)->begun = true;
    else if (*link)
        take_out(link);
    else if (!serial && !ok && unlisted)
        unlisted--, count(-1);
    gm_spin_unlock(&lock);
    if (ok && !watched)
        watched = gm_thread_at_exit(thread_ends, (void *)(uintptr_t)this_thread()) == 0;
}

void gm_capture_end(CUstream stream, bool per_thread) {
    bool own = is_own(stream, per_thread);
    uint32_t thread = own ? this_thread() : 0;
    CUcontext context = own ? current_context() : NULL;
    gm_spin_lock(&lock);
    struct slot **link = &listed;
    while (*link && !is_stream(&(*link)->capture, stream, thread, context))
        link = &(*link)->next;
    if (*link)
        take_out(link);
    else if (unlisted) /* else an end without a begin we saw */
        unlisted--, count(-1);
    gm_spin_unlock(&lock);
}

/* ---- streams and contexts that go */

struct going {
    CUstream stream;
    CUcontext context;
};

static bool goes(const struct slot *slot, const struct going *what) {
    return what->context ? slot->capture.context == what->context : is_stream(&slot->capture, what->stream, 0, NULL);
}

static bool is_gone(const struct slot *slot, const void *what) { return slot->ending && goes(slot, what); }

static void mark(const struct going *what, bool ending) {
    gm_spin_lock(&lock);
    for (struct slot *slot = listed; slot; slot = slot->next)
        if (goes(slot, what))
            slot->ending = ending;
    gm_spin_unlock(&lock);
}

void gm_capture_going(CUstream stream, CUcontext context) {
    const struct going what = {stream, context};
    if (!stream && !context)
        return;
    if (gm_capture_any())
        mark(&what, true);
    wait_until_none(&asking);
}

void gm_capture_gone(CUstream stream, CUcontext context, bool gone) {
    const struct going what = {stream, context};
    if ((!stream && !context) || !gm_capture_any())
        return;
    while (gone && lose(is_gone, &what))
        ;
    if (!gone)
        mark(&what, false);
}

/* ---- captures that last */

static bool is_orphan(const struct slot *slot, const void *what) { return (void)what, slot->orphan; }

static bool has_serial(const struct slot *slot, const void *serial) {
    return slot->serial == *(const uint64_t *)serial;
}

/* The next capture to be asked about, with a serial below `below`: its stream is not destroyed before `asking` falls.
 * Not one whose stream may be gone unseen, and not a thread's default stream, which nobody else can name. */
static CUstream next_lasting(uint64_t *below, uint64_t now) {
    CUstream stream = NULL;
    uint64_t found = 0;
    gm_spin_lock(&lock);
    for (const struct slot *slot = listed; slot; slot = slot->next)
        if (slot->serial < *below && slot->serial > found && slot->begun && slot->sure && !slot->ending &&
            now > slot->since && gm_ticks_span_ns(now - slot->since) > ASK_NS) {
            found = slot->serial;
            stream = slot->capture.stream;
        }
    if (found)
        __atomic_add_fetch(&asking, 1, __ATOMIC_SEQ_CST);
    gm_spin_unlock(&lock);
    *below = found;
    return stream;
}

/* Invalid captures are still to be ended. Of other errors nothing is learnt. */
static bool is_over(CUresult result, CUstreamCaptureStatus status) {
    return result == CUDA_SUCCESS ? status == CU_STREAM_CAPTURE_STATUS_NONE
                                  : result == CUDA_ERROR_CONTEXT_IS_DESTROYED || result == CUDA_ERROR_INVALID_HANDLE;
}

bool gm_capture_recheck(void) {
    uint64_t now = gm_ticks(), before = __atomic_load_n(&asked, __ATOMIC_RELAXED), below = UINT64_MAX;
    if (!gm_capture_any())
        return true;
    if ((before && gm_ticks_span_ns(now - before) < ASK_NS) ||
        !__atomic_compare_exchange_n(&asked, &before, now, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        return false;
    while (lose(is_orphan, NULL))
        ;
    for (CUstream stream; gm_drv.stream_is_capturing && (stream = next_lasting(&below, now)) != NULL;) {
        CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
        CUresult result = gm_drv.stream_is_capturing(stream, &status);
        __atomic_sub_fetch(&asking, 1, __ATOMIC_SEQ_CST);
        if (is_over(result, status))
            lose(has_serial, &below);
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

/* The child has no driver state of its parent's. */
void gm_captures_after_fork(void) {
    lock.held = 0;
    listed = unused = NULL;
    gm_captures = unlisted = sections = asking = 0;
}
