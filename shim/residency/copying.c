/* Copies between pageable host memory and staging memory, by the calling thread and a few copying threads.
 *
 * One thread copies about 10 GB/s, a fifth of what the bus carries. So a chunk of staging memory is copied in pieces:
 * each thread takes the next piece of the job until none is open. The copying threads are made at the first large
 * transfer and end with the residency. They block all signals, make no driver call, and serve one job at a time; the
 * calling threads of other jobs copy theirs alone. So do all calling threads where no thread can be made. */
#include "shim/residency/parts.h"

#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "shim/base/real_dl.h"

enum {
    SPIN_NS = 50000,    /* about as long as it takes to wake a thread: the next transfer often comes sooner */
    DEFAULT_THREADS = 8 /* enough for 55 GB/s, of PCIe 5 with 16 lanes */
};

static const size_t large = (size_t)1 << 20; /* smaller transfers are over before a thread wakes up */

/* ---- one piece */

/* Copies between staging memory and the object's bytes from `offset` on. */
static void copy_parts(const struct gm_residency_object *object, size_t offset, size_t bytes, char *staged,
                       bool to_staging) {
    size_t begin = 0;
    for (size_t i = 0; i < object->part_count && bytes; i++) {
        const size_t end = begin + object->parts[i].bytes;
        if (offset < end) {
            char *host = gm_residency_part(object, i, begin) + (offset - begin);
            const size_t here = end - offset < bytes ? end - offset : bytes;
            memcpy(to_staging ? staged : host, to_staging ? host : staged, here);
            staged += here;
            offset += here;
            bytes -= here;
        }
        begin = end;
    }
}

static size_t piece_bytes(const struct gm_residency_job *job) { return job->way->chunk / GM_RESIDENCY_PIECES; }

static void copy_piece(const struct gm_residency_job *job, size_t piece) {
    const size_t chunk = piece / GM_RESIDENCY_PIECES, within = piece % GM_RESIDENCY_PIECES * piece_bytes(job);
    const size_t offset = chunk * job->way->chunk + within, rest = job->object->bytes - offset;
    const size_t bytes = rest < piece_bytes(job) ? rest : piece_bytes(job);
    copy_parts(job->object, offset, bytes, gm_residency_slot(job, chunk) + within, job->to_staging);
}

/* Copies the next open piece of the job. Called with the lock, which it releases meanwhile. */
static void copy_next(struct gm_residency_copying *c, struct gm_residency_job *job) {
    const size_t piece = job->next++;
    pthread_mutex_unlock(&c->lock);
    copy_piece(job, piece);
    pthread_mutex_lock(&c->lock);
    if (!--job->left[piece / GM_RESIDENCY_PIECES % GM_RESIDENCY_SLOTS])
        gm_condition_wake(&c->copied);
}

/* ---- the copying threads */

static bool has_work(const struct gm_residency_copying *c) { return c->job && c->job->next < c->job->opened; }

/* Waits for an opened piece, first without sleeping. */
static void await_work(struct gm_residency_copying *c) {
    const unsigned seen = c->openings;
    const uint64_t until = gm_now_ns() + SPIN_NS;
    pthread_mutex_unlock(&c->lock);
    while (__atomic_load_n(&c->openings, __ATOMIC_RELAXED) == seen && gm_now_ns() < until)
        sched_yield();
    pthread_mutex_lock(&c->lock);
    while (!has_work(c) && !c->ends)
        gm_condition_wait(&c->opened, &c->lock);
}

/* The last access of the calling thread: behind it the residency may be freed. */
static void end_thread(struct gm_residency_copying *c) {
    if (!__atomic_sub_fetch(&c->living, 1, __ATOMIC_ACQ_REL))
        gm_futex_wake(&c->living);
}

static void *copy_until_the_end(void *argument) {
    struct gm_residency_copying *c = argument;
    pthread_mutex_lock(&c->lock);
    while (!c->ends) {
        if (has_work(c))
            copy_next(c, c->job);
        else
            await_work(c);
    }
    pthread_mutex_unlock(&c->lock);
    end_thread(c);
    return NULL;
}

/* As many as can be made. Called without the lock, since thread creation may wait for the loader's lock. */
static void make_threads(struct gm_residency_copying *c) {
    bool made = true;
    c->process = getpid();
    for (unsigned i = 0; i < c->wanted && made; i++) {
        __atomic_add_fetch(&c->living, 1, __ATOMIC_RELAXED); /* it may end before its creation returns */
        made = !gm_thread_start(copy_until_the_end, c);
        if (!made)
            end_thread(c);
    }
}

static void await_threads(const struct gm_residency_copying *c) {
    uint32_t living;
    while ((living = __atomic_load_n(&c->living, __ATOMIC_ACQUIRE)))
        gm_futex_wait(&c->living, living, NULL);
}

unsigned gm_residency_copy_threads(void) {
    cpu_set_t set;
    const int processors = sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set);
    return processors < DEFAULT_THREADS ? (unsigned)processors : DEFAULT_THREADS;
}

void gm_residency_copying_open(struct gm_residency_copying *c, unsigned threads) {
    c->wanted = threads - 1;
    pthread_mutex_init(&c->lock, NULL);
}

/* A child of fork() has none of the threads. */
void gm_residency_copying_close(struct gm_residency_copying *c) {
    if (c->living && c->process != getpid())
        return;
    pthread_mutex_lock(&c->lock);
    c->ends = true;
    __atomic_add_fetch(&c->openings, 1, __ATOMIC_RELAXED);
    gm_condition_wake(&c->opened);
    pthread_mutex_unlock(&c->lock);
    await_threads(c);
    pthread_mutex_destroy(&c->lock);
}

/* ---- slots */

bool gm_residency_slot_take(struct gm_residency_copying *c, struct gm_residency_job *job, size_t chunk, bool waits) {
    struct gm_residency_way *way = job->way;
    bool found = false;
    pthread_mutex_lock(&c->lock);
    while (!found) {
        for (unsigned i = 0; i < GM_RESIDENCY_SLOTS && !found; i++) {
            const unsigned slot = way->next++ % GM_RESIDENCY_SLOTS;
            if ((found = !way->taken[slot])) {
                way->taken[slot] = true;
                job->slots[chunk % GM_RESIDENCY_SLOTS] = slot;
            }
        }
        if (!found && !waits)
            break;
        if (!found)
            gm_condition_wait(&c->given, &c->lock);
    }
    pthread_mutex_unlock(&c->lock);
    return found;
}

void gm_residency_slot_give(struct gm_residency_copying *c, struct gm_residency_job *job, size_t chunk) {
    pthread_mutex_lock(&c->lock);
    job->way->taken[job->slots[chunk % GM_RESIDENCY_SLOTS]] = false;
    gm_condition_wake(&c->given);
    pthread_mutex_unlock(&c->lock);
}

/* ---- a job */

void gm_residency_job_begin(struct gm_residency_copying *c, struct gm_residency_job *job) {
    pthread_mutex_lock(&c->lock);
    const bool serves = job->object->bytes >= large && !c->job, makes = serves && !c->made;
    if (serves)
        c->job = job;
    c->made = c->made || makes;
    pthread_mutex_unlock(&c->lock);
    if (makes)
        make_threads(c);
}

void gm_residency_job_open(struct gm_residency_copying *c, struct gm_residency_job *job, size_t chunk) {
    const size_t rest = job->object->bytes - chunk * job->way->chunk;
    const size_t bytes = rest < job->way->chunk ? rest : job->way->chunk;
    const unsigned pieces = (unsigned)((bytes + piece_bytes(job) - 1) / piece_bytes(job));
    pthread_mutex_lock(&c->lock);
    job->left[chunk % GM_RESIDENCY_SLOTS] = pieces;
    job->opened += pieces;
    if (c->job == job) {
        __atomic_add_fetch(&c->openings, 1, __ATOMIC_RELAXED);
        gm_condition_wake(&c->opened);
    }
    pthread_mutex_unlock(&c->lock);
}

void gm_residency_job_finish(struct gm_residency_copying *c, struct gm_residency_job *job, size_t chunk) {
    pthread_mutex_lock(&c->lock);
    while (job->left[chunk % GM_RESIDENCY_SLOTS]) {
        if (job->next < job->opened)
            copy_next(c, job);
        else
            gm_condition_wait(&c->copied, &c->lock);
    }
    pthread_mutex_unlock(&c->lock);
}

void gm_residency_job_end(struct gm_residency_copying *c, struct gm_residency_job *job) {
    pthread_mutex_lock(&c->lock);
    if (c->job == job)
        c->job = NULL;
    pthread_mutex_unlock(&c->lock);
}
