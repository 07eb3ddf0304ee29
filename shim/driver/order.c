/* Vector clocks of streams, events and the host, and the marks that frees leave on streams (order.h explains the
 * method). */
#include "shim/driver/order.h"

enum { PROBES = 16, NAME_BYTES = 64 };

#define LEGACY_HANDLE     1 /* CU_STREAM_LEGACY */
#define PER_THREAD_HANDLE 2 /* CU_STREAM_PER_THREAD */

typedef struct gm_order_entry entry;
typedef struct gm_order_clock clock;

/* ---- clocks */

static void raise(uint64_t *count, uint64_t to) { *count = *count < to ? to : *count; }

static void join_clock(const struct gm_order *order, clock *to, const clock *from) {
    for (unsigned i = 0; i < order->count; i++)
        raise(&to->of[i], from->of[i]);
}

static uint64_t submitted(const struct gm_order *order, unsigned at) { return order->entries[at].knows.of[at]; }

static bool is_of(const entry *stream, uint64_t context) { return stream->used && stream->stream.context == context; }

/* Joins all work so far, of one context or (0) of all. */
static void join_all(const struct gm_order *order, clock *to, uint64_t context) {
    for (unsigned i = 0; i < order->count; i++)
        if (!context || is_of(&order->entries[i], context))
            join_clock(order, to, &order->entries[i].knows);
}

/* The legacy default stream waits for the blocking streams of its context, and they wait for it. */
static void join_implicitly(struct gm_order *order, unsigned at) {
    entry *own = &order->entries[at];
    if (own->stream.kind == GM_ORDER_NON_BLOCKING)
        return;
    bool legacy = own->stream.kind == GM_ORDER_LEGACY;
    for (unsigned i = 0; i < order->count; i++) {
        entry *other = &order->entries[i];
        if (i != at && is_of(other, own->stream.context) &&
            other->stream.kind == (legacy ? GM_ORDER_BLOCKING : GM_ORDER_LEGACY))
            join_clock(order, &own->knows, &other->knows);
    }
}

/* ---- findings */

static bool same_stream(const struct gm_order_stream *a, const struct gm_order_stream *b) {
    return a->handle == b->handle && a->number == b->number && a->thread == b->thread && a->context == b->context;
}

static struct gm_order_finding *finding_of(struct gm_order *order, uint32_t site) {
    for (unsigned i = 0; i < order->found; i++)
        if (order->findings[i].site == site)
            return &order->findings[i];
    if (order->found == GM_ORDER_SITES)
        return NULL;
    order->findings[order->found] = (struct gm_order_finding){.site = site};
    return &order->findings[order->found++];
}

static void set_counted(struct gm_order *order, uint64_t number) {
    for (unsigned i = 0; i < order->count; i++) {
        entry *own = &order->entries[i];
        own->freed.counted |= own->freed.number == number;
        own->host.counted |= own->host.number == number;
    }
}

/* `relying` NULL: the host relies. */
static void add_finding(struct gm_order *order, const struct gm_order_mark *mark, const struct gm_order_stream *busy,
                        const struct gm_order_stream *relying) {
    struct gm_order_finding *finding = finding_of(order, mark->site);
    order->host_relies |= !relying;
    if (!finding) {
        order->unlisted++;
        return;
    }
    if (!finding->count) {
        finding->busy = *busy;
        finding->host = !relying;
        if (relying)
            finding->relying = *relying;
    }
    finding->others |= finding->host != !relying || !same_stream(busy, &finding->busy) ||
                       (relying && !same_stream(relying, &finding->relying));
    finding->count += !mark->counted;
    set_counted(order, mark->number);
}

/* The stream gets more work, or the process ends: reports the free when the host did not wait before. */
static void close_host(struct gm_order *order, unsigned at) {
    entry *own = &order->entries[at];
    if (own->host.up_to > order->waited.of[at])
        add_finding(order, &own->host, &own->stream, NULL);
    own->host.up_to = 0;
}

/* ---- streams */

int gm_order_find(const struct gm_order *order, const struct gm_order_stream *stream) {
    bool unique = stream->handle > PER_THREAD_HANDLE;
    for (unsigned i = 0; i < order->count; i++) {
        const entry *known = &order->entries[i];
        if (known->alive && known->stream.handle == stream->handle && known->stream.thread == stream->thread &&
            (unique || known->stream.context == stream->context))
            return (int)i;
    }
    return -1;
}

/* An unused entry, otherwise that of a destroyed stream, otherwise the one least recently used. */
static unsigned take_entry(struct gm_order *order) {
    unsigned best = 0;
    if (order->count < GM_ORDER_STREAMS)
        return order->count++;
    for (unsigned i = 1; i < GM_ORDER_STREAMS; i++) {
        const entry *one = &order->entries[i], *other_one = &order->entries[best];
        if (one->alive != other_one->alive ? !one->alive : one->seen < other_one->seen)
            best = i;
    }
    order->lost |= order->entries[best].alive;
    close_host(order, best);
    return best;
}

/* The submission count of a reused entry continues, so that the clocks of others stay valid. */
unsigned gm_order_stream(struct gm_order *order, const struct gm_order_stream *stream) {
    int known = gm_order_find(order, stream);
    if (known < 0) {
        unsigned at = take_entry(order);
        uint64_t count = submitted(order, at);
        order->entries[at] = (entry){.stream = *stream, .used = true, .alive = true, .settled = count};
        order->entries[at].knows.of[at] = count;
        order->entries[at].stream.number = stream->handle > PER_THREAD_HANDLE ? ++order->created : 0;
        if (order->lost)
            join_all(order, &order->entries[at].knows, 0);
        known = (int)at;
    }
    order->entries[known].seen = ++order->now;
    return (unsigned)known;
}

void gm_order_destroyed(struct gm_order *order, unsigned at) { order->entries[at].alive = false; }

void gm_order_context_destroyed(struct gm_order *order, uint64_t context) {
    for (unsigned i = 0; i < order->count; i++) {
        entry *own = &order->entries[i];
        if (!is_of(own, context))
            continue;
        own->alive = own->used = false;
        own->freed.up_to = own->host.up_to = own->visible = 0;
    }
}

/* ---- order that the program states */

void gm_order_submit(struct gm_order *order, unsigned at, bool visible) {
    entry *own = &order->entries[at];
    close_host(order, at);
    join_implicitly(order, at);
    for (unsigned i = 0; i < order->count; i++) {
        const entry *busy = &order->entries[i];
        if (i == at || busy->freed.up_to <= own->knows.of[i] || busy->freed.up_to <= order->host.of[i])
            continue;
        add_finding(order, &busy->freed, &busy->stream, &own->stream);
        own->knows.of[i] = busy->freed.up_to;
    }
    own->knows.of[at]++;
    if (visible)
        own->visible = own->knows.of[at];
}

void gm_order_tells_host(struct gm_order *order, unsigned at) {
    join_clock(order, &order->host, &order->entries[at].knows);
}

void gm_order_waits_unseen(struct gm_order *order, unsigned at) { join_all(order, &order->entries[at].knows, 0); }

/* Index of the event. If it is unknown: an index to store it at with `add`, otherwise -1. */
static int event_of(struct gm_order *order, uint64_t handle, bool add) {
    unsigned first = (unsigned)(handle * 0x9e3779b97f4a7c15ull >> 54), best = first % GM_ORDER_EVENTS;
    for (unsigned i = 0; i < PROBES; i++) {
        unsigned at = (first + i) % GM_ORDER_EVENTS;
        if (order->events[at].handle == handle)
            return (int)at;
        if (order->events[at].seen < order->events[best].seen)
            best = at;
    }
    return add ? (int)best : -1;
}

static clock *clear_event(struct gm_order *order, uint64_t handle) {
    int at = event_of(order, handle, true);
    order->events[at].handle = handle;
    order->events[at].seen = ++order->now;
    order->events[at].knows = (clock){0};
    return &order->events[at].knows;
}

/* An unknown event may have been recorded anywhere. */
static void join_event(struct gm_order *order, clock *to, uint64_t handle) {
    int at = event_of(order, handle, false);
    if (at < 0)
        join_all(order, to, 0);
    else
        join_clock(order, to, &order->events[at].knows);
}

void gm_order_record(struct gm_order *order, unsigned at, uint64_t event) {
    join_implicitly(order, at);
    join_clock(order, clear_event(order, event), &order->entries[at].knows);
}

void gm_order_wait_event(struct gm_order *order, unsigned at, uint64_t event) {
    join_event(order, &order->entries[at].knows, event);
}

void gm_order_context_record(struct gm_order *order, uint64_t context, uint64_t event) {
    join_all(order, clear_event(order, event), context);
}

/* All later work of the context waits. This is treated as all later work of the process. */
void gm_order_context_wait(struct gm_order *order, uint64_t event) { join_event(order, &order->host, event); }

static void host_waited(struct gm_order *order, const clock *knows) {
    join_clock(order, &order->waited, knows);
    join_clock(order, &order->host, knows);
}

void gm_order_host_stream(struct gm_order *order, unsigned at) {
    join_implicitly(order, at);
    host_waited(order, &order->entries[at].knows);
}

void gm_order_host_event(struct gm_order *order, uint64_t event) {
    join_event(order, &order->waited, event);
    join_event(order, &order->host, event);
}

void gm_order_host_context(struct gm_order *order, uint64_t context) {
    join_all(order, &order->waited, context);
    join_all(order, &order->host, context);
}

/* ---- frees */

unsigned gm_order_candidates(const struct gm_order *order, uint64_t context, struct gm_order_busy out[GM_ORDER_BUSY]) {
    unsigned count = 0;
    for (unsigned i = 0; i < order->count && count < GM_ORDER_BUSY; i++) {
        const entry *stream = &order->entries[i];
        uint64_t up_to = submitted(order, i);
        if (is_of(stream, context) && up_to > stream->settled && up_to > order->waited.of[i])
            out[count++] =
                (struct gm_order_busy){.at = i, .alive = stream->alive, .up_to = up_to, .stream = stream->stream};
    }
    return count;
}

bool gm_order_free(struct gm_order *order, const struct gm_order_busy *streams, unsigned count, uint32_t site) {
    struct gm_order_mark mark = {.number = order->frees + 1, .site = site};
    bool any = false;
    for (unsigned i = 0; i < count; i++) {
        entry *stream = &order->entries[streams[i].at];
        if (!stream->used || !same_stream(&stream->stream, &streams[i].stream))
            continue;
        mark.up_to = streams[i].up_to;
        raise(&stream->settled, mark.up_to);
        if (streams[i].busy) {
            any = true;
            stream->freed = mark;
        }
        if (stream->visible > mark.up_to) /* submitted after the query */
            continue;
        if (streams[i].busy && stream->visible > order->waited.of[streams[i].at]) {
            stream->host = mark;
            stream->host.up_to = stream->visible;
        }
        stream->visible = 0;
    }
    order->frees += any;
    return any;
}

void gm_order_end(struct gm_order *order) {
    for (unsigned i = 0; i < order->count; i++)
        close_host(order, i);
}

/* ---- text */

/* "stream 3 (0x55d0)", "the default stream" ... */
static void write_name(const struct gm_order_stream *stream, char out[NAME_BYTES]) {
    if (stream->handle == LEGACY_HANDLE)
        gm_format(out, NAME_BYTES, "the default stream");
    else if (stream->handle == PER_THREAD_HANDLE)
        gm_format(out, NAME_BYTES, "the default stream of thread %u", stream->thread);
    else
        gm_format(out, NAME_BYTES, "stream %u (0x%llx)", stream->number, (unsigned long long)stream->handle);
}

void gm_order_say(const struct gm_order_finding *finding, char *out, size_t size) {
    char busy[NAME_BYTES], relying[NAME_BYTES];
    write_name(&finding->busy, busy);
    write_name(&finding->relying, relying);
    gm_format(out, size, "%s may rely on the wait for %s%s", finding->host ? "the host" : relying, busy,
              finding->others ? ", and others" : "");
}

unsigned gm_order_sort(struct gm_order *order) {
    for (unsigned i = 1; i < order->found; i++) {
        struct gm_order_finding moved = order->findings[i];
        unsigned at = i;
        for (; at > 0 && order->findings[at - 1].count < moved.count; at--)
            order->findings[at] = order->findings[at - 1];
        order->findings[at] = moved;
    }
    return order->found;
}
