/* One entry for each context: the program's streams in it and gpumem's own two (streams.h). A stream that is about to
 * be destroyed leaves an event behind, for which the collector waits. */
#include "shim/driver/streams.h"

#include <string.h>

enum { CONTEXTS = 16, MOST = GM_STREAMS_MOST };

static struct entry {
    CUcontext context; /* NULL: unused */
    CUstream blocking, collector;
    unsigned count; /* MOST + 1: there were more */
    CUstream streams[MOST];
} entries[CONTEXTS];

unsigned char gm_streams_per_thread;
static bool observing, disabled;
GM_LOCK(lock);
static int holders; /* threads that record listed streams now */
GM_ZERO_IN_CHILD(holders);

static const char *const reasons[GM_STREAMS_REASONS] = {
    [GM_STREAMS_PER_THREAD] = "per-thread default streams are in use",
    [GM_STREAMS_GREEN] = "green contexts are in use",
    [GM_STREAMS_UNSEEN] = "calls of the driver cannot be seen",
    [GM_STREAMS_LOST] = "the driver refused an event or a stream",
};

void gm_streams_observe(void) { observing = gm_drv.ctx_record_event == NULL; }

void gm_streams_doubt(enum gm_streams_reason reason) {
    if (observing && !__atomic_exchange_n(&disabled, true, __ATOMIC_SEQ_CST))
        gm_log(GM_LOG_INFO, "this driver cannot record a context, and %s: freed memory is not cached", reasons[reason]);
}

bool gm_streams_usable(void) {
    if (GM_LIKELY(!observing || __atomic_load_n(&disabled, __ATOMIC_RELAXED)))
        return false;
    if (__atomic_load_n(&gm_streams_per_thread, __ATOMIC_ACQUIRE))
        gm_streams_doubt(GM_STREAMS_PER_THREAD);
    return !__atomic_load_n(&disabled, __ATOMIC_RELAXED);
}

/* ---- the table; its lock is held */

static struct entry *entry_of_context(CUcontext context) {
    for (unsigned i = 0; i < CONTEXTS; i++)
        if (entries[i].context == context)
            return &entries[i];
    return NULL;
}

static struct entry *entry_with(CUstream stream, unsigned *at) {
    for (unsigned i = 0; i < CONTEXTS; i++)
        for (*at = 0; entries[i].context && *at < entries[i].count && *at < MOST; ++*at)
            if (entries[i].streams[*at] == stream)
                return &entries[i];
    return NULL;
}

void gm_streams_context(CUcontext context) {
    if (!observing || !context)
        return;
    gm_spin_lock(&lock);
    struct entry *entry = entry_of_context(context) ? NULL : entry_of_context(NULL);
    if (entry)
        *entry = (struct entry){.context = context};
    gm_spin_unlock(&lock);
}

void gm_streams_context_destroyed(CUcontext context) {
    if (!observing || !context)
        return;
    gm_spin_lock(&lock);
    struct entry *entry = entry_of_context(context);
    if (entry)
        entry->context = NULL;
    gm_spin_unlock(&lock);
}

void gm_streams_made(CUstream stream) {
    if (!observing)
        return;
    CUcontext context = gm_context_handle();
    gm_spin_lock(&lock);
    struct entry *entry = context ? entry_of_context(context) : NULL;
    if (entry && entry->count < MOST)
        entry->streams[entry->count++] = stream;
    else if (entry)
        entry->count = MOST + 1;
    gm_spin_unlock(&lock);
}

/* ---- own streams */

/* The context is current. Two threads may both create the stream: one is stored, the other destroyed. */
static CUstream own(CUcontext context, size_t which, unsigned flags) {
    CUstream seen = NULL, made = NULL;
    gm_spin_lock(&lock);
    struct entry *entry = entry_of_context(context);
    if (entry)
        seen = *(CUstream *)((char *)entry + which);
    gm_spin_unlock(&lock);
    if (seen || !entry || gm_drv.stream_create(&made, flags) != CUDA_SUCCESS)
        return seen;
    gm_spin_lock(&lock);
    entry = entry_of_context(context);
    CUstream *field = entry ? (CUstream *)((char *)entry + which) : NULL;
    seen = field ? *field : NULL;
    if (field && !seen)
        *field = made;
    gm_spin_unlock(&lock);
    if (field && !seen)
        return made;
    gm_drv.stream_destroy(made);
    return seen;
}

static CUstream blocking_of(CUcontext context) {
    return own(context, offsetof(struct entry, blocking), CU_STREAM_DEFAULT);
}
static CUstream collector_of(CUcontext context) {
    return own(context, offsetof(struct entry, collector), CU_STREAM_NON_BLOCKING);
}

/* Makes the collector wait for all work submitted to the stream. */
static bool collect_work(CUcontext context, CUstream stream) {
    CUcontext popped;
    CUevent event;
    bool collected = false;
    if (gm_drv.ctx_push(context) != CUDA_SUCCESS)
        return false;
    CUstream collector = collector_of(context);
    if (collector && gm_drv.event_create(&event, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS) {
        collected = gm_drv.event_record(event, stream) == CUDA_SUCCESS &&
                    gm_drv.stream_wait_event(collector, event, 0) == CUDA_SUCCESS;
        gm_drv.event_destroy(event);
    }
    gm_drv.ctx_pop(&popped);
    return collected;
}

void gm_streams_ending(CUstream stream) {
    CUstreamCaptureMode mode;
    unsigned at;
    if (!gm_streams_usable())
        return;
    gm_spin_lock(&lock);
    struct entry *entry = entry_with(stream, &at);
    CUcontext context = entry ? entry->context : NULL;
    gm_spin_unlock(&lock);
    if (!context)
        return;
    bool inside = gm_capture_guard_enter(&mode), collected = inside && collect_work(context, stream);
    if (inside)
        gm_capture_guard_leave(mode);
    if (!collected)
        gm_streams_doubt(GM_STREAMS_LOST);
    gm_spin_lock(&lock);
    entry = entry_with(stream, &at);
    if (entry && entry->count <= MOST)
        entry->streams[at] = entry->streams[--entry->count];
    gm_spin_unlock(&lock);
    /* A thread that listed the stream before may still record on it. */
    gm_wait_for_users(&holders);
}

/* ---- for a fence */

unsigned gm_streams_hold(CUcontext context, CUstream *streams, unsigned room) {
    unsigned count = 0;
    if (!gm_streams_usable())
        return 0;
    CUstream blocking = blocking_of(context), collector = collector_of(context);
    if (!blocking || !collector)
        return 0;
    __atomic_add_fetch(&holders, 1, __ATOMIC_SEQ_CST);
    gm_spin_lock(&lock);
    const struct entry *entry = entry_of_context(context);
    if (entry && entry->count <= MOST && entry->count + GM_STREAMS_OWN <= room) {
        memcpy(streams, entry->streams, entry->count * sizeof *streams);
        count = entry->count;
        streams[count++] = blocking;
        streams[count++] = collector;
    }
    gm_spin_unlock(&lock);
    if (!count)
        gm_streams_release();
    return count;
}

void gm_streams_release(void) { __atomic_sub_fetch(&holders, 1, __ATOMIC_SEQ_CST); }
