/* What is registered with the driver is copied as it is. Otherwise each thread takes piece after piece and moves its
 * pages through a few pinned buffers, each with a stream of its own (copying.h). The calling thread is one of them, so
 * the copy does not depend on others. */
#include "shim/suspend/copying.h"

#include <string.h>
#include <unistd.h>

#include "shim/base/futex.h"
#include "shim/base/real_dl.h"

/* The first copy of a page takes a thread ten times as long as the link, since the kernel has to clear it: there are as
 * many threads as processors. Few small buffers are made quickly, and stay in the cache of the processor. */
enum { THREADS = 16, BUFFERS = 2 };
#define BUFFER ((size_t)1 << 20)
#define PAGE   GM_SUSPENDABLE_PAGE
enum { CHUNKS = GM_SUSPENDABLE_PIECE / BUFFER };

struct copy {
    const struct gm_context *context;
    const struct gm_copy_piece *pieces;
    unsigned count;
    bool out;
    char *pinned;     /* NULL: no piece needs buffers */
    unsigned next;    /* the next piece */
    uint32_t working; /* other threads that have not ended */
    unsigned threads; /* that have buffers */
    gm_status status; /* the first error */
};

struct worker {
    struct copy *copy;
    char *buffers;
    CUstream streams[BUFFERS];
};

static void failed(struct copy *copy, gm_status status) {
    gm_status none = GM_OK;
    __atomic_compare_exchange_n(&copy->status, &none, status, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

static bool goes_on(const struct copy *copy) { return !__atomic_load_n(&copy->status, __ATOMIC_ACQUIRE); }

/* ---- pages of a piece */

static unsigned pages_of(const struct gm_copy_piece *piece) { return (unsigned)((piece->size + PAGE - 1) / PAGE); }

static size_t bytes_of(const struct gm_copy_piece *piece, unsigned page, unsigned count) {
    size_t rest = piece->size - page * PAGE;
    return rest < count * PAGE ? rest : count * PAGE;
}

static enum gm_page_state moved_state(const struct copy *copy) { return copy->out ? GM_PAGE_NONE : GM_PAGE_STORED; }

/* The next row of pages with this state from *page on: its length, and its begin in *page. 0: there is none. */
static unsigned next_row(const struct gm_copy_piece *piece, enum gm_page_state state, unsigned *page) {
    unsigned end, pages = pages_of(piece);
    while (*page < pages && gm_copy_page(piece, *page)->state != state)
        ++*page;
    for (end = *page; end < pages && gm_copy_page(piece, end)->state == state;)
        end++;
    return end - *page;
}

/* Where parts that fill a buffer begin. */
static unsigned list_chunks(const struct copy *copy, const struct gm_copy_piece *piece, size_t list[CHUNKS]) {
    unsigned count = 0;
    for (size_t at = 0; piece->backing && at < piece->size; at += BUFFER)
        if (gm_copy_page(piece, at / PAGE)->state == moved_state(copy))
            list[count++] = at;
    return count;
}

static size_t chunk_bytes(const struct gm_copy_piece *piece, size_t at) {
    return piece->size - at < BUFFER ? piece->size - at : BUFFER;
}

/* ---- copies of a piece */

static gm_status clear(struct worker *worker, const struct gm_copy_piece *piece) {
    gm_status status = GM_OK;
    if (!piece->backing)
        return gm_drv.memset_d8_async(piece->device, 0, piece->size, worker->streams[0]);
    for (unsigned at = 0, row; !status && (row = next_row(piece, GM_PAGE_ZERO, &at)); at += row)
        status = gm_drv.memset_d8_async(piece->device + at * PAGE, 0, bytes_of(piece, at, row), worker->streams[0]);
    return status;
}

static gm_status copy_registered(struct worker *worker, const struct gm_copy_piece *piece) {
    gm_status status = GM_OK;
    unsigned copies = 0;
    for (unsigned at = 0, row; !status && (row = next_row(piece, moved_state(worker->copy), &at)); at += row) {
        CUdeviceptr device = piece->device + at * PAGE;
        CUdeviceptr host = (CUdeviceptr)(uintptr_t)(piece->backing->memory + piece->offset + at * PAGE);
        status = gm_drv.memcpy_async(worker->copy->out ? host : device, worker->copy->out ? device : host,
                                     bytes_of(piece, at, row), worker->streams[copies++ % BUFFERS]);
    }
    return status;
}

/* A part of a piece from or to its backing. */
static gm_status store(const struct gm_copy_piece *piece, size_t at, const char *buffer) {
    const struct gm_backing *backing = piece->backing;
    size_t offset = piece->offset + at, bytes = chunk_bytes(piece, at);
    if (backing->memory)
        memcpy(backing->memory + offset, buffer, bytes);
    else if (!gm_backing_file_write(backing->file, buffer, bytes, backing->place + offset))
        return CUDA_ERROR_OPERATING_SYSTEM;
    return GM_OK;
}

static gm_status load(const struct gm_copy_piece *piece, size_t at, char *buffer) {
    const struct gm_backing *backing = piece->backing;
    size_t offset = piece->offset + at, bytes = chunk_bytes(piece, at);
    if (backing->memory)
        memcpy(buffer, backing->memory + offset, bytes);
    else if (!gm_backing_file_read(backing->file, buffer, bytes, backing->place + offset))
        return CUDA_ERROR_OPERATING_SYSTEM;
    return GM_OK;
}

static gm_status copy_out(struct worker *worker, const struct gm_copy_piece *piece) {
    size_t list[CHUNKS];
    unsigned count = list_chunks(worker->copy, piece, list);
    for (unsigned i = 0; i < count + BUFFERS; i++) {
        CUstream stream = worker->streams[i % BUFFERS];
        char *buffer = worker->buffers + i % BUFFERS * BUFFER;
        size_t done = i >= BUFFERS && i - BUFFERS < count ? list[i - BUFFERS] : piece->size;
        gm_status status = GM_OK;
        if (done < piece->size && !(status = gm_drv.stream_synchronize(stream)))
            status = store(piece, done, buffer);
        if (!status && i < count)
            status = gm_drv.memcpy_async((CUdeviceptr)(uintptr_t)buffer, piece->device + list[i],
                                         chunk_bytes(piece, list[i]), stream);
        if (status)
            return status;
    }
    return GM_OK;
}

static gm_status copy_in(struct worker *worker, const struct gm_copy_piece *piece) {
    size_t list[CHUNKS];
    unsigned count = list_chunks(worker->copy, piece, list);
    for (unsigned i = 0; i < count; i++) {
        CUstream stream = worker->streams[i % BUFFERS];
        char *buffer = worker->buffers + i % BUFFERS * BUFFER;
        gm_status status = gm_drv.stream_synchronize(stream);
        if (!status)
            status = load(piece, list[i], buffer);
        if (!status)
            status = gm_drv.memcpy_async(piece->device + list[i], (CUdeviceptr)(uintptr_t)buffer,
                                         chunk_bytes(piece, list[i]), stream);
        if (status)
            return status;
    }
    return GM_OK;
}

static bool is_registered(const struct copy *copy, const struct gm_copy_piece *piece) {
    return gm_backing_is_registered(piece->backing, piece->offset, copy->context->id);
}

static gm_status copy_piece(struct worker *worker, const struct gm_copy_piece *piece) {
    const struct copy *copy = worker->copy;
    gm_status status = copy->out ? (gm_status)GM_OK : clear(worker, piece);
    if (status || !piece->backing)
        return status;
    return is_registered(copy, piece) ? copy_registered(worker, piece)
           : copy->out                ? copy_out(worker, piece)
                                      : copy_in(worker, piece);
}

/* ---- threads */

static gm_status copy_pieces(struct worker *worker) {
    struct copy *copy = worker->copy;
    gm_status status = GM_OK;
    for (unsigned at;
         !status && goes_on(copy) && (at = __atomic_fetch_add(&copy->next, 1, __ATOMIC_RELAXED)) < copy->count;)
        status = copy_piece(worker, &copy->pieces[at]);
    for (unsigned i = 0; i < BUFFERS; i++) {
        gm_status last = gm_drv.stream_synchronize(worker->streams[i]);
        status = status ? status : last;
    }
    return status;
}

static void work(struct copy *copy, unsigned number) {
    struct worker worker = {.copy = copy, .buffers = copy->pinned ? copy->pinned + number * BUFFERS * BUFFER : NULL};
    CUcontext popped;
    unsigned made = 0;
    gm_status status = gm_drv.ctx_push(copy->context->handle);
    if (status) {
        failed(copy, status);
        return;
    }
    while (!status && made < BUFFERS)
        if (!(status = gm_drv.stream_create(&worker.streams[made], CU_STREAM_NON_BLOCKING)))
            made++;
    if (!status)
        status = copy_pieces(&worker);
    while (made)
        gm_drv.stream_destroy(worker.streams[--made]);
    gm_drv.ctx_pop(&popped);
    if (status)
        failed(copy, status);
}

static void *run(void *arg) {
    struct copy *copy = arg;
    gm_mine.depth = 1;
    (void)gm_capture_relax();
    work(copy, __atomic_fetch_add(&copy->threads, 1, __ATOMIC_RELAXED));
    __atomic_sub_fetch(&copy->working, 1, __ATOMIC_RELEASE);
    gm_futex_wake(&copy->working);
    return NULL;
}

/* Pieces that need buffers, and with them threads. */
static unsigned count_buffered(const struct copy *copy) {
    size_t list[CHUNKS];
    unsigned count = 0;
    for (unsigned i = 0; i < copy->count; i++)
        count += list_chunks(copy, &copy->pieces[i], list) && !is_registered(copy, &copy->pieces[i]);
    return count;
}

static unsigned threads_for(unsigned pieces) {
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    unsigned threads = processors > THREADS ? THREADS : processors > 1 ? (unsigned)processors : 1;
    return threads < pieces ? threads : pieces;
}

/* Fewer buffers do, too. */
static char *take_buffers(const struct gm_context *context, unsigned *threads) {
    CUcontext popped;
    void *pinned = NULL;
    if (gm_drv.ctx_push(context->handle))
        return NULL;
    while (gm_drv.mem_host_alloc(&pinned, (size_t)*threads * BUFFERS * BUFFER, CU_MEMHOSTALLOC_PORTABLE) &&
           *threads > 1)
        *threads /= 2;
    gm_drv.ctx_pop(&popped);
    return pinned;
}

static void give_buffers(const struct gm_context *context, char *pinned) {
    CUcontext popped;
    if (gm_drv.ctx_push(context->handle))
        return;
    gm_drv.mem_free_host(pinned);
    gm_drv.ctx_pop(&popped);
}

static void copy_all(struct copy *copy, unsigned threads) {
    copy->threads = 1;
    for (unsigned i = 1; i < threads; i++) {
        __atomic_add_fetch(&copy->working, 1, __ATOMIC_RELAXED);
        if (gm_thread_start(run, copy)) {
            __atomic_sub_fetch(&copy->working, 1, __ATOMIC_RELAXED);
            break;
        }
    }
    work(copy, 0);
    for (uint32_t working; (working = __atomic_load_n(&copy->working, __ATOMIC_ACQUIRE));)
        gm_futex_wait(&copy->working, working, NULL);
}

gm_status gm_copy_pieces(const struct gm_context *context, const struct gm_copy_piece *pieces, unsigned count,
                         bool out) {
    struct copy copy = {.context = context, .pieces = pieces, .count = count, .out = out};
    unsigned threads = threads_for(count_buffered(&copy));
    CUstreamCaptureMode mode = gm_capture_relax();
    if (threads)
        copy.pinned = take_buffers(context, &threads);
    if (!threads || copy.pinned)
        copy_all(&copy, threads);
    else
        copy.status = GM_OUT_OF_MEMORY;
    if (copy.pinned)
        give_buffers(context, copy.pinned);
    gm_capture_unrelax(mode);
    return copy.status;
}
