/* The binary trace. Each thread writes events into a buffer of its own. The complete part of each buffer is packed and
 * goes to the file at every flush interval, and when the buffer is full. A thread leaves a full buffer to the flusher
 * and goes on with another one. The format is described in event.h.
 *
 * The file is not mapped. If somebody cuts the file or the disk fails, the next store to a mapped page would end the
 * program by a bus error, while a write returns an error. A thread that needs room raises the end of the file by one
 * atomic addition and then owns that chunk. The payload of a chunk is written before the count that makes it valid. So
 * the file is valid up to the last flush, however the process ends. Within a chunk a thread uses neither a lock nor a
 * system call. */
#include "shim/base/file.h"
#include "shim/base/room.h"
#include "shim/trace/pack.h"
#include "shim/trace/parts.h"
#include "shim/trace/ring.h"
#include "shim/trace/writer.h"

#include <errno.h>
#include <string.h>

#define FIRST_CHUNK 4096u /* a thousand threads of one event each cost 4 MB instead of 64 MB */
#define GROWTH      4u
#define MOST_CHUNK  (64u * 1024u)
#define MOST_EVENTS 4096u /* of one buffer */
#define MOST_HANDED 64u   /* full buffers that wait for the flusher; above it their threads write them themselves */

/* A buffer: the part of a chunk that is in memory, and events that wait to be packed into it. Definitions, and the
 * events of a ring, are not packed: their owner writes them into `payload` itself. */
struct buffer {
    struct buffer *next; /* list of all that were ever created */
    int taken;           /* in use by a thread or for the records */
    int handed;          /* its thread left it to the flusher, which releases it */
    gm_spin writing;     /* held by the thread that writes the buffer to the file, and by the owner when it begins a new
                            chunk */
    uint32_t generation; /* the process and trace that the content belongs to */
    uint32_t filled;     /* bytes that the owner completed; raised after each event or record is complete */
    uint32_t packed;     /* of these, bytes of events that are packed */
    uint32_t used;       /* payload bytes */
    uint32_t written;    /* of these, bytes that are in the file */
    uint32_t count, count_written; /* events or definitions that these bytes hold */
    uint32_t cuts;                 /* value of `cuts` when they were written */
    uint64_t offset;               /* of the chunk in the file, 0 = it has no place there yet */
    int ring;                      /* number of the chunk in the ring, -1 = none */
    uint64_t flushed_ns;
    struct gm_trace_chunk chunk; /* `used` is valid only in the file; `bytes` are of the latest chunk with a place */
    struct gm_packing packing;
    _Alignas(struct gm_event) unsigned char payload[MOST_CHUNK - sizeof(struct gm_trace_chunk)];
    struct gm_event events[MOST_EVENTS];
};

/* The write position of one thread, or of the records. */
struct cursor {
    uint32_t generation; /* generation of the process and trace that `buffer` belongs to */
    uint32_t remaining;  /* free payload bytes */
    unsigned char *next; /* the first free byte */
    struct buffer *buffer;
};

GM_ROOM_FITS(struct cursor, trace);

static struct cursor records;
GM_LOCK(records_lock);

static struct buffer *buffers;
static uint32_t handed; /* number of buffers that wait for the flusher */
static struct gm_trace_file *file;
static struct gm_trace_header head;
GM_LOCK(head_lock); /* protects the header in the file */
static uint64_t start_ns, flush_ns;
static uint64_t end;    /* file offset behind the last chunk */
static uint64_t events; /* in the file */
static uint64_t dropped;
static uint32_t cuts;                                  /* number of times the file was found without a header */
static bool reserve_used;                              /* events take the room of definitions, too */
static int reported_loss, reported_cut, reported_full; /* messages that are logged once */

static void drop(uint64_t count) { __atomic_fetch_add(&dropped, count, __ATOMIC_RELAXED); }

static void report_cut(void) {
    gm_log_once(&reported_cut, GM_LOG_ERROR, "trace '%s' was cut by another program: events are lost", file->name);
}

/* 0 or an errno value. */
static int put_in_file(const void *data, size_t bytes, uint64_t offset) {
    for (size_t done = 0; done < bytes;) {
        ssize_t written = gm_safe_pwrite(gm_trace_fd(file), (const char *)data + done, bytes - done, offset + done);
        if (written <= 0)
            return written < 0 ? errno : ENOSPC;
        done += (size_t)written;
    }
    return 0;
}

/* ---- the file as a whole */

static int write_head(void) {
    head.dropped = __atomic_load_n(&dropped, __ATOMIC_RELAXED);
    int error = put_in_file("", 1, GM_TRACE_HEADER - 1); /* makes the page complete */
    return error ? error : put_in_file(&head, sizeof head, 0);
}

/* Writes the header again when somebody cut the file. The content is lost, but without a header the rest could not be
 * read. */
static void restore_header(void) {
    char magic[sizeof head.magic];
    gm_spin_lock(&head_lock);
    bool intact = gm_pread(gm_trace_fd(file), magic, sizeof magic, 0) == (ssize_t)sizeof magic &&
                  !memcmp(magic, head.magic, sizeof magic);
    if (!intact) {
        drop(__atomic_exchange_n(&events, 0, __ATOMIC_RELAXED));
        __atomic_add_fetch(&cuts, 1, __ATOMIC_RELAXED);
        write_head();
    }
    gm_spin_unlock(&head_lock);
    if (!intact)
        report_cut();
}

/* ---- a chunk; the caller holds the buffer's lock */

/* The last eighth of the file is for definitions, so that no event lacks its own. */
static uint64_t most_for(enum gm_chunk_type type) {
    bool all = type == GM_CHUNK_RECORDS || __atomic_load_n(&reserve_used, __ATOMIC_RELAXED);
    return !head.limit ? UINT64_MAX : all ? head.limit : head.limit - head.limit / 8;
}

/* Moves `end` behind a new chunk. False: the file would be too large. */
static bool reserve_chunk(enum gm_chunk_type type, uint32_t bytes, uint64_t *offset) {
    uint64_t most = most_for(type);
    uint64_t now = __atomic_load_n(&end, __ATOMIC_RELAXED);
    do {
        if (now + bytes > most) {
            gm_log_once(&reported_full, GM_LOG_WARN, "trace '%s' has reached GPUMEM_TRACE_LIMIT: later events are lost",
                        file->name);
            return false;
        }
    } while (!__atomic_compare_exchange_n(&end, &now, now + bytes, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    *offset = now;
    return true;
}

static void begin_payload(struct buffer *buffer) {
    buffer->used = buffer->written = buffer->count = buffer->count_written = 0;
    buffer->packing = (struct gm_packing){0};
}

/* Payload bytes of the chunk that are in the file. There are none after somebody cut it; then everything still in
 * memory is written again. */
static uint32_t bytes_in_file(struct buffer *buffer) {
    struct gm_trace_chunk chunk;
    if (!buffer->written ||
        (gm_pread(gm_trace_fd(file), &chunk, sizeof chunk, buffer->offset) == (ssize_t)sizeof chunk &&
         chunk.magic == GM_TRACE_CHUNK_MAGIC && chunk.used == buffer->written))
        return buffer->written;
    report_cut();
    restore_header();
    uint64_t *counted = buffer->cuts != __atomic_load_n(&cuts, __ATOMIC_RELAXED) ? &dropped : &events;
    __atomic_fetch_sub(counted, buffer->count_written, __ATOMIC_RELAXED);
    buffer->written = buffer->count_written = 0;
    return 0;
}

static uint32_t room_of(const struct buffer *buffer) {
    return (buffer->offset ? buffer->chunk.bytes : MOST_CHUNK) - (uint32_t)sizeof buffer->chunk - buffer->used;
}

static bool packs(const struct buffer *buffer) { return buffer->chunk.type == GM_CHUNK_PACKED; }

/* Adds what the owner completed to the payload, as far as there is room. */
static void collect_filled(struct buffer *buffer, uint32_t filled) {
    if (!packs(buffer)) {
        bool is_event = buffer->chunk.type == GM_CHUNK_EVENTS;
        buffer->count +=
            is_event ? (filled - buffer->used) / (uint32_t)sizeof(struct gm_event) : filled != buffer->used;
        buffer->used = filled;
        return;
    }
    uint32_t packed = buffer->packed;
    for (; packed < filled && room_of(buffer) >= GM_PACKED_MOST; packed += (uint32_t)sizeof(struct gm_event)) {
        const struct gm_event *event = &buffer->events[packed / sizeof *event];
        buffer->used = (uint32_t)(gm_pack(&buffer->packing, buffer->payload + buffer->used, event) - buffer->payload);
        buffer->count++;
    }
    __atomic_store_n(&buffer->packed, packed, __ATOMIC_RELAXED);
}

/* Size of a chunk that has just this payload. */
static uint32_t whole_pages(size_t payload) {
    size_t bytes = sizeof(struct gm_trace_chunk) + payload;
    return (uint32_t)((bytes + GM_TRACE_HEADER - 1) / GM_TRACE_HEADER * GM_TRACE_HEADER);
}

/* Size of the next chunk, which has room for `payload` bytes at least. */
static uint32_t next_size(const struct buffer *buffer, size_t payload) {
    uint32_t bytes = buffer->chunk.bytes ? buffer->chunk.bytes * GROWTH : FIRST_CHUNK, least = whole_pages(payload);
    bytes = bytes < MOST_CHUNK ? bytes : MOST_CHUNK;
    return bytes > least ? bytes : least;
}

/* Finds a place in the file for the packed events. */
static bool place(struct buffer *buffer) {
    uint32_t bytes = next_size(buffer, buffer->used);
    if (!reserve_chunk(GM_CHUNK_PACKED, bytes, &buffer->offset))
        return false;
    buffer->chunk.bytes = bytes;
    return true;
}

/* The last chunk of a buffer keeps what it uses. The end of the file goes back where nobody took a place behind it;
 * else there is a hole. */
static void shrink(struct buffer *buffer) {
    uint32_t bytes = whole_pages(buffer->used);
    struct gm_trace_chunk chunk = buffer->chunk;
    chunk.used = buffer->used;
    chunk.bytes = bytes;
    uint64_t behind = buffer->offset + buffer->chunk.bytes;
    if (bytes < buffer->chunk.bytes && !put_in_file(&chunk, sizeof chunk, buffer->offset))
        __atomic_compare_exchange_n(&end, &behind, buffer->offset + bytes, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

/* 0 or an errno value. */
static int write_payload(struct buffer *buffer) {
    if (!gm_trace_file_holds(file))
        return EBADF;
    uint32_t from = bytes_in_file(buffer);
    int error = put_in_file(buffer->payload + from, buffer->used - from, buffer->offset + sizeof buffer->chunk + from);
    struct gm_trace_chunk chunk = buffer->chunk;
    chunk.used = buffer->used;
    if (!error)
        error = put_in_file(&chunk, sizeof chunk, buffer->offset);
    if (error)
        return error;
    __atomic_fetch_add(&events, buffer->count - buffer->count_written, __ATOMIC_RELAXED);
    buffer->cuts = __atomic_load_n(&cuts, __ATOMIC_RELAXED);
    buffer->written = buffer->used;
    buffer->count_written = buffer->count;
    return 0;
}

/* False: the new events stay in the buffer. */
static bool write_out(struct buffer *buffer) {
    uint32_t filled = __atomic_load_n(&buffer->filled, __ATOMIC_ACQUIRE);
    for (;;) {
        collect_filled(buffer, filled);
        if (buffer->used != buffer->written) {
            if (!buffer->offset && !place(buffer))
                return false;
            int error = write_payload(buffer);
            if (error) {
                gm_log_once(&reported_loss, GM_LOG_ERROR, "trace '%s' loses events: %s", file->name,
                            gm_errno_text(error));
                return false;
            }
        }
        if (!packs(buffer) || buffer->packed == filled)
            return true;
        buffer->offset = 0;
        begin_payload(buffer);
    }
}

/* Drops what could not be written. A packed chunk that has something in the file ends there. */
static void rewind_buffer(struct buffer *buffer) {
    uint32_t filled = __atomic_load_n(&buffer->filled, __ATOMIC_RELAXED), rest = buffer->written;
    drop(buffer->count - buffer->count_written);
    if (packs(buffer)) {
        drop((filled - buffer->packed) / sizeof(struct gm_event));
        rest = buffer->packed = filled;
        if (buffer->written)
            buffer->offset = 0;
        begin_payload(buffer);
    } else {
        buffer->used = rest;
        buffer->count = buffer->count_written;
    }
    __atomic_store_n(&buffer->filled, rest, __ATOMIC_RELEASE);
}

static bool waits(const struct buffer *buffer) {
    uint32_t filled = __atomic_load_n(&buffer->filled, __ATOMIC_RELAXED);
    return filled != (packs(buffer) ? buffer->packed : buffer->used) || buffer->used != buffer->written;
}

/* A thread that was late may have written for an earlier trace of the process. */
static bool is_current(const struct buffer *buffer) {
    return __atomic_load_n(&buffer->generation, __ATOMIC_ACQUIRE) == gm_trace_generation_now();
}

static struct buffer *take_buffer(void) {
    struct buffer *buffer = __atomic_load_n(&buffers, __ATOMIC_ACQUIRE);
    for (; buffer; buffer = buffer->next)
        if (!__atomic_load_n(&buffer->taken, __ATOMIC_RELAXED) &&
            !__atomic_exchange_n(&buffer->taken, 1, __ATOMIC_ACQUIRE))
            return buffer;
    buffer = gm_pages(sizeof *buffer);
    if (!buffer)
        return NULL;
    buffer->taken = 1;
    buffer->next = __atomic_load_n(&buffers, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&buffers, &buffer->next, buffer, true, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
        ;
    return buffer;
}

/* Sets the cursor behind what the owner completed. */
static void set_cursor(struct cursor *c) {
    struct buffer *buffer = c->buffer;
    if (packs(buffer)) {
        c->next = (unsigned char *)buffer->events + buffer->filled;
        c->remaining = (uint32_t)sizeof buffer->events - buffer->filled;
    } else {
        c->next = buffer->payload + buffer->used;
        c->remaining = room_of(buffer);
    }
}

static void leave_ring(struct buffer *buffer) {
    if (buffer->ring >= 0)
        gm_ring_leave(buffer->ring, gm_now_ns());
    buffer->ring = -1;
}

/* Takes a chunk of the ring. The old one is left first. */
static bool take_from_ring(struct buffer *buffer, enum gm_chunk_type type) {
    leave_ring(buffer);
    int chunk = gm_ring_take(gm_now_ns(), type == GM_CHUNK_RECORDS);
    if (chunk < 0)
        return false;
    buffer->ring = type == GM_CHUNK_RECORDS ? -1 : chunk;
    buffer->offset = gm_ring_offset(chunk);
    return true;
}

/* Makes the buffer hold nothing, for a chunk of this type. */
static void clear_buffer(struct buffer *buffer, enum gm_chunk_type type, uint32_t generation) {
    begin_payload(buffer);
    buffer->packed = 0;
    __atomic_store_n(&buffer->filled, 0, __ATOMIC_RELAXED);
    buffer->offset = 0;
    buffer->ring = -1;
    buffer->chunk =
        (struct gm_trace_chunk){.magic = GM_TRACE_CHUNK_MAGIC, .type = (uint16_t)type, .thread = gm_thread_id()};
    __atomic_store_n(&buffer->generation, generation, __ATOMIC_RELEASE);
}

/* Begins a new chunk that is not packed, at the end of the file or in the ring. False: the file has no room; the old
 * chunk remains. */
static bool begin_chunk(struct buffer *buffer, size_t need) {
    enum gm_chunk_type type = buffer->chunk.type;
    uint32_t bytes = gm_ring_on() ? GM_RING_CHUNK : next_size(buffer, need);
    if (gm_ring_on() ? !take_from_ring(buffer, type) : !reserve_chunk(type, bytes, &buffer->offset))
        return false;
    buffer->chunk.bytes = bytes;
    begin_payload(buffer);
    __atomic_store_n(&buffer->filled, 0, __ATOMIC_RELAXED);
    return true;
}

/* Makes room for `need` bytes. The caller holds the buffer's lock, and all that was in it is written or dropped. */
static bool empty_buffer(struct buffer *buffer, size_t need) {
    if (!packs(buffer))
        return (buffer->offset && room_of(buffer) >= need) || begin_chunk(buffer, need);
    __atomic_store_n(&buffer->packed, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&buffer->filled, 0, __ATOMIC_RELAXED);
    return true;
}

/* Leaves a full buffer of events to the flusher, which packs the rest, and takes another one. */
static bool hand_over(struct cursor *c) {
    struct buffer *full = c->buffer, *next;
    uint32_t packed = __atomic_load_n(&full->packed, __ATOMIC_RELAXED);
    if (!packs(full) || full->filled == packed || !gm_trace_flushes() ||
        __atomic_load_n(&handed, __ATOMIC_RELAXED) >= MOST_HANDED || !(next = take_buffer()))
        return false;
    gm_spin_lock(&next->writing);
    clear_buffer(next, GM_CHUNK_PACKED, c->generation);
    gm_spin_unlock(&next->writing);
    c->buffer = next;
    set_cursor(c);
    __atomic_add_fetch(&handed, 1, __ATOMIC_RELAXED);
    __atomic_store_n(&full->handed, 1, __ATOMIC_RELEASE);
    gm_trace_wake(GM_TRACE_WAKE_FULL);
    return true;
}

static void write_or_drop(struct buffer *buffer) {
    if (!write_out(buffer))
        rewind_buffer(buffer);
}

/* Makes room for `need` bytes, and drops what the disk does not take. False: there is no memory or no room. */
static bool make_buffer_room(struct cursor *c, enum gm_chunk_type type, size_t need) {
    if (c->generation != gm_trace_generation_now()) {
        if (c->buffer)
            __atomic_store_n(&c->buffer->taken, 0, __ATOMIC_RELEASE);
        c->generation = gm_trace_generation_now();
        c->buffer = NULL;
    }
    bool is_new = !c->buffer;
    if (is_new && !(c->buffer = take_buffer()))
        return false;
    if (!is_new && hand_over(c))
        return true;
    struct buffer *buffer = c->buffer;
    gm_spin_lock(&buffer->writing);
    if (is_new)
        clear_buffer(buffer, type, c->generation);
    else
        write_or_drop(buffer);
    bool has_room = empty_buffer(buffer, need);
    if (has_room)
        set_cursor(c);
    gm_spin_unlock(&buffer->writing);
    if (!has_room && is_new) {
        c->buffer = NULL;
        __atomic_store_n(&buffer->taken, 0, __ATOMIC_RELEASE);
    }
    return has_room;
}

static void release_buffer(struct cursor *c) {
    struct buffer *buffer = c->buffer;
    c->buffer = NULL;
    c->remaining = 0;
    if (!buffer)
        return;
    gm_spin_lock(&buffer->writing);
    if (c->generation == gm_trace_generation_now()) {
        write_or_drop(buffer);
        leave_ring(buffer);
    }
    gm_spin_unlock(&buffer->writing);
    __atomic_store_n(&buffer->taken, 0, __ATOMIC_RELEASE);
}

static void writer_ends(void *cursor) {
    gm_trace_hold();
    release_buffer(cursor);
    gm_trace_leave();
}

static GM_APART bool make_room_for_event(struct cursor *c) {
    return c && make_buffer_room(c, gm_ring_on() ? GM_CHUNK_EVENTS : GM_CHUNK_PACKED, sizeof(struct gm_event));
}

/* Flushes after the interval when there is no flusher thread. */
static GM_APART void flush_by_hand(struct buffer *buffer, uint64_t now) {
    if (now - buffer->flushed_ns < flush_ns)
        return;
    buffer->flushed_ns = now;
    gm_spin_lock(&buffer->writing);
    write_out(buffer);
    gm_spin_unlock(&buffer->writing);
}

static inline void raise_used(struct cursor *c, uint32_t bytes) {
    c->next += bytes;
    c->remaining -= bytes;
    uint32_t filled = __atomic_load_n(&c->buffer->filled, __ATOMIC_RELAXED);
    __atomic_store_n(&c->buffer->filled, filled + bytes, __ATOMIC_RELEASE);
}

static inline bool has_place(const struct cursor *c) {
    return c && c->generation == gm_trace_generation_now() && c->remaining >= sizeof(struct gm_event);
}

static inline void add_placed(struct cursor *c, struct gm_event *place) {
    /* An event that comes late reads the start of the next trace. Nobody writes it out. */
    gm_trace_make_relative(place, __atomic_load_n(&start_ns, __ATOMIC_RELAXED));
    raise_used(c, sizeof *place);
}

/* The buffer is the thread's own. If the trace ends meanwhile, the event stays in a buffer that nobody writes out. */
struct gm_event *gm_chunks_place(void) {
    struct cursor *c = gm_room_part_known(GM_ROOM_TRACE);
    return GM_LIKELY(has_place(c)) ? (struct gm_event *)c->next : NULL;
}

void gm_chunks_add(struct gm_event *place) { add_placed((struct cursor *)(gm_room + GM_ROOM_TRACE), place); }

/* Returns the cursor, NULL: the event is dropped. */
static struct cursor *append(const struct gm_event *event) {
    struct cursor *c = gm_room_part(GM_ROOM_TRACE);
    if (GM_UNLIKELY(!has_place(c)) && !make_room_for_event(c)) {
        drop(1);
        return NULL;
    }
    struct gm_event *place = (struct gm_event *)c->next;
    *place = *event;
    add_placed(c, place);
    return c;
}

static void add_event(const struct gm_event *event) {
    struct cursor *c = append(event);
    if (GM_UNLIKELY(!gm_trace_flushes()) && c)
        flush_by_hand(c->buffer, event->time_ns);
}

/* The caller flushes behind the last row. */
static void add_chunk_row(struct gm_event *row) {
    row->seq = gm_trace_sequence();
    append(row);
}

/* Definitions are rare and written at once, so that the file never holds an event without its definitions. */
static void add_record(const struct gm_record *record) {
    gm_spin_lock(&records_lock);
    if ((records.generation == gm_trace_generation_now() && records.remaining >= record->bytes) ||
        make_buffer_room(&records, GM_CHUNK_RECORDS, record->bytes)) {
        struct buffer *buffer = records.buffer;
        memcpy(records.next, record, record->bytes);
        raise_used(&records, record->bytes);
        gm_spin_lock(&buffer->writing);
        if (!write_out(buffer)) {
            rewind_buffer(buffer);
            set_cursor(&records);
        }
        gm_spin_unlock(&buffer->writing);
    } else {
        drop(1);
    }
    gm_spin_unlock(&records_lock);
}

static bool have_room(uint64_t count) {
    uint64_t per_chunk = (MOST_CHUNK - sizeof(struct gm_trace_chunk)) / GM_PACKED_MOST;
    uint64_t bytes = (count + per_chunk - 1) / per_chunk * MOST_CHUNK;
    return __atomic_load_n(&end, __ATOMIC_RELAXED) + bytes <= most_for(GM_CHUNK_PACKED);
}

static void use_reserve(void) { __atomic_store_n(&reserve_used, true, __ATOMIC_RELAXED); }

static void reset_counts(void) {
    events = dropped = 0;
    reserve_used = false;
    reported_loss = reported_cut = reported_full = 0;
}

static int open_chunks(struct gm_trace_file *opened, const struct gm_trace_header *header, uint64_t interval) {
    file = opened;
    if (gm_ring_on())
        gm_ring_open(file);
    __atomic_store_n(&start_ns, header->start_ns, __ATOMIC_RELAXED);
    gm_room_on_leave(GM_ROOM_TRACE, writer_ends);
    flush_ns = interval;
    head = *header;
    head.header_bytes = GM_TRACE_HEADER;
    memcpy(head.magic, GM_TRACE_MAGIC, sizeof head.magic);
    __atomic_store_n(&end, GM_TRACE_HEADER, __ATOMIC_RELAXED);
    reset_counts();
    return write_head();
}

/* Under the buffer's lock, which it releases. */
static void flush_buffer(struct buffer *buffer, bool ends, bool *checked) {
    bool is_handed = __atomic_load_n(&buffer->handed, __ATOMIC_ACQUIRE);
    if (is_current(buffer) && waits(buffer)) {
        if (!*checked && gm_trace_file_holds(file))
            restore_header();
        *checked = true;
        if (!write_out(buffer) && (is_handed || ends))
            rewind_buffer(buffer);
        else if (is_handed)
            shrink(buffer);
    }
    if (is_handed)
        __atomic_store_n(&buffer->handed, 0, __ATOMIC_RELAXED);
    gm_spin_unlock(&buffer->writing);
    if (is_handed) {
        __atomic_sub_fetch(&handed, 1, __ATOMIC_RELAXED);
        __atomic_store_n(&buffer->taken, 0, __ATOMIC_RELEASE);
    }
}

/* False: somebody else writes the buffer, and nobody waits for a thread that was interrupted in it. One that was left
 * to the flusher should be in the file before a failed allocation ends the program. */
static bool lock_to_flush(struct buffer *buffer) {
    enum { TURNS = 100, TURN_NS = 100000 };
    if (!__atomic_exchange_n(&buffer->writing.held, 1, __ATOMIC_ACQUIRE))
        return true;
    for (int turn = 0; turn < TURNS && __atomic_load_n(&buffer->handed, __ATOMIC_ACQUIRE); turn++)
        gm_sleep(TURN_NS);
    return false;
}

static void flush(bool all) {
    bool checked = false;
    for (struct buffer *buffer = __atomic_load_n(&buffers, __ATOMIC_ACQUIRE); buffer; buffer = buffer->next)
        if ((all || __atomic_load_n(&buffer->handed, __ATOMIC_ACQUIRE)) && lock_to_flush(buffer))
            flush_buffer(buffer, false, &checked);
    gm_spin_lock(&head_lock);
    if (__atomic_load_n(&dropped, __ATOMIC_RELAXED) != head.dropped && gm_trace_file_holds(file))
        write_head();
    gm_spin_unlock(&head_lock);
}

static void finish_chunks(enum gm_trace_end how) {
    bool holds = gm_trace_file_holds(file), checked = true;
    if (holds)
        restore_header();
    for (struct buffer *buffer = __atomic_load_n(&buffers, __ATOMIC_ACQUIRE); buffer; buffer = buffer->next) {
        gm_spin_lock(&buffer->writing);
        flush_buffer(buffer, true, &checked);
    }
    struct stat st;
    gm_spin_lock(&head_lock);
    head.finished = how;
    head.file_bytes = holds && !gm_fstat(gm_trace_fd(file), &st) ? (uint64_t)st.st_size : 0;
    if (holds)
        write_head();
    gm_spin_unlock(&head_lock);
}

static void forget_buffers(void) {
    for (struct buffer *buffer = buffers; buffer; buffer = buffer->next)
        buffer->taken = buffer->handed = buffer->writing.held = 0;
    struct cursor *own = gm_room_part_known(GM_ROOM_TRACE);
    if (own)
        *own = (struct cursor){0};
    handed = 0;
    records.buffer = NULL;
    records.remaining = 0;
    gm_ring_forget();
    reset_counts();
}

const struct gm_trace_format gm_trace_binary = {
    .open = open_chunks,
    .event = add_event,
    .record = add_record,
    .row = add_chunk_row,
    .have_room = have_room,
    .use_reserve = use_reserve,
    .flush = flush,
    .finish = finish_chunks,
    .forget = forget_buffers,
};
