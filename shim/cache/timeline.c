#include "shim/cache/timeline.h"

#include "shim/driver/driver.h"

/* The timeline of the context, or one without users; NULL: there is none. */
static struct gm_fence_timeline *find_line(const struct gm_fence_timelines *timelines, uint64_t context_id) {
    struct gm_fence_timeline *unused = NULL;
    for (struct gm_fence_timeline *line = timelines->first; line; line = line->next) {
        bool used = __atomic_load_n(&line->users, __ATOMIC_ACQUIRE);
        if (used && line->context.id == context_id)
            return line;
        unused = used ? unused : line;
    }
    return unused;
}

/* Begins the timeline of a context. The fences keep the events of the context before until they are recorded again. */
static void begin_line(struct gm_fence_timeline *line, enum gm_fence_reach reach, uint64_t context, uint64_t context_id,
                       int device) {
    line->reach = reach;
    line->context = (struct gm_context){.handle = (CUcontext)(uintptr_t)context, .id = context_id, .device = device};
    /* A thread that looked at the context before may still read these. */
    __atomic_store_n(&line->begun, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&line->complete, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&line->found_pending, 0, __ATOMIC_RELAXED);
    for (unsigned i = 0; i < GM_TIMELINE_FENCES; i++)
        __atomic_store_n(&line->fences[i].number, 0, __ATOMIC_RELAXED);
}

struct gm_fence_timeline *gm_timeline_use(struct gm_fence_timelines *timelines, uint64_t context, uint64_t context_id,
                                          int device) {
    gm_spin_lock(&timelines->lock);
    struct gm_fence_timeline *line = find_line(timelines, context_id);
    if (!line && (line = gm_pages(sizeof *line))) {
        line->next = timelines->first;
        timelines->first = line;
    }
    if (line && !__atomic_fetch_add(&line->users, 1, __ATOMIC_RELAXED))
        begin_line(line, timelines->reach, context, context_id, device);
    gm_spin_unlock(&timelines->lock);
    return line;
}

void gm_timeline_leave(struct gm_fence_timeline *line) { __atomic_sub_fetch(&line->users, 1, __ATOMIC_RELEASE); }

/* Locked, so that the work submitted before comes before the fence that begins next. */
uint64_t gm_timeline_ticket(struct gm_fence_timeline *line) {
    return __atomic_fetch_add(&line->begun, 0, __ATOMIC_SEQ_CST) + 1;
}

/* The fence of the ticket; NULL: it is not recorded. The caller holds the lock. */
static struct gm_numbered_fence *fence_of(struct gm_fence_timeline *line, uint64_t ticket) {
    struct gm_numbered_fence *at = &line->fences[ticket % GM_TIMELINE_FENCES];
    return at->number == ticket ? at : NULL;
}

bool gm_timeline_is_own(struct gm_fence_timeline *line, uint64_t ticket, uint64_t thread) {
    gm_spin_lock(&line->lock);
    const struct gm_numbered_fence *at = fence_of(line, ticket);
    bool own = at && at->thread == thread;
    gm_spin_unlock(&line->lock);
    return own;
}

/* The answers of the driver that say nothing about a fence. */
static gm_status or_pending(gm_status status) { return gm_is_put_off(status) ? GM_FENCE_PENDING : status; }

/* ---- the caller of these holds the lock */

static bool has_fence(struct gm_fence_timeline *line, uint64_t ticket) {
    return gm_timeline_has_passed(line, ticket) || fence_of(line, ticket);
}

/* The number of the latest fence that began to be recorded. */
static uint64_t latest(const struct gm_fence_timeline *line) { return __atomic_load_n(&line->begun, __ATOMIC_RELAXED); }

static bool is_recording(const struct gm_fence_timeline *line) {
    return __atomic_load_n(&line->recording, __ATOMIC_RELAXED);
}

static bool is_unused(const struct gm_fence_timeline *line, const struct gm_numbered_fence *at) {
    return !at->users && at->number <= line->complete;
}

/* The fence that this thread records now; NULL: none. */
static struct gm_numbered_fence *begin_record(struct gm_fence_timeline *line, const struct gm_visit *visit) {
    struct gm_numbered_fence *at = &line->fences[(latest(line) + 1) % GM_TIMELINE_FENCES];
    if (has_fence(line, visit->record) || is_recording(line) || !is_unused(line, at))
        return NULL;
    __atomic_store_n(&line->recording, gm_ticks(), __ATOMIC_RELAXED);
    __atomic_add_fetch(&line->begun, 1, __ATOMIC_SEQ_CST);
    __atomic_store_n(&at->number, 0, __ATOMIC_RELAXED);
    at->thread = visit->thread;
    return at;
}

static void end_record(struct gm_fence_timeline *line, struct gm_numbered_fence *at, gm_status status) {
    __atomic_store_n(&line->recording, 0, __ATOMIC_RELAXED);
    if (!status)
        __atomic_store_n(&at->number, latest(line), __ATOMIC_RELAXED);
    else
        __atomic_sub_fetch(&line->begun, 1, __ATOMIC_SEQ_CST);
}

/* The fence that this thread queries now; NULL: none. */
static struct gm_numbered_fence *begin_query(struct gm_fence_timeline *line, uint64_t ticket) {
    struct gm_numbered_fence *at =
        line->querying || gm_timeline_has_passed(line, ticket) ? NULL : fence_of(line, ticket);
    if (at) {
        __atomic_store_n(&line->querying, gm_ticks(), __ATOMIC_RELAXED);
        at->users++;
    }
    return at;
}

/* A fence covers all work of those before it. */
static void end_query(struct gm_fence_timeline *line, struct gm_numbered_fence *at, gm_status status) {
    at->users--;
    if (!status && at->number > line->complete)
        __atomic_store_n(&line->complete, at->number, __ATOMIC_RELEASE);
    if (!status || status == GM_FENCE_PENDING)
        __atomic_store_n(&line->found_pending, status ? gm_ticks() : 0, __ATOMIC_RELAXED);
}

/* ---- */

static gm_status record_numbered(const struct gm_fence_timeline *line, struct gm_numbered_fence *at) {
    return or_pending(gm_fence_record(&at->fence, &line->context, line->reach));
}

/* Records the fence that this thread began to record. Returns the one that it queries now; NULL: none. */
static struct gm_numbered_fence *record_one(struct gm_fence_timeline *line, struct gm_numbered_fence *at,
                                            struct gm_visit *visit, bool inside) {
    visit->recorded = inside ? record_numbered(line, at) : GM_FENCE_PENDING;
    gm_spin_lock(&line->lock);
    end_record(line, at, visit->recorded);
    struct gm_numbered_fence *next = inside && visit->query ? begin_query(line, visit->query) : NULL;
    gm_spin_unlock(&line->lock);
    return next;
}

static void query_one(struct gm_fence_timeline *line, struct gm_numbered_fence *at, struct gm_visit *visit,
                      bool inside) {
    gm_status status = inside ? or_pending(gm_fence_query(&at->fence)) : GM_FENCE_PENDING;
    gm_spin_lock(&line->lock);
    __atomic_store_n(&line->querying, 0, __ATOMIC_RELAXED);
    end_query(line, at, status);
    gm_spin_unlock(&line->lock);
    visit->answer = status;
}

void gm_timeline_visit(struct gm_fence_timeline *line, struct gm_visit *visit) {
    CUstreamCaptureMode mode;
    gm_spin_lock(&line->lock);
    struct gm_numbered_fence *recorded = begin_record(line, visit);
    struct gm_numbered_fence *queried = !recorded && visit->query ? begin_query(line, visit->query) : NULL;
    visit->recorded = !recorded && has_fence(line, visit->record) ? GM_OK : GM_FENCE_PENDING;
    visit->answer = gm_timeline_has_passed(line, visit->query) ? GM_OK : GM_FENCE_PENDING;
    gm_spin_unlock(&line->lock);
    if (!recorded && !queried)
        return;
    bool inside = gm_capture_guard_enter(&mode);
    if (recorded)
        queried = record_one(line, recorded, visit, inside);
    if (queried)
        query_one(line, queried, visit, inside);
    if (inside)
        gm_capture_guard_leave(mode);
}

/* A visit of so many ticks was, or is, held up in the driver. */
static bool is_held_up(uint64_t from, uint64_t until) {
    const uint64_t usual_ns = 5000;
    return from && until > from && gm_ticks_span_ns(until - from) > usual_ns;
}

bool gm_look_goes_on(struct gm_look *look, const struct gm_fence_timeline *line, uint64_t answer_ns) {
    const uint64_t most_ns = 20000000;
    uint64_t now = gm_ticks();
    if (!look->begin)
        look->begin = look->quiet = now;
    if (is_held_up(look->last, now) || is_held_up(__atomic_load_n(&line->recording, __ATOMIC_RELAXED), now) ||
        is_held_up(__atomic_load_n(&line->querying, __ATOMIC_RELAXED), now))
        look->quiet = now;
    look->last = now;
    return gm_ticks_span_ns(now - look->quiet) < answer_ns && gm_ticks_span_ns(now - look->begin) < most_ns;
}

gm_status gm_timeline_wait(struct gm_fence_timeline *line, uint64_t ticket) {
    struct gm_visit visit = {.record = ticket};
    do /* another thread may be recording */
        gm_timeline_visit(line, &visit);
    while (visit.recorded == GM_FENCE_PENDING && is_recording(line));
    gm_spin_lock(&line->lock);
    gm_status status = gm_timeline_has_passed(line, ticket) ? GM_OK : visit.recorded;
    struct gm_numbered_fence *at = status ? NULL : fence_of(line, ticket);
    if (at)
        at->users++;
    gm_spin_unlock(&line->lock);
    if (at) {
        status = or_pending(gm_fence_wait(&at->fence));
        gm_spin_lock(&line->lock);
        end_query(line, at, status);
        gm_spin_unlock(&line->lock);
    }
    return status;
}
