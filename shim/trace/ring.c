#include "shim/base/events.h"
#include "shim/trace/ring.h"

#include <string.h>

enum { MOST_CHUNKS = 65536 }; /* 1 GiB */
enum { EVENTS = (GM_RING_CHUNK - sizeof(struct gm_trace_chunk)) / sizeof(struct gm_event) };

enum use { IN_USE, LEFT, KEPT };
struct chunk {
    uint64_t left_ns;
    uint32_t use;
};

struct content {
    struct gm_trace_chunk head;
    struct gm_event events[EVENTS];
};

static uint64_t ring_bytes, ring_ns;
static struct gm_trace_file *file;

GM_LOCK(lock);                /* protects the following */
static struct chunk *chunks;  /* array of MOST_CHUNKS */
static unsigned count, hand;  /* the hand points behind the chunk used again last */
static struct content *old;   /* what the chunk to be used again holds */
static struct content *saved; /* the latest chunk of survivors */
static int saved_chunk = -1;

void gm_ring_setup(uint64_t bytes, uint64_t ns) {
    ring_bytes = bytes;
    ring_ns = ns;
}

bool gm_ring_on(void) { return ring_bytes || ring_ns; }

uint64_t gm_ring_offset(int chunk) { return GM_TRACE_HEADER + (uint64_t)chunk * GM_RING_CHUNK; }

void gm_ring_open(struct gm_trace_file *opened) {
    file = opened;
    if (!chunks) {
        chunks = gm_pages(MOST_CHUNKS * sizeof *chunks);
        old = gm_pages(sizeof *old);
        saved = gm_pages(sizeof *saved);
    }
    gm_ring_forget();
}

void gm_ring_forget(void) {
    count = hand = 0;
    saved_chunk = -1;
}

static bool put_in_chunk(int chunk, const void *data, size_t bytes, size_t at) {
    return gm_safe_pwrite(gm_trace_fd(file), data, bytes, gm_ring_offset(chunk) + at) == (ssize_t)bytes;
}

/* ---- survivors */

/* Memory, address space and mappings may have the same address and end by their own. */
enum object { NO_OBJECT, MEMORY, RESERVATION, MAPPING };
static enum object object_of(uint8_t action) {
    switch (action) {
    case GM_ACT_ALLOC:
    case GM_ACT_FREE:
    case GM_ACT_RELEASE: return MEMORY;
    case GM_ACT_RESERVE:
    case GM_ACT_UNRESERVE: return RESERVATION;
    case GM_ACT_MAP:
    case GM_ACT_UNMAP: return MAPPING;
    default: return NO_OBJECT;
    }
}

/* Reduces what the chunk holds to allocations of live blocks. Returns their number. */
static unsigned read_survivors(int chunk) {
    unsigned survivors = 0;
    if (gm_pread(gm_trace_fd(file), old, sizeof *old, gm_ring_offset(chunk)) < (ssize_t)sizeof old->head ||
        old->head.magic != GM_TRACE_CHUNK_MAGIC || old->head.type != GM_CHUNK_EVENTS ||
        old->head.used > sizeof old->events)
        return 0;
    for (unsigned i = 0; i < old->head.used / sizeof old->events[0]; i++) {
        struct gm_event event = old->events[i];
        enum object object = object_of(event.action);
        for (unsigned k = object ? survivors : 0; k-- > 0;)
            if (old->events[k].address == event.address && object_of(old->events[k].action) == object) {
                memmove(&old->events[k], &old->events[k + 1], (survivors - k - 1) * sizeof event);
                survivors--;
            }
        if (event.action == GM_ACT_ALLOC || event.action == GM_ACT_RESERVE || event.action == GM_ACT_MAP)
            old->events[survivors++] = event;
    }
    unsigned live = 0;
    for (unsigned i = 0; i < survivors; i++)
        if (GM_ASK(trace_keeps, &old->events[i]))
            old->events[live++] = old->events[i];
    return live;
}

static unsigned saved_count(void) { return saved->head.used / (unsigned)sizeof(struct gm_event); }

/* Where the saved events have an older allocation of the same address, which was taken for alive. */
static unsigned find_same(const struct gm_event *event) {
    unsigned at = 0;
    while (at < saved_count() && (saved->events[at].address != event->address ||
                                  object_of(saved->events[at].action) != object_of(event->action)))
        at++;
    return at;
}

/* Events of a chunk have rising numbers. */
static void sort_saved(void) {
    for (unsigned i = 1; i < saved_count(); i++) {
        struct gm_event moved = saved->events[i];
        unsigned at = i;
        for (; at && moved.seq < saved->events[at - 1].seq; at--)
            saved->events[at] = saved->events[at - 1];
        saved->events[at] = moved;
    }
}

/* Adds survivors as long as there is room, and writes the chunk: the payload before the count that makes it valid.
 * Returns how many it added. */
static unsigned save(const struct gm_event *events, unsigned number) {
    unsigned added = 0;
    if (saved_chunk < 0)
        return 0;
    for (; added < number; added++) {
        unsigned at = find_same(&events[added]);
        if (at == EVENTS)
            break;
        if (at == saved_count())
            saved->head.used += (uint32_t)sizeof(struct gm_event);
        saved->events[at] = events[added];
    }
    sort_saved();
    if (added) {
        put_in_chunk(saved_chunk, saved->events, saved->head.used, sizeof saved->head);
        put_in_chunk(saved_chunk, &saved->head, sizeof saved->head, 0);
    }
    return added;
}

/* Makes the old chunk the one of survivors. */
static void begin_saved(int chunk, const struct gm_event *events, unsigned number, uint64_t now_ns) {
    if (saved_chunk >= 0)
        chunks[saved_chunk] = (struct chunk){now_ns, LEFT};
    saved_chunk = chunk;
    chunks[chunk].use = IN_USE;
    saved->head = (struct gm_trace_chunk){
        .magic = GM_TRACE_CHUNK_MAGIC, .type = GM_CHUNK_EVENTS, .thread = 0, .bytes = GM_RING_CHUNK};
    put_in_chunk(chunk, &saved->head, sizeof saved->head, 0);
    save(events, number);
}

/* Moves the survivors out of the chunk. False: the chunk now holds survivors itself. */
static bool empty_chunk(int chunk, uint64_t now_ns) {
    unsigned survivors = read_survivors(chunk), moved = save(old->events, survivors);
    if (survivors > moved) {
        begin_saved(chunk, old->events + moved, survivors - moved, now_ns);
        return false;
    }
    const struct gm_trace_chunk none = {.magic = GM_TRACE_CHUNK_MAGIC, .type = GM_CHUNK_EVENTS, .bytes = GM_RING_CHUNK};
    put_in_chunk(chunk, &none, sizeof none, 0);
    return true;
}

/* ---- chunks */

static bool may_be_used_again(const struct chunk *chunk, uint64_t now_ns) {
    if (chunk->use != LEFT)
        return false;
    return ring_bytes ? (uint64_t)(count + 1) * GM_RING_CHUNK > ring_bytes : chunk->left_ns + ring_ns < now_ns;
}

/* The first chunk from the hand on that may be used again, -1: none. */
static int find_old(uint64_t now_ns) {
    for (unsigned i = 0; i < count; i++) {
        unsigned at = (hand + i) % count;
        if (may_be_used_again(&chunks[at], now_ns))
            return (int)at;
    }
    return -1;
}

/* Each turn fills at least one chunk with survivors, so it ends when all chunks hold them; the ring then grows. */
static int take_chunk(uint64_t now_ns) {
    for (unsigned turn = 0; turn <= count; turn++) {
        int chunk = find_old(now_ns);
        if (chunk < 0)
            break;
        hand = ((unsigned)chunk + 1) % count;
        if (empty_chunk(chunk, now_ns))
            return chunk;
    }
    return count < MOST_CHUNKS ? (int)count++ : -1;
}

int gm_ring_take(uint64_t now_ns, bool kept) {
    if (!chunks || !old || !saved)
        return -1;
    gm_spin_lock(&lock);
    int chunk = gm_trace_file_holds(file) ? take_chunk(now_ns) : -1;
    if (chunk >= 0)
        chunks[chunk].use = kept ? KEPT : IN_USE;
    gm_spin_unlock(&lock);
    return chunk;
}

void gm_ring_leave(int chunk, uint64_t now_ns) {
    gm_spin_lock(&lock);
    if (chunks && (unsigned)chunk < count && chunks[chunk].use == IN_USE)
        chunks[chunk] = (struct chunk){now_ns, LEFT};
    gm_spin_unlock(&lock);
}
