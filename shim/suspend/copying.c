/* Each thread takes piece after piece and moves its pages through a few buffers, each with a stream of its own
 * (copying.h). The calling thread is one of them, so the copy does not depend on others. */
#include "shim/suspend/copying.h"

#include <string.h>
#include <unistd.h>

#include "shim/base/futex.h"
#include "shim/base/real_dl.h"
#include "shim/resource/suspendable_memory.h"

enum { THREADS = 8, BUFFERS = 4 };
#define PAGE GM_SUSPENDABLE_PAGE

struct copy {
    const struct gm_context *context;
    const struct gm_copy_piece *pieces;
    unsigned count;
    bool out;
    char *pinned;
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

/* ---- pages */

static bool is_zero(const char *page, size_t size) {
    const uint64_t *words = (const uint64_t *)page;
    for (size_t i = 0; i < size / sizeof *words; i++)
        if (words[i])
            return false;
    return true;
}

static size_t bytes_of(const struct gm_copy_piece *piece, size_t page) {
    size_t rest = piece->size - page * PAGE;
    return rest < PAGE ? rest : PAGE;
}

static void store_page(const struct gm_copy_piece *piece, size_t page, const char *buffer) {
    size_t size = bytes_of(piece, page);
    piece->zero[page] = is_zero(buffer, size);
    if (!piece->zero[page])
        memcpy(piece->host + page * PAGE, buffer, size);
}

static gm_status piece_out(struct worker *worker, const struct gm_copy_piece *piece) {
    size_t pages = (piece->size + PAGE - 1) / PAGE;
    for (size_t i = 0; i < pages + BUFFERS; i++) {
        CUstream stream = worker->streams[i % BUFFERS];
        char *buffer = worker->buffers + i % BUFFERS * PAGE;
        if (i >= BUFFERS && i - BUFFERS < pages) {
            gm_status status = gm_drv.stream_synchronize(stream);
            if (status)
                return status;
            store_page(piece, i - BUFFERS, buffer);
        }
        gm_status status = i < pages
                               ? (gm_status)gm_drv.memcpy_async((CUdeviceptr)(uintptr_t)buffer,
                                                                piece->device + i * PAGE, bytes_of(piece, i), stream)
                               : GM_OK;
        if (status)
            return status;
    }
    return GM_OK;
}

static gm_status piece_in(struct worker *worker, const struct gm_copy_piece *piece) {
    size_t pages = (piece->size + PAGE - 1) / PAGE;
    for (size_t i = 0; i < pages; i++) {
        CUstream stream = worker->streams[i % BUFFERS];
        char *buffer = worker->buffers + i % BUFFERS * PAGE;
        size_t size = bytes_of(piece, i);
        gm_status status = gm_drv.stream_synchronize(stream);
        if (status)
            return status;
        if (!piece->host || piece->zero[i]) {
            status = gm_drv.memset_d8_async(piece->device + i * PAGE, 0, size, stream);
        } else {
            memcpy(buffer, piece->host + i * PAGE, size);
            status = gm_drv.memcpy_async(piece->device + i * PAGE, (CUdeviceptr)(uintptr_t)buffer, size, stream);
        }
        if (status)
            return status;
    }
    return GM_OK;
}

/* ---- threads */

static gm_status copy_pieces(struct worker *worker) {
    struct copy *copy = worker->copy;
    gm_status status = GM_OK;
    for (unsigned at;
         !status && goes_on(copy) && (at = __atomic_fetch_add(&copy->next, 1, __ATOMIC_RELAXED)) < copy->count;)
        status = copy->out ? piece_out(worker, &copy->pieces[at]) : piece_in(worker, &copy->pieces[at]);
    for (unsigned i = 0; i < BUFFERS; i++) {
        gm_status last = gm_drv.stream_synchronize(worker->streams[i]);
        status = status ? status : last;
    }
    return status;
}

static void work(struct copy *copy, unsigned number) {
    struct worker worker = {.copy = copy, .buffers = copy->pinned + number * BUFFERS * PAGE};
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
    while (gm_drv.mem_host_alloc(&pinned, (size_t)*threads * BUFFERS * PAGE, CU_MEMHOSTALLOC_PORTABLE) && *threads > 1)
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
    unsigned threads = threads_for(count);
    if (!count)
        return GM_OK;
    CUstreamCaptureMode mode = gm_capture_relax();
    copy.pinned = take_buffers(context, &threads);
    if (copy.pinned) {
        copy_all(&copy, threads);
        give_buffers(context, copy.pinned);
    } else {
        copy.status = GM_OUT_OF_MEMORY;
    }
    gm_capture_unrelax(mode);
    return copy.status;
}
