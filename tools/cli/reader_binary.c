/* Merges the chunks of a binary trace.
 *
 * Each chunk holds the events of one thread, nearly in order: a free takes its sequence number first and may write a
 * few other events before its own, such as the captures that it found lost. A heap of chunks, keyed by the lowest
 * sequence number that each chunk still has, yields the global order. A chunk gets a read window when it first comes to
 * the top of the heap, so the number of windows is the number of threads that were active at the same time. The window
 * is sorted, and its last NESTED events wait for those behind it. */
#include "tools/cli/reader_binary.h"

#include "shim/trace/pack.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WINDOW 256 /* events */
#define NESTED 32  /* events that may stand before one with a lower number */
#define STEP   4096u

struct chunk {
    uint64_t seq;    /* the lowest that is left; the heap's key */
    uint64_t offset; /* of the first event behind the window */
    uint32_t left;   /* number of events behind the window; of packed events: bytes */
    int thread;
    bool packed;
    struct gm_packing packing; /* at `offset` */
    struct gm_event *window;
    uint32_t next, count; /* position and number of events in the window */
};

struct gm_binary_reader {
    struct gm_trace_input *file;
    struct chunk *chunks; /* array */
    struct chunk **heap;  /* of those that have events left; made when all chunks are known */
    size_t count, room;
};

static bool read_at(const struct gm_trace_input *f, void *out, size_t bytes, uint64_t offset) {
    for (size_t done = 0; done < bytes;) {
        ssize_t got = pread(f->fd, (char *)out + done, bytes - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        done += (size_t)got;
    }
    return true;
}

static void sift_down(struct gm_binary_reader *r, size_t at) {
    struct chunk *moved = r->heap[at];
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= r->count)
            break;
        if (child + 1 < r->count && r->heap[child + 1]->seq < r->heap[child]->seq)
            child++;
        if (moved->seq <= r->heap[child]->seq)
            break;
        r->heap[at] = r->heap[child];
        at = child;
    }
    r->heap[at] = moved;
}

static void sort(struct gm_event *events, uint32_t count) {
    for (uint32_t i = 1; i < count; i++) {
        struct gm_event moved = events[i];
        uint32_t at = i;
        for (; at && moved.seq < events[at - 1].seq; at--)
            events[at] = events[at - 1];
        events[at] = moved;
    }
}

/* Returns how many events it read into `out`, at most `most`. */
static uint32_t read_packed(struct gm_binary_reader *r, struct chunk *c, struct gm_event *out, uint32_t most) {
    unsigned char bytes[WINDOW * 32];
    uint32_t room = c->left < sizeof bytes ? c->left : (uint32_t)sizeof bytes, count = 0;
    const unsigned char *p = bytes, *end = bytes + room;
    if (!read_at(r->file, bytes, room, c->offset))
        end = bytes;
    while (count < most && p < end && (c->left == room || (size_t)(end - p) >= GM_PACKED_MOST)) {
        const unsigned char *next = gm_unpack(&c->packing, p, end, &out[count]);
        if (!next)
            break;
        p = next;
        count++;
    }
    if (!count) {
        r->file->damaged++;
        c->left = 0;
        return 0;
    }
    c->offset += (uint64_t)(p - bytes);
    c->left -= (uint32_t)(p - bytes);
    return count;
}

static uint32_t read_plain(struct gm_binary_reader *r, struct chunk *c, struct gm_event *out, uint32_t most) {
    uint32_t count = c->left < most ? c->left : most;
    if (!read_at(r->file, out, count * sizeof *out, c->offset)) {
        r->file->damaged++;
        count = c->left = 0;
    }
    c->offset += count * sizeof *out;
    c->left -= count;
    return count;
}

/* Moves what the window still has to its start and reads on behind it. What cannot be read is lost. */
static void refill(struct gm_binary_reader *r, struct chunk *c) {
    uint32_t rest = c->count - c->next, fresh = 0;
    if (!c->window)
        c->window = malloc(WINDOW * sizeof *c->window);
    if (c->window) {
        memmove(c->window, c->window + c->next, rest * sizeof *c->window);
        fresh = (c->packed ? read_packed : read_plain)(r, c, c->window + rest, WINDOW - rest);
    } else {
        r->file->damaged++;
        c->left = 0;
    }
    c->next = 0;
    c->count = rest + fresh;
    sort(c->window, c->count);
}

/* Makes the window's next event the lowest that the chunk has. False at the end of the chunk. */
static bool settle(struct gm_binary_reader *r, struct chunk *c) {
    if (c->left && c->count - c->next <= NESTED)
        refill(r, c);
    if (c->next == c->count)
        return false;
    c->seq = c->window[c->next].seq;
    return true;
}

static bool add_events(struct gm_binary_reader *r, uint64_t offset, const struct gm_trace_chunk *chunk,
                       uint32_t payload) {
    struct chunk c = {.offset = offset + sizeof *chunk,
                      .left = chunk->type == GM_CHUNK_PACKED ? payload : payload / (uint32_t)sizeof(struct gm_event),
                      .thread = chunk->thread,
                      .packed = chunk->type == GM_CHUNK_PACKED};
    if (!c.left)
        return true;
    struct gm_event first[NESTED + 1];
    struct chunk peeked = c;
    uint32_t known = (c.packed ? read_packed : read_plain)(r, &peeked, first, NESTED + 1);
    if (!known)
        return true;
    c.seq = first[0].seq;
    for (uint32_t i = 1; i < known; i++)
        c.seq = first[i].seq < c.seq ? first[i].seq : c.seq;
    if (r->count == r->room) {
        size_t room = r->room ? 2 * r->room : 256;
        struct chunk *chunks = realloc(r->chunks, room * sizeof *chunks);
        if (!chunks)
            return false;
        r->chunks = chunks;
        r->room = room;
    }
    r->chunks[r->count++] = c;
    return true;
}

static bool make_heap(struct gm_binary_reader *r) {
    r->heap = malloc((r->count + 1) * sizeof *r->heap);
    if (!r->heap)
        return false;
    for (size_t i = 0; i < r->count; i++)
        r->heap[i] = &r->chunks[i];
    for (size_t at = r->count / 2; at-- > 0;)
        sift_down(r, at);
    return true;
}

static bool add_records(struct gm_binary_reader *r, uint64_t offset, uint32_t payload) {
    char *data = malloc(payload + 8u);
    if (!data)
        return false;
    if (!read_at(r->file, data, payload, offset)) {
        r->file->damaged++;
        payload = 0;
    }
    for (uint32_t at = 0; at < payload;) {
        struct gm_record *record = (struct gm_record *)(data + at);
        if (payload - at < sizeof *record || record->bytes < sizeof *record || record->bytes % 8 ||
            record->bytes > payload - at) {
            r->file->damaged++;
            break;
        }
        r->file->damaged += !gm_definitions_add(r->file->definitions, record, record->bytes);
        at += record->bytes;
    }
    free(data);
    return true;
}

/* Reads all records and notes where the events of each chunk are. False = no memory. */
static bool read_chunks(struct gm_binary_reader *r) {
    uint64_t hole = 0; /* the first one behind the place that was looked at last */
    for (uint64_t offset = r->file->header.header_bytes; offset + sizeof(struct gm_trace_chunk) <= r->file->size;) {
        struct gm_trace_chunk chunk;
        if (!read_at(r->file, &chunk, sizeof chunk, offset)) {
            r->file->damaged++;
            break;
        }
        bool sound = chunk.bytes >= STEP && chunk.bytes % STEP == 0 && chunk.bytes <= r->file->header.chunk_bytes;
        if (chunk.magic != GM_TRACE_CHUNK_MAGIC || !sound) {
            r->file->damaged += chunk.magic == GM_TRACE_CHUNK_MAGIC;
            /* A hole, or the rest of a chunk without a readable header. */
            offset = gm_trace_input_data(r->file, offset + STEP) / STEP * STEP;
            continue;
        }
        if (offset >= hole) /* no writer leaves one in a payload */
            hole = gm_trace_input_hole(r->file, offset);
        uint64_t end = hole < r->file->size ? hole : r->file->size;
        uint64_t in_file = end > offset + sizeof chunk ? end - offset - sizeof chunk : 0;
        uint32_t payload = chunk.used;
        if (payload > chunk.bytes - sizeof chunk || payload > in_file) {
            r->file->damaged++;
            payload = chunk.bytes - (uint32_t)sizeof chunk;
            if (payload > in_file)
                payload = (uint32_t)in_file;
            if (chunk.used < payload)
                payload = chunk.used;
        }
        bool memory = chunk.type == GM_CHUNK_EVENTS || chunk.type == GM_CHUNK_PACKED
                          ? add_events(r, offset, &chunk, payload)
                      : chunk.type == GM_CHUNK_RECORDS ? add_records(r, offset + sizeof chunk, payload)
                                                       : true;
        if (!memory)
            return false;
        offset += chunk.bytes;
    }
    r->file->damaged += r->file->size < r->file->header.file_bytes; /* its end was cut off */
    return true;
}

struct gm_binary_reader *gm_binary_reader_open(struct gm_trace_input *file) {
    struct gm_binary_reader *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    r->file = file;
    if (!read_chunks(r) || !make_heap(r)) {
        gm_binary_reader_close(r);
        return NULL;
    }
    return r;
}

bool gm_binary_reader_next(struct gm_binary_reader *r, struct gm_event *event, int *thread) {
    while (r->count) {
        struct chunk *top = r->heap[0];
        bool found = settle(r, top);
        if (found) {
            *event = top->window[top->next++];
            *thread = top->thread;
        }
        if (!found || !settle(r, top)) {
            free(top->window);
            r->heap[0] = r->heap[--r->count];
        }
        if (r->count)
            sift_down(r, 0);
        if (!found)
            continue;
        if (gm_event_is_valid(event))
            return true;
        r->file->damaged++;
    }
    return false;
}

void gm_binary_reader_close(struct gm_binary_reader *r) {
    if (!r)
        return;
    for (size_t i = 0; i < r->count && r->heap; i++)
        free(r->heap[i]->window);
    free(r->heap);
    free(r->chunks);
    free(r);
}
