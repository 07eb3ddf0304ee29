/* The binary trace: threads write events straight into mapped chunks of the file.
 *
 * A thread that needs room raises the file's end by one atomic addition, reserves the disk space (a full disk
 * is then an error here, not a bus error at a store), maps the range and writes on. Each event is complete
 * before the chunk's `used` is raised, so whatever kills the process, the kernel holds everything up to
 * there. Between two chunk changes there is neither lock nor call. */
#include "shim/base/truedl.h"
#include "shim/trace/parts.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define FIRST_CHUNK 4096u /* a thousand threads of one event each cost 4 MB, not 256 */
#define GROWTH      4u
#define RETRY_EVERY 1024u               /* events dropped on a full disk between two tries */
#define CLOSED      (UINT64_C(1) << 62) /* value of `end` behind which no chunk is taken any more */

/* One thread's (or the records') place in the file. */
struct cursor {
    uint32_t generation; /* of the process and trace that `chunk` belongs to */
    uint32_t left;       /* payload bytes free */
    unsigned char *next; /* where they begin */
    struct gm_trace_chunk *chunk;
    uint64_t offset;  /* of the chunk in the file */
    uint32_t bytes;   /* of the chunk; 0 before the first */
    uint32_t dropped; /* since the last try to get a chunk */
    bool at_exit;     /* thread end is watched */
};

static __thread struct cursor mine __attribute__((tls_model("initial-exec")));
static struct cursor records;
static gm_spin records_lock;

static struct gm_trace_file *file;
static struct gm_trace_header *head; /* mapped; stays mapped until the process ends */
static uint64_t start_ns;
static uint64_t end; /* file offset behind the last chunk taken */
static uint32_t page;
static int told; /* a lost trace is reported once */

static void drop(uint64_t count) {
    if (head)
        __atomic_fetch_add(&head->dropped, count, __ATOMIC_RELAXED);
}

static void let_go(struct cursor *c) {
    if (c->chunk)
        munmap(c->chunk, c->bytes);
    c->chunk = NULL;
    c->left = 0;
}

static void thread_ends(void *cursor) {
    let_go(cursor);
}

/* Gives the cursor a new chunk with room for `need` bytes; false when the disk or the address space is full.
 */
static bool take_chunk(struct cursor *c, enum gm_chunk_type type, size_t need) {
    uint32_t bytes = c->generation == *gm_trace_generation && c->bytes ? c->bytes * GROWTH : FIRST_CHUNK;
    if (bytes < need + sizeof *c->chunk)
        bytes = (uint32_t)(need + sizeof *c->chunk);
    if (bytes > GM_TRACE_CHUNK)
        bytes = GM_TRACE_CHUNK;
    bytes = (bytes + page - 1) & ~(page - 1);
    /* A chunk of another process or trace may still be mapped here: only the mapping goes, its content is
     * theirs. */
    let_go(c);
    c->generation = *gm_trace_generation;
    c->bytes = bytes;
    if (!gm_trace_file_holds(file)) {
        gm_log_once(&told, GM_LOG_ERROR, "trace '%s' ends early: the program closed its descriptor",
                    file->name);
        c->bytes = 0;
        return false;
    }
    uint64_t offset = __atomic_fetch_add(&end, bytes, __ATOMIC_RELAXED);
    if (offset >= CLOSED) {
        c->bytes = 0;
        return false;
    }
    int error = gm_quiet_allocate(file->fd, offset, bytes);
    void *map = MAP_FAILED;
    if (!error) {
        map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file->fd, (off_t)offset);
        if (map == MAP_FAILED)
            error = errno;
#ifdef MADV_POPULATE_WRITE
        else if (bytes == GM_TRACE_CHUNK)
            madvise(map, bytes,
                    MADV_POPULATE_WRITE); /* page faults at once cost a quarter less than one by one */
#endif
    }
    if (error) {
        uint64_t behind = offset + bytes;
        __atomic_compare_exchange_n(&end, &behind, offset, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
        gm_log_once(&told, GM_LOG_ERROR, "trace '%s' loses events: %s", file->name, gm_errno_text(error));
        c->bytes = 0;
        return false;
    }
    c->chunk = map;
    c->offset = offset;
    c->next = (unsigned char *)map + sizeof *c->chunk;
    c->left = bytes - (uint32_t)sizeof *c->chunk;
    c->chunk->type = (uint16_t)type;
    c->chunk->thread = gm_thread_id();
    c->chunk->bytes = bytes;
    __atomic_store_n(&c->chunk->magic, GM_TRACE_CHUNK_MAGIC, __ATOMIC_RELEASE);
    return true;
}

static GM_APART bool make_room(void) {
    struct cursor *c = &mine;
    if (c->dropped && c->dropped % RETRY_EVERY && c->generation == *gm_trace_generation) {
        c->dropped++;
        return false;
    }
    if (!take_chunk(c, GM_CHUNK_EVENTS, sizeof(struct gm_event))) {
        c->dropped++;
        return false;
    }
    c->dropped = 0;
    if (!c->at_exit)
        c->at_exit = !gm_thread_at_exit(thread_ends, c);
    return true;
}

static inline void raise_used(struct cursor *c, uint32_t bytes) {
    c->next += bytes;
    c->left -= bytes;
    __atomic_store_n(&c->chunk->used, c->chunk->used + bytes, __ATOMIC_RELEASE);
}

void gm_chunks_event(const struct gm_event *event) {
    struct cursor *c = &mine;
    if (GM_UNLIKELY(c->generation != *gm_trace_generation || c->left < sizeof *event) && !make_room()) {
        drop(1);
        return;
    }
    struct gm_event *slot = (struct gm_event *)c->next;
    *slot = *event;
    slot->time_ns = event->time_ns > start_ns ? event->time_ns - start_ns : 0;
    raise_used(c, sizeof *event);
}

void gm_chunks_record(const struct gm_record *record) {
    gm_spin_lock(&records_lock);
    if ((records.generation == *gm_trace_generation && records.left >= record->bytes) ||
        take_chunk(&records, GM_CHUNK_RECORDS, record->bytes)) {
        memcpy(records.next, record, record->bytes);
        raise_used(&records, record->bytes);
    } else {
        drop(1);
    }
    gm_spin_unlock(&records_lock);
}

int gm_chunks_open(struct gm_trace_file *opened, const struct gm_trace_header *header) {
    long system_page = sysconf(_SC_PAGESIZE);
    uint32_t bytes = system_page > (long)GM_TRACE_HEADER ? (uint32_t)system_page : GM_TRACE_HEADER;
    int error = gm_quiet_allocate(opened->fd, 0, bytes);
    if (error)
        return error;
    void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, opened->fd, 0);
    if (map == MAP_FAILED)
        return errno;
    file = opened;
    page = bytes;
    start_ns = header->start_ns;
    __atomic_store_n(&end, bytes, __ATOMIC_RELAXED);
    head = map;
    *head = *header;
    head->header_bytes = bytes;
    memcpy(head->magic, GM_TRACE_MAGIC, sizeof head->magic);
    return 0;
}

/* Cuts the file behind the last chunk if that is ours; the exchange makes sure that no other thread has taken
 * or will take one behind it. Chunks of other threads keep their unused room, since they may still be writing
 * there. */
static void cut(struct cursor *c) {
    uint64_t behind = c->offset + c->bytes;
    if (!c->chunk || c->generation != *gm_trace_generation ||
        !__atomic_compare_exchange_n(&end, &behind, CLOSED, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        return;
    uint64_t used = c->offset + sizeof *c->chunk + c->chunk->used;
    if (gm_trace_file_holds(file) && ftruncate(file->fd, (off_t)used))
        gm_log(GM_LOG_DEBUG, "trace '%s' keeps %d unused bytes", file->name, (int)(behind - used));
}

void gm_chunks_finish(void) {
    gm_spin_lock(&records_lock);
    cut(&records);
    let_go(&records);
    gm_spin_unlock(&records_lock);
    cut(&mine);
    let_go(&mine);
    __atomic_store_n(&head->finished, 1, __ATOMIC_RELEASE);
}

void gm_chunks_forget(void) {
    let_go(&mine);
    let_go(&records);
    if (head)
        munmap(head, page);
    head = NULL;
    records_lock.held = 0;
    told = 0;
}
