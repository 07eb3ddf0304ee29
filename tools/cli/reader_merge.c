/* Events of a binary trace in their global order.
 *
 * Every chunk is in order for itself, so a heap of chunks, keyed by each one's next seq, yields the whole
 * order. A chunk gets its read window only when it comes to the top: as many windows live as threads were
 * active at the same time. */
#include "tools/cli/reader_parts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WINDOW 256 /* events */
#define STEP   4096u

struct chunk {
    uint64_t seq;    /* of the next event: the heap's key */
    uint64_t offset; /* of the next event not yet in the window */
    uint32_t left;   /* events in the file behind the window */
    int thread;
    struct gm_event *window;
    uint32_t next, count; /* within the window */
};

struct gm_merge {
    struct chunk *heap;
    size_t count, room;
};

static bool read_at(const struct gm_reader *r, void *out, size_t bytes, uint64_t offset) {
    for (size_t done = 0; done < bytes;) {
        ssize_t got = pread(r->fd, (char *)out + done, bytes - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        done += (size_t)got;
    }
    return true;
}

static void sift_down(struct gm_merge *m, size_t at) {
    struct chunk moved = m->heap[at];
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= m->count)
            break;
        if (child + 1 < m->count && m->heap[child + 1].seq < m->heap[child].seq)
            child++;
        if (moved.seq <= m->heap[child].seq)
            break;
        m->heap[at] = m->heap[child];
        at = child;
    }
    m->heap[at] = moved;
}

/* Fills the window; false when nothing is left. */
static bool refill(struct gm_reader *r, struct chunk *c) {
    uint32_t count = c->left < WINDOW ? c->left : WINDOW;
    if (!count)
        return false;
    if (!c->window)
        c->window = malloc(WINDOW * sizeof *c->window);
    if (!c->window || !read_at(r, c->window, count * sizeof *c->window, c->offset)) {
        r->damaged++;
        return false;
    }
    c->offset += count * sizeof *c->window;
    c->left -= count;
    c->next = 0;
    c->count = count;
    return true;
}

static bool add_events(struct gm_reader *r, uint64_t offset, const struct gm_trace_chunk *chunk, uint32_t payload) {
    struct gm_merge *m = r->merge;
    struct chunk c = {
        .offset = offset + sizeof *chunk, .left = payload / sizeof(struct gm_event), .thread = chunk->thread};
    if (!c.left)
        return true;
    if (!read_at(r, &c.seq, sizeof c.seq, c.offset)) {
        r->damaged++;
        return true;
    }
    if (m->count == m->room) {
        size_t room = m->room ? 2 * m->room : 256;
        struct chunk *heap = realloc(m->heap, room * sizeof *heap);
        if (!heap)
            return false;
        m->heap = heap;
        m->room = room;
    }
    m->heap[m->count++] = c;
    return true;
}

static bool add_records(struct gm_reader *r, uint64_t offset, uint32_t payload) {
    char *data = malloc(payload + 8u);
    if (!data)
        return false;
    if (!read_at(r, data, payload, offset)) {
        r->damaged++;
        payload = 0;
    }
    for (uint32_t at = 0; at < payload;) {
        struct gm_record *record = (struct gm_record *)(data + at);
        if (payload - at < sizeof *record || record->bytes < sizeof *record || record->bytes % 8 ||
            record->bytes > payload - at) {
            r->damaged++;
            break;
        }
        r->damaged += !gm_definitions_add(r->definitions, record, record->bytes);
        at += record->bytes;
    }
    free(data);
    return true;
}

bool gm_merge_open(struct gm_reader *r) {
    r->merge = calloc(1, sizeof *r->merge);
    if (!r->merge)
        return false;
    for (uint64_t offset = r->header.header_bytes; offset + sizeof(struct gm_trace_chunk) <= r->size;) {
        struct gm_trace_chunk chunk;
        if (!read_at(r, &chunk, sizeof chunk, offset)) {
            r->damaged++;
            break;
        }
        bool sound = chunk.bytes >= STEP && chunk.bytes % STEP == 0 && chunk.bytes <= r->header.chunk_bytes;
        if (chunk.magic != GM_TRACE_CHUNK_MAGIC || !sound) {
            r->damaged += chunk.magic == GM_TRACE_CHUNK_MAGIC;
            offset += STEP; /* a hole, or the rest of a chunk whose beginning is unreadable */
            continue;
        }
        uint64_t in_file = r->size - offset - sizeof chunk;
        uint32_t payload = chunk.used;
        if (payload > chunk.bytes - sizeof chunk || payload > in_file) {
            r->damaged++;
            payload = chunk.bytes - (uint32_t)sizeof chunk;
            if (payload > in_file)
                payload = (uint32_t)in_file;
            if (chunk.used < payload)
                payload = chunk.used;
        }
        bool memory = chunk.type == GM_CHUNK_EVENTS    ? add_events(r, offset, &chunk, payload)
                      : chunk.type == GM_CHUNK_RECORDS ? add_records(r, offset + sizeof chunk, payload)
                                                       : true;
        if (!memory)
            return false;
        offset += chunk.bytes;
    }
    for (size_t at = r->merge->count / 2; at-- > 0;)
        sift_down(r->merge, at);
    return true;
}

bool gm_merge_next(struct gm_reader *r, struct gm_event *event, int *thread) {
    struct gm_merge *m = r->merge;
    while (m->count) {
        struct chunk *top = &m->heap[0];
        if (top->next == top->count) {
            if (refill(r, top)) {
                top->seq = top->window[0].seq;
            } else {
                free(top->window);
                *top = m->heap[--m->count];
            }
            if (m->count)
                sift_down(m, 0);
            continue;
        }
        *event = top->window[top->next++];
        *thread = top->thread;
        if (top->next < top->count)
            top->seq = top->window[top->next].seq;
        /* At a window's end the old key stays: the chunk comes up again at once, is refilled and takes its
         * right place. */
        if (m->count > 1)
            sift_down(m, 0);
        if (gm_event_is_sane(event))
            return true;
        r->damaged++;
    }
    return false;
}

void gm_merge_close(struct gm_merge *m) {
    if (!m)
        return;
    for (size_t i = 0; i < m->count; i++)
        free(m->heap[i].window);
    free(m->heap);
    free(m);
}
