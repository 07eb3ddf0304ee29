/* The binary trace. Each thread writes events into a buffer of its own. The complete part of each buffer goes to the
 * file at every flush interval, and when the buffer is full. The format is described in event.h.
 *
 * The file is not mapped. If somebody cuts the file or the disk fails, the next store to a mapped page would end the
 * program by a bus error, while a write returns an error. A thread that needs room raises the end of the file by one
 * atomic addition and then owns that chunk. The payload of a chunk is written before the count that makes it valid. So
 * the file is valid up to the last flush, however the process ends. Within a chunk a thread uses neither a lock nor a
 * system call. */
#include "shim/base/file.h"
#include "shim/base/room.h"
#include "shim/trace/parts.h"
#include "shim/trace/ring.h"
#include "shim/trace/writer.h"

#include <errno.h>
#include <string.h>

#define FIRST_CHUNK 4096u /* a thousand threads of one event each cost 4 MB instead of 64 MB */
#define GROWTH      4u
#define MOST_CHUNK  (64u * 1024u)

/* A buffer: the part of a chunk that is in memory. */
struct buffer {
    struct buffer *next; /* list of all that were ever created */
    int taken;           /* in use by a thread or for the records */
    gm_spin writing;     /* held by the thread that writes the buffer to the file, and by the owner when it begins a new
                            chunk */
    uint32_t generation; /* the process and trace that the content belongs to */
    uint32_t written;    /* payload bytes that are in the file */
    uint32_t cuts;       /* value of `cuts` when they were written */
    uint64_t offset;     /* of the chunk in the file */
    int ring;            /* number of the chunk in the ring, -1 = none */
    uint64_t flushed_ns;
    struct gm_trace_chunk chunk; /* its `used` is valid only in the file */
    uint32_t used;               /* payload bytes; raised after each event or record is complete */
    _Alignas(struct gm_event) unsigned char payload[MOST_CHUNK - sizeof(struct gm_trace_chunk)];
};

/* The write position of one thread, or of the records. */
struct cursor {
    uint32_t generation; /* generation of the process and trace that `buffer` belongs to */
    uint32_t remaining;  /* free payload bytes */
    unsigned char *next; /* the first free byte */
    struct buffer *buffer;
    uint32_t bytes; /* bytes of the latest chunk; 0 before the first */
};

_Static_assert(sizeof(struct cursor) <= GM_ROOM_SITES - GM_ROOM_TRACE, "fits");

static struct cursor packed;
static struct gm_event last_packed; /* the one before in its chunk, zeros at the begin */
static struct cursor records;
static gm_spin records_lock;

static struct buffer *buffers;
static struct gm_trace_file *file;
static struct gm_trace_header head;
static gm_spin head_lock; /* protects the header in the file */
static uint64_t start_ns, flush_ns;
static uint64_t end;    /* file offset behind the last chunk */
static uint64_t events; /* in the file */
static uint64_t dropped;
static uint32_t cuts;                                  /* number of times the file was found without a header */
static bool reserve_used;                              /* events take the room of definitions, too */
static int reported_loss, reported_cut, reported_full; /* messages that are logged once */

static void drop(uint64_t count) { __atomic_fetch_add(&dropped, count, __ATOMIC_RELAXED); }

/* Number of events in `bytes` of payload. Definitions count as one, and so do packed events. */
static uint64_t events_in(const struct buffer *buffer, uint32_t bytes) {
    return buffer->chunk.type == GM_CHUNK_EVENTS ? bytes / sizeof(struct gm_event) : bytes != 0;
}

static void report_cut(void) {
    gm_log_once(&reported_cut, GM_LOG_ERROR, "trace '%s' was cut by another program: events are lost", file->name);
}

/* 0 or an errno value. */
static int put(const void *data, size_t bytes, uint64_t offset) {
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
    int error = put("", 1, GM_TRACE_HEADER - 1); /* makes the page complete */
    return error ? error : put(&head, sizeof head, 0);
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
    __atomic_fetch_sub(counted, events_in(buffer, buffer->written), __ATOMIC_RELAXED);
    buffer->written = 0;
    return 0;
}

/* False: the new bytes stay in the buffer. */
static bool write_out(struct buffer *buffer) {
    uint32_t used = __atomic_load_n(&buffer->used, __ATOMIC_ACQUIRE), from = 0;
    if (used == buffer->written)
        return true;
    int error = gm_trace_file_holds(file) ? 0 : EBADF;
    if (!error) {
        from = bytes_in_file(buffer);
        error = put(buffer->payload + from, used - from, buffer->offset + sizeof buffer->chunk + from);
    }
    if (!error) {
        struct gm_trace_chunk chunk = buffer->chunk;
        chunk.used = used;
        error = put(&chunk, sizeof chunk, buffer->offset);
    }
    if (error) {
        gm_log_once(&reported_loss, GM_LOG_ERROR, "trace '%s' loses events: %s", file->name, gm_errno_text(error));
        return false;
    }
    __atomic_fetch_add(&events, events_in(buffer, used - from), __ATOMIC_RELAXED);
    buffer->cuts = __atomic_load_n(&cuts, __ATOMIC_RELAXED);
    buffer->written = used;
    return true;
}

/* Drops what could not be written. */
static void rewind_buffer(struct buffer *buffer) {
    drop(events_in(buffer, __atomic_load_n(&buffer->used, __ATOMIC_RELAXED) - buffer->written));
    __atomic_store_n(&buffer->used, buffer->written, __ATOMIC_RELEASE);
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
    buffer->ring = -1;
    buffer->taken = 1;
    buffer->next = __atomic_load_n(&buffers, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&buffers, &buffer->next, buffer, true, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
        ;
    return buffer;
}

static uint32_t room_of(const struct buffer *buffer) {
    return buffer->chunk.bytes - (uint32_t)sizeof buffer->chunk - buffer->used;
}

/* Sets the cursor behind the used bytes of its buffer. */
static void set_cursor(struct cursor *c) {
    c->next = c->buffer->payload + c->buffer->used;
    c->remaining = room_of(c->buffer);
}

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

/* Begins a new chunk in the cursor's buffer, at the end of the file or in the ring. The caller holds the buffer's lock.
 * False: the file has no room; the old chunk remains. */
static bool begin_chunk(struct cursor *c, enum gm_chunk_type type, size_t need) {
    struct buffer *buffer = c->buffer;
    uint32_t bytes = c->bytes ? c->bytes * GROWTH : FIRST_CHUNK;
    while (bytes < need + sizeof buffer->chunk)
        bytes += FIRST_CHUNK;
    bytes = gm_ring_on() ? GM_RING_CHUNK : bytes < MOST_CHUNK ? bytes : MOST_CHUNK;
    if (gm_ring_on() ? !take_from_ring(buffer, type) : !reserve_chunk(type, bytes, &buffer->offset))
        return false;
    c->bytes = bytes;
    buffer->written = 0;
    __atomic_store_n(&buffer->generation, c->generation, __ATOMIC_RELEASE);
    __atomic_store_n(&buffer->used, 0, __ATOMIC_RELAXED);
    buffer->chunk = (struct gm_trace_chunk){
        .magic = GM_TRACE_CHUNK_MAGIC, .type = (uint16_t)type, .thread = gm_thread_id(), .bytes = c->bytes};
    return true;
}

/* Makes room for `need` bytes, and drops what the disk does not take. False: there is no memory or no room. */
static bool make_room(struct cursor *c, enum gm_chunk_type type, size_t need) {
    if (c->generation != gm_trace_generation_now()) {
        if (c->buffer)
            __atomic_store_n(&c->buffer->taken, 0, __ATOMIC_RELEASE);
        c->generation = gm_trace_generation_now();
        c->buffer = NULL;
        c->bytes = 0;
    }
    bool is_new = !c->buffer;
    if (is_new && !(c->buffer = take_buffer()))
        return false;
    struct buffer *buffer = c->buffer;
    gm_spin_lock(&buffer->writing);
    if (is_new)
        buffer->ring = -1; /* that of an earlier trace of the process */
    if (!is_new && !write_out(buffer))
        rewind_buffer(buffer);
    bool begun = (!is_new && room_of(buffer) >= need) || begin_chunk(c, type, need);
    if (begun)
        set_cursor(c);
    gm_spin_unlock(&buffer->writing);
    if (!begun && is_new) {
        c->buffer = NULL;
        __atomic_store_n(&buffer->taken, 0, __ATOMIC_RELEASE);
    }
    return begun;
}

static void release_buffer(struct cursor *c) {
    struct buffer *buffer = c->buffer;
    c->buffer = NULL;
    c->remaining = 0;
    if (!buffer)
        return;
    gm_spin_lock(&buffer->writing);
    if (c->generation == gm_trace_generation_now()) {
        if (!write_out(buffer))
            rewind_buffer(buffer);
        leave_ring(buffer);
    }
    gm_spin_unlock(&buffer->writing);
    __atomic_store_n(&buffer->taken, 0, __ATOMIC_RELEASE);
}

static void thread_ends(void *cursor) {
    gm_trace_hold();
    release_buffer(cursor);
    gm_trace_leave();
}

static GM_APART bool make_room_for_event(struct cursor *c) {
    return c && make_room(c, GM_CHUNK_EVENTS, sizeof(struct gm_event));
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
    uint32_t used = __atomic_load_n(&c->buffer->used, __ATOMIC_RELAXED);
    __atomic_store_n(&c->buffer->used, used + bytes, __ATOMIC_RELEASE);
}

static inline bool has_place(const struct cursor *c) {
    return c && c->generation == gm_trace_generation_now() && c->remaining >= sizeof(struct gm_event);
}

/* An event that comes late reads the start of the next trace. Nobody writes it out. */
static inline uint64_t since_start(uint64_t time_ns) {
    uint64_t start = __atomic_load_n(&start_ns, __ATOMIC_RELAXED);
    return time_ns > start ? time_ns - start : 0;
}

static inline void add(struct cursor *c, struct gm_event *place) {
    place->time_ns = since_start(place->time_ns);
    raise_used(c, sizeof *place);
}

/* The buffer is the thread's own. If the trace ends meanwhile, the event stays in a buffer that nobody writes out. */
struct gm_event *gm_chunks_place(void) {
    struct cursor *c = gm_room_part_known(GM_ROOM_TRACE);
    return GM_LIKELY(has_place(c)) ? (struct gm_event *)c->next : NULL;
}

void gm_chunks_add(struct gm_event *place) { add((struct cursor *)(gm_room + GM_ROOM_TRACE), place); }

static void add_event(const struct gm_event *event) {
    struct cursor *c = gm_room_part(GM_ROOM_TRACE);
    if (GM_UNLIKELY(!has_place(c)) && !make_room_for_event(c)) {
        drop(1);
        return;
    }
    struct gm_event *place = (struct gm_event *)c->next;
    *place = *event;
    add(c, place);
    if (GM_UNLIKELY(!gm_trace_flushes()))
        flush_by_hand(c->buffer, event->time_ns);
}

static unsigned char *pack_number(unsigned char *out, uint64_t value) {
    for (; value > 127; value >>= 7)
        *out++ = (unsigned char)(value | 128);
    *out++ = (unsigned char)value;
    return out;
}

/* Returns the end of the packed event. */
static unsigned char *pack(unsigned char *out, const struct gm_event *event) {
    uint64_t words[GM_PACKED_WORDS], before[GM_PACKED_WORDS];
    unsigned char *which = out++;
    memcpy(words, event, sizeof words);
    memcpy(before, &last_packed, sizeof before);
    before[0]++;
    *which = 0;
    for (unsigned i = 0; i < GM_PACKED_WORDS; i++) {
        uint64_t difference = words[i] - before[i];
        if (!difference)
            continue;
        *which |= (unsigned char)(1u << i);
        out = pack_number(out, difference << 1 ^ (0 - (difference >> 63)));
    }
    return out;
}

static void add_row(struct gm_event *row) {
    unsigned char bytes[GM_PACKED_MOST];
    row->seq = gm_trace_sequence();
    struct gm_event relative = *row;
    relative.time_ns = since_start(row->time_ns);
    if ((packed.generation != gm_trace_generation_now() || packed.remaining < sizeof bytes) &&
        !make_room(&packed, GM_CHUNK_PACKED, sizeof bytes)) {
        drop(1);
        return;
    }
    if (!packed.buffer->used)
        last_packed = (struct gm_event){0};
    uint32_t length = (uint32_t)(pack(bytes, &relative) - bytes);
    memcpy(packed.next, bytes, length);
    last_packed = relative;
    raise_used(&packed, length);
}

/* Definitions are rare and written at once, so that the file never holds an event without its definitions. */
static void add_record(const struct gm_record *record) {
    gm_spin_lock(&records_lock);
    if ((records.generation == gm_trace_generation_now() && records.remaining >= record->bytes) ||
        make_room(&records, GM_CHUNK_RECORDS, record->bytes)) {
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

static int open_chunks(struct gm_trace_file *opened, const struct gm_trace_header *header, uint64_t interval) {
    file = opened;
    if (gm_ring_on())
        gm_ring_open(file);
    __atomic_store_n(&start_ns, header->start_ns, __ATOMIC_RELAXED);
    gm_room_on_leave(GM_ROOM_TRACE, thread_ends);
    flush_ns = interval;
    head = *header;
    head.header_bytes = GM_TRACE_HEADER;
    memcpy(head.magic, GM_TRACE_MAGIC, sizeof head.magic);
    __atomic_store_n(&end, GM_TRACE_HEADER, __ATOMIC_RELAXED);
    events = dropped = 0;
    reserve_used = false;
    reported_loss = reported_cut = reported_full = 0;
    return write_head();
}

static void flush(void) {
    bool checked = false;
    for (struct buffer *buffer = __atomic_load_n(&buffers, __ATOMIC_ACQUIRE); buffer; buffer = buffer->next) {
        if (__atomic_exchange_n(&buffer->writing.held, 1, __ATOMIC_ACQUIRE))
            continue; /* its owner is writing it */
        if (is_current(buffer) && __atomic_load_n(&buffer->used, __ATOMIC_RELAXED) != buffer->written) {
            if (!checked && gm_trace_file_holds(file))
                restore_header();
            checked = true;
            write_out(buffer);
        }
        gm_spin_unlock(&buffer->writing);
    }
    gm_spin_lock(&head_lock);
    if (__atomic_load_n(&dropped, __ATOMIC_RELAXED) != head.dropped && gm_trace_file_holds(file))
        write_head();
    gm_spin_unlock(&head_lock);
}

static void finish(enum gm_trace_end how) {
    bool holds = gm_trace_file_holds(file);
    if (holds)
        restore_header();
    for (struct buffer *buffer = __atomic_load_n(&buffers, __ATOMIC_ACQUIRE); buffer; buffer = buffer->next) {
        gm_spin_lock(&buffer->writing);
        if (is_current(buffer) && !write_out(buffer))
            rewind_buffer(buffer);
        gm_spin_unlock(&buffer->writing);
    }
    struct stat st;
    gm_spin_lock(&head_lock);
    head.finished = how;
    head.file_bytes = holds && !gm_fstat(gm_trace_fd(file), &st) ? (uint64_t)st.st_size : 0;
    if (holds)
        write_head();
    gm_spin_unlock(&head_lock);
}

static void forget(void) {
    for (struct buffer *buffer = buffers; buffer; buffer = buffer->next) {
        buffer->taken = buffer->writing.held = 0;
        buffer->written = buffer->used = 0;
        buffer->ring = -1;
    }
    struct cursor *own = gm_room_part_known(GM_ROOM_TRACE);
    if (own)
        *own = (struct cursor){0};
    records.buffer = packed.buffer = NULL;
    records.remaining = packed.remaining = 0;
    records_lock.held = head_lock.held = 0;
    gm_ring_forget();
    events = dropped = 0;
    reserve_used = false;
    reported_loss = reported_cut = reported_full = 0;
}

const struct gm_trace_format gm_trace_binary = {
    .open = open_chunks,
    .event = add_event,
    .record = add_record,
    .row = add_row,
    .have_room = have_room,
    .use_reserve = use_reserve,
    .flush = flush,
    .finish = finish,
    .forget = forget,
};
