/* The binary trace: threads write events into memory of their own; what is complete there goes to the file at every
 * flush interval and when the memory is full.
 *
 * Nothing of the file is mapped. A page of a mapped file is gone when somebody cuts the file or the disk fails, and the
 * next store would end the program by a bus error; a write reports an error instead. A thread that needs room raises
 * the file's end by one atomic addition: it owns the chunk from there on. A chunk's payload is written before the count
 * that makes it valid, so whatever ends the process, the file is true up to the last flush. Between two chunks a thread
 * takes neither lock nor call. */
#include "shim/base/file.h"
#include "shim/base/room.h"
#include "shim/trace/parts.h"

#include <errno.h>
#include <string.h>

#define FIRST_CHUNK 4096u /* a thousand threads of one event each cost 4 MB, not 64 */
#define GROWTH      4u
#define MOST_CHUNK  (64u * 1024u)

/* A chunk on its way to the file. */
struct place {
    struct place *next; /* of all that were ever made */
    int taken;          /* by a thread, or for records */
    gm_spin writing;    /* held by whoever writes it to the file, and by the owner where it begins anew */
    uint32_t written;   /* payload bytes that are in the file */
    uint32_t cuts;      /* of the file when they were written */
    uint64_t offset;    /* of the chunk in the file */
    uint64_t flushed_ns;
    struct gm_trace_chunk chunk; /* its `used` is in the file alone */
    uint32_t used;               /* payload bytes; raised after each event or record is complete */
    _Alignas(struct gm_event) unsigned char payload[MOST_CHUNK - sizeof(struct gm_trace_chunk)];
};

/* One thread's place, or the records'. */
struct cursor {
    uint32_t generation; /* of the process and trace that `place` belongs to */
    uint32_t left;       /* payload bytes free */
    unsigned char *next; /* where they begin */
    struct place *place;
    uint32_t bytes; /* of the latest chunk; 0 before the first */
};

_Static_assert(sizeof(struct cursor) <= GM_ROOM_SITES - GM_ROOM_TRACE, "fits");

static struct cursor records;
static gm_spin records_lock;

static struct place *places;
static struct gm_trace_file *file;
static struct gm_trace_header head;
static gm_spin head_lock; /* of the header in the file */
static uint64_t start_ns, flush_ns;
static uint64_t end;    /* file offset behind the last chunk taken */
static uint64_t events; /* in the file */
static uint64_t dropped;
static uint32_t cuts;      /* times that the file was found without a header */
static int told, told_cut; /* said once */

static void drop(uint64_t count) { __atomic_fetch_add(&dropped, count, __ATOMIC_RELAXED); }

/* A definition counts as one. */
static uint64_t events_in(const struct place *place, uint32_t bytes) {
    return place->chunk.type == GM_CHUNK_EVENTS ? bytes / sizeof(struct gm_event) : bytes != 0;
}

static void say_cut(void) {
    gm_log_once(&told_cut, GM_LOG_ERROR, "trace '%s' was cut by another program: events are lost", file->name);
}

/* 0 or an errno value. */
static int put(const void *data, size_t bytes, uint64_t offset) {
    for (size_t done = 0; done < bytes;) {
        ssize_t written = gm_safe_pwrite(file->fd, (const char *)data + done, bytes - done, offset + done);
        if (written <= 0)
            return written < 0 ? errno : ENOSPC;
        done += (size_t)written;
    }
    return 0;
}

/* ---- the file as a whole */

static int write_head(void) {
    head.dropped = __atomic_load_n(&dropped, __ATOMIC_RELAXED);
    int error = put("", 1, GM_TRACE_HEADER - 1); /* the page is whole */
    return error ? error : put(&head, sizeof head, 0);
}

/* Somebody cut the file: what it held is lost, and without its header the rest could not be read. */
static void mend(void) {
    char magic[sizeof head.magic];
    gm_spin_lock(&head_lock);
    bool there =
        gm_pread(file->fd, magic, sizeof magic, 0) == (ssize_t)sizeof magic && !memcmp(magic, head.magic, sizeof magic);
    if (!there) {
        drop(__atomic_exchange_n(&events, 0, __ATOMIC_RELAXED));
        __atomic_add_fetch(&cuts, 1, __ATOMIC_RELAXED);
        write_head();
    }
    gm_spin_unlock(&head_lock);
    if (!there)
        say_cut();
}

/* ---- a chunk; the place's lock is held */

/* Payload bytes of the chunk that are in the file. After somebody cut it there is none: what is still in memory is
 * written again. */
static uint32_t still_there(struct place *place) {
    struct gm_trace_chunk chunk;
    if (!place->written || (gm_pread(file->fd, &chunk, sizeof chunk, place->offset) == (ssize_t)sizeof chunk &&
                            chunk.magic == GM_TRACE_CHUNK_MAGIC && chunk.used == place->written))
        return place->written;
    say_cut();
    mend();
    uint64_t *counted = place->cuts != __atomic_load_n(&cuts, __ATOMIC_RELAXED) ? &dropped : &events;
    __atomic_fetch_sub(counted, events_in(place, place->written), __ATOMIC_RELAXED);
    place->written = 0;
    return 0;
}

/* False: what is new stays where it is. */
static bool write_out(struct place *place) {
    uint32_t used = __atomic_load_n(&place->used, __ATOMIC_ACQUIRE), from = 0;
    if (used == place->written)
        return true;
    int error = gm_trace_file_holds(file) ? 0 : EBADF;
    if (!error) {
        from = still_there(place);
        error = put(place->payload + from, used - from, place->offset + sizeof place->chunk + from);
    }
    if (!error) {
        struct gm_trace_chunk chunk = place->chunk;
        chunk.used = used;
        error = put(&chunk, sizeof chunk, place->offset);
    }
    if (error) {
        gm_log_once(&told, GM_LOG_ERROR, "trace '%s' loses events: %s", file->name, gm_errno_text(error));
        return false;
    }
    __atomic_fetch_add(&events, events_in(place, used - from), __ATOMIC_RELAXED);
    place->cuts = __atomic_load_n(&cuts, __ATOMIC_RELAXED);
    place->written = used;
    return true;
}

/* Gives up what could not be written. */
static void rewind_place(struct place *place) {
    drop(events_in(place, place->used - place->written));
    __atomic_store_n(&place->used, place->written, __ATOMIC_RELEASE);
}

static struct place *take_place(void) {
    struct place *place = __atomic_load_n(&places, __ATOMIC_ACQUIRE);
    for (; place; place = place->next)
        if (!__atomic_load_n(&place->taken, __ATOMIC_RELAXED) &&
            !__atomic_exchange_n(&place->taken, 1, __ATOMIC_ACQUIRE))
            return place;
    place = gm_pages(sizeof *place);
    if (!place)
        return NULL;
    place->taken = 1;
    place->next = __atomic_load_n(&places, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&places, &place->next, place, true, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
        ;
    return place;
}

static uint32_t room_of(const struct place *place) {
    return place->chunk.bytes - (uint32_t)sizeof place->chunk - place->used;
}

/* Behind what the place holds. */
static void go_on(struct cursor *c) {
    c->next = c->place->payload + c->place->used;
    c->left = room_of(c->place);
}

/* The cursor's place begins a new chunk, behind all others; its lock is held. */
static void begin_chunk(struct cursor *c, enum gm_chunk_type type, size_t need) {
    struct place *place = c->place;
    uint32_t bytes = c->bytes ? c->bytes * GROWTH : FIRST_CHUNK;
    while (bytes < need + sizeof place->chunk)
        bytes += FIRST_CHUNK;
    c->bytes = bytes < MOST_CHUNK ? bytes : MOST_CHUNK;
    place->written = 0;
    __atomic_store_n(&place->used, 0, __ATOMIC_RELAXED);
    place->chunk = (struct gm_trace_chunk){
        .magic = GM_TRACE_CHUNK_MAGIC, .type = (uint16_t)type, .thread = gm_thread_id(), .bytes = c->bytes};
    place->offset = __atomic_fetch_add(&end, c->bytes, __ATOMIC_RELAXED);
}

/* Makes room for `need` bytes; what the disk does not take is dropped. False: there is no memory. */
static bool make_room(struct cursor *c, enum gm_chunk_type type, size_t need) {
    if (c->generation != *gm_trace_generation) {
        c->generation = *gm_trace_generation;
        c->place = NULL;
        c->bytes = 0;
    }
    bool fresh = !c->place;
    if (fresh && !(c->place = take_place()))
        return false;
    struct place *place = c->place;
    gm_spin_lock(&place->writing);
    if (!fresh && !write_out(place))
        rewind_place(place);
    if (fresh || room_of(place) < need)
        begin_chunk(c, type, need);
    go_on(c);
    gm_spin_unlock(&place->writing);
    return true;
}

static void let_go(struct cursor *c) {
    struct place *place = c->place;
    c->place = NULL;
    c->left = 0;
    if (!place || c->generation != *gm_trace_generation)
        return;
    gm_spin_lock(&place->writing);
    if (!write_out(place))
        rewind_place(place);
    gm_spin_unlock(&place->writing);
    __atomic_store_n(&place->taken, 0, __ATOMIC_RELEASE);
}

static void thread_ends(void *cursor) { let_go(cursor); }

static GM_APART bool make_room_for_event(struct cursor *c) {
    return c && make_room(c, GM_CHUNK_EVENTS, sizeof(struct gm_event));
}

/* Without a thread that does it. */
static GM_APART void flush_by_hand(struct place *place, uint64_t now) {
    if (now - place->flushed_ns < flush_ns)
        return;
    place->flushed_ns = now;
    gm_spin_lock(&place->writing);
    write_out(place);
    gm_spin_unlock(&place->writing);
}

static inline void raise_used(struct cursor *c, uint32_t bytes) {
    c->next += bytes;
    c->left -= bytes;
    __atomic_store_n(&c->place->used, c->place->used + bytes, __ATOMIC_RELEASE);
}

void gm_chunks_event(const struct gm_event *event) {
    struct cursor *c = gm_room_part(GM_ROOM_TRACE);
    if (GM_UNLIKELY(!c || c->generation != *gm_trace_generation || c->left < sizeof *event) &&
        !make_room_for_event(c)) {
        drop(1);
        return;
    }
    struct gm_event *slot = (struct gm_event *)c->next;
    *slot = *event;
    slot->time_ns = event->time_ns > start_ns ? event->time_ns - start_ns : 0;
    raise_used(c, sizeof *event);
    if (GM_UNLIKELY(!gm_trace_flushes()))
        flush_by_hand(c->place, event->time_ns);
}

/* Definitions are rare and go out at once, so that the file never holds an event without them. */
void gm_chunks_record(const struct gm_record *record) {
    gm_spin_lock(&records_lock);
    if ((records.generation == *gm_trace_generation && records.left >= record->bytes) ||
        make_room(&records, GM_CHUNK_RECORDS, record->bytes)) {
        struct place *place = records.place;
        memcpy(records.next, record, record->bytes);
        raise_used(&records, record->bytes);
        gm_spin_lock(&place->writing);
        if (!write_out(place)) {
            rewind_place(place);
            go_on(&records);
        }
        gm_spin_unlock(&place->writing);
    } else {
        drop(1);
    }
    gm_spin_unlock(&records_lock);
}

int gm_chunks_open(struct gm_trace_file *opened, const struct gm_trace_header *header, uint64_t interval) {
    file = opened;
    start_ns = header->start_ns;
    gm_room_on_leave(GM_ROOM_TRACE, thread_ends);
    flush_ns = interval;
    head = *header;
    head.header_bytes = GM_TRACE_HEADER;
    memcpy(head.magic, GM_TRACE_MAGIC, sizeof head.magic);
    __atomic_store_n(&end, GM_TRACE_HEADER, __ATOMIC_RELAXED);
    return write_head();
}

void gm_chunks_flush(void) {
    bool mended = false;
    for (struct place *place = __atomic_load_n(&places, __ATOMIC_ACQUIRE); place; place = place->next) {
        if (__atomic_exchange_n(&place->writing.held, 1, __ATOMIC_ACQUIRE))
            continue; /* its owner is at it */
        if (__atomic_load_n(&place->used, __ATOMIC_RELAXED) != place->written) {
            if (!mended && gm_trace_file_holds(file))
                mend();
            mended = true;
            write_out(place);
        }
        gm_spin_unlock(&place->writing);
    }
    gm_spin_lock(&head_lock);
    if (__atomic_load_n(&dropped, __ATOMIC_RELAXED) != head.dropped && gm_trace_file_holds(file))
        write_head();
    gm_spin_unlock(&head_lock);
}

void gm_chunks_finish(void) {
    bool holds = gm_trace_file_holds(file);
    if (holds)
        mend();
    for (struct place *place = __atomic_load_n(&places, __ATOMIC_ACQUIRE); place; place = place->next) {
        gm_spin_lock(&place->writing);
        if (!write_out(place))
            rewind_place(place);
        gm_spin_unlock(&place->writing);
    }
    gm_spin_lock(&head_lock);
    head.finished = 1;
    if (holds)
        write_head();
    gm_spin_unlock(&head_lock);
}

void gm_chunks_forget(void) {
    for (struct place *place = places; place; place = place->next) {
        place->taken = place->writing.held = 0;
        place->written = place->used = 0;
    }
    struct cursor *own = gm_room_part_known(GM_ROOM_TRACE);
    if (own)
        *own = (struct cursor){0};
    records.place = NULL;
    records.left = 0;
    records_lock.held = head_lock.held = 0;
    events = dropped = 0;
    told = told_cut = 0;
}
