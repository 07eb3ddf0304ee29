/* Transfers. Contiguous pinned host memory is copied directly, and the call does not wait. Other memory passes a ring
 * of pinned staging memory: the host copies some chunks while the device copies others. */
#include "shim/residency/parts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- host memory of an object */

static bool is_contiguous(const struct gm_residency_object *object) {
    size_t offset = 0;
    for (size_t i = 0; i < object->part_count; i++) {
        if (gm_residency_part(object, i, offset) != gm_residency_part(object, 0, 0) + offset)
            return false;
        offset += object->parts[i].bytes;
    }
    return true;
}

/* Memory that the driver copies without waiting: pinned, or managed. */
static bool is_known_to_driver(const struct gpumem_residency *r, const char *address) {
    bool managed;
    return gm_memory_type(r->driver, (CUdeviceptr)address, &managed) != 0;
}

static bool is_direct(const struct gpumem_residency *r, const struct gm_residency_object *object) {
    const char *first = gm_residency_part(object, 0, 0);
    return is_contiguous(object) && is_known_to_driver(r, first) && is_known_to_driver(r, first + object->bytes - 1);
}

/* Whether all pages are mapped: msync with MS_ASYNC does nothing else. The C library's own is a cancellation point. */
static bool is_mapped(const char *address, size_t bytes) {
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), first = (uintptr_t)address & ~(page - 1);
    return !syscall(SYS_msync, first, (uintptr_t)address + bytes - first, MS_ASYNC) || errno != ENOMEM;
}

static gm_status check_mapped(const struct gpumem_residency *r, const struct gm_residency_object *object) {
    const int saved = errno;
    gm_status status = GM_OK;
    for (size_t i = 0, offset = 0; i < object->part_count && !status; i++) {
        const char *address = gm_residency_part(object, i, offset);
        if (!is_mapped(address, object->parts[i].bytes))
            status = gm_fail(GPUMEM_NOT_FOUND, "host memory of object %llu was freed: %zu bytes at %p are not mapped",
                             (unsigned long long)gm_residency_number(r, object), object->parts[i].bytes,
                             (const void *)address);
        offset += object->parts[i].bytes;
    }
    errno = saved;
    return status;
}

/* ---- homes */

static gm_status pin(struct gpumem_residency *r, size_t bytes, const char *what, void *made) {
    gm_residency_pause(r);
    gm_status status = r->driver->mem_host_alloc(made, bytes, 0);
    gm_residency_resume(r);
    if (status)
        return gm_fail(status, "no pinned host memory for %s of %zu bytes: %s", what, bytes,
                       gpumem_status_name(status));
    r->stats.host_bytes += bytes;
    return GM_OK;
}

static void free_home(struct gpumem_residency *r, struct gm_residency_home *home) {
    if (GM_TWICE(r->driver->mem_free_host(home->address)))
        gm_log(GM_LOG_ERROR, "a home of %zu bytes cannot be freed", home->bytes);
    gm_residency_event_put(r, home->work);
    r->stats.host_bytes -= home->bytes;
    free(home);
}

void gm_residency_free_homes(struct gpumem_residency *r) {
    while (r->homes) {
        struct gm_residency_home *home = r->homes;
        r->homes = home->next;
        free_home(r, home);
    }
}

void gm_residency_leave_home(struct gpumem_residency *r, struct gm_residency_object *object) {
    struct gm_residency_home *home = object->home;
    if (!home)
        return;
    home->work = object->host_work;
    home->next = r->homes;
    r->homes = home;
    object->home = NULL;
    object->host_work = NULL;
}

static struct gm_residency_home *find_home(struct gpumem_residency *r, size_t bytes) {
    for (struct gm_residency_home **place = &r->homes; *place; place = &(*place)->next) {
        struct gm_residency_home *home = *place;
        if (home->bytes == bytes) {
            *place = home->next;
            return home;
        }
    }
    return NULL;
}

/* Gives back the homes that no object uses, behind their transfers. */
static gm_status free_idle_homes(struct gpumem_residency *r) {
    for (struct gm_residency_home *home = r->homes; home; home = home->next) {
        gm_status status = home->work ? (gm_status)r->driver->event_synchronize(home->work) : GM_OK;
        if (status)
            return gm_fail(status, "a transfer of a home failed: %s", gpumem_status_name(status));
    }
    gm_residency_free_homes(r);
    return GM_OK;
}

static gm_status make_home(struct gpumem_residency *r, size_t bytes, struct gm_residency_home **made) {
    struct gm_residency_home *home = calloc(1, sizeof *home);
    if (!home)
        return gm_fail(GM_OUT_OF_MEMORY, "no host memory for a home");
    gm_status status = pin(r, bytes, "a home", &home->address);
    if (status == GM_OUT_OF_MEMORY && r->homes && !(status = free_idle_homes(r)))
        status = pin(r, bytes, "a home", &home->address);
    if (status) {
        free(home);
        return status;
    }
    home->bytes = bytes;
    *made = home;
    return GM_OK;
}

static gm_status need_home(struct gpumem_residency *r, struct gm_residency_object *object) {
    if (object->parts[0].address || object->home)
        return GM_OK;
    struct gm_residency_home *home = find_home(r, object->bytes);
    gm_status status = home ? GM_OK : make_home(r, object->bytes, &home);
    if (status)
        return status;
    object->home = home;
    object->host_work = home->work;
    home->work = NULL;
    return GM_OK;
}

/* ---- streams and staging memory, made at first use */

static gm_status need_stream(struct gpumem_residency *r, struct gm_residency_way *way) {
    gm_status status = way->stream ? GM_OK : (gm_status)r->driver->stream_create(&way->stream, CU_STREAM_NON_BLOCKING);
    return status ? gm_fail(status, "no stream for transfers: %s", gpumem_status_name(status)) : GM_OK;
}

/* Only one of several threads allocates the memory. */
static gm_status need_staging(struct gpumem_residency *r, struct gm_residency_way *way) {
    gm_status status = GM_OK;
    for (unsigned i = 0; i < GM_RESIDENCY_SLOTS && !status; i++)
        if (!way->busy[i] && (status = r->driver->event_create(&way->busy[i], CU_EVENT_DISABLE_TIMING)))
            gm_fail(status, "no event for transfers: %s", gpumem_status_name(status));
    while (!status && way->pinning)
        gm_condition_wait(&r->moved, &r->state);
    if (status || way->staging)
        return status;
    way->pinning = true;
    status = pin(r, way->chunk * GM_RESIDENCY_SLOTS, "staging", &way->staging);
    way->pinning = false;
    gm_condition_wake(&r->moved);
    return status;
}

/* ---- through staging memory: the threads copy some chunks while the device copies others */

enum { AHEAD = 2 }; /* chunks that are open besides the one that is finished: work for threads that are done with it */

static size_t chunks_of(const struct gm_residency_job *job) {
    return (job->object->bytes + job->way->chunk - 1) / job->way->chunk;
}

/* The driver's copy of one chunk, and its event. */
static gm_status copy_chunk(struct gpumem_residency *r, const struct gm_residency_job *job, size_t chunk) {
    const struct gm_residency_way *way = job->way;
    const size_t offset = chunk * way->chunk, rest = job->object->bytes - offset;
    const CUdeviceptr device = job->object->copy->address + offset, staged = (CUdeviceptr)gm_residency_slot(job, chunk);
    gm_status status =
        (gm_status)r->driver->memcpy_async(job->to_staging ? device : staged, job->to_staging ? staged : device,
                                           rest < way->chunk ? rest : way->chunk, way->stream);
    const CUevent busy = way->busy[job->slots[chunk % GM_RESIDENCY_SLOTS]];
    return status ? status : (gm_status)r->driver->event_record(busy, way->stream);
}

static gm_status await_chunk(struct gpumem_residency *r, const struct gm_residency_job *job, size_t chunk) {
    return r->driver->event_synchronize(job->way->busy[job->slots[chunk % GM_RESIDENCY_SLOTS]]);
}

/* Also after a failure, since the threads copy what is open. */
static gm_status send_chunk(struct gpumem_residency *r, struct gm_residency_job *job, size_t chunk, gm_status status) {
    gm_residency_job_finish(&r->copying, job, chunk);
    status = status ? status : copy_chunk(r, job, chunk);
    gm_residency_slot_give(&r->copying, job, chunk);
    return status;
}

/* Several threads may be here. One that has slots does not wait for another one. */
static gm_status stage_in(struct gpumem_residency *r, struct gm_residency_job *job) {
    const size_t chunks = chunks_of(job);
    gm_status status = GM_OK;
    size_t opened = 0, sent = 0;
    while (opened < chunks && !status) {
        if (opened - sent > AHEAD || !gm_residency_slot_take(&r->copying, job, opened, sent == opened)) {
            status = send_chunk(r, job, sent++, status);
        } else if ((status = await_chunk(r, job, opened))) {
            gm_residency_slot_give(&r->copying, job, opened);
        } else {
            gm_residency_job_open(&r->copying, job, opened++);
        }
    }
    while (sent < opened)
        status = send_chunk(r, job, sent++, status);
    return status;
}

/* One thread at a time is here. */
static gm_status stage_out(struct gpumem_residency *r, struct gm_residency_job *job) {
    const size_t chunks = chunks_of(job);
    gm_status status = GM_OK;
    size_t started = 0, opened = 0, finished = 0;
    for (unsigned i = 0; i < GM_RESIDENCY_SLOTS; i++)
        job->slots[i] = i;
    while (opened < chunks && !status) {
        for (; started < chunks && started - finished < GM_RESIDENCY_SLOTS && !status; started++)
            status = copy_chunk(r, job, started);
        if (!status)
            status = await_chunk(r, job, opened);
        if (!status)
            gm_residency_job_open(&r->copying, job, opened++);
        if (opened - finished > AHEAD)
            gm_residency_job_finish(&r->copying, job, finished++);
    }
    while (finished < opened)
        gm_residency_job_finish(&r->copying, job, finished++);
    return status;
}

static gm_status stage(struct gpumem_residency *r, struct gm_residency_way *way,
                       const struct gm_residency_object *object) {
    struct gm_residency_job job = {.object = object, .way = way, .to_staging = way == &r->to_device};
    gm_residency_job_begin(&r->copying, &job);
    gm_status status = job.to_staging ? stage_in(r, &job) : stage_out(r, &job);
    gm_residency_job_end(&r->copying, &job);
    return status;
}

/* ---- transfers */

/* The transfer just submitted uses host memory after the call. Without an event it is waited for. */
static gm_status note_host_work(struct gpumem_residency *r, struct gm_residency_object *object, CUstream stream) {
    gm_status status = object->host_work ? GM_OK : gm_residency_event_take(r, &object->host_work);
    if (!status)
        status = r->driver->event_record(object->host_work, stream);
    return status ? (gm_status)r->driver->stream_synchronize(stream) : GM_OK;
}

static gm_status prepare_transfer(struct gpumem_residency *r, struct gm_residency_way *way,
                                  struct gm_residency_object *object, bool direct) {
    gm_status status = need_stream(r, way);
    if (!status && !direct)
        status = check_mapped(r, object);
    if (!status && !direct)
        status = need_staging(r, way);
    if (!status)
        status = gm_residency_order(r, object->copy, way->stream, way == &r->to_device);
    if (!status && direct && object->host_work)
        status = r->driver->stream_wait_event(way->stream, object->host_work, 0);
    else if (!status && object->host_work)
        status = gm_residency_wait_host(r, object);
    return status;
}

/* Submits the copies, without `state`. */
static gm_status submit(struct gpumem_residency *r, struct gm_residency_way *way, struct gm_residency_object *object,
                        bool direct) {
    const bool in = way == &r->to_device;
    const CUdeviceptr host = (CUdeviceptr)gm_residency_part(object, 0, 0), device = object->copy->address;
    gm_status status;
    gm_residency_pause(r);
    if (direct)
        status = (gm_status)r->driver->memcpy_async(in ? device : host, in ? host : device, object->bytes, way->stream);
    else
        status = stage(r, way, object);
    gm_residency_resume(r);
    if (status)
        return gm_fail(status, "%zu bytes of object %llu cannot be transferred: %s", object->bytes,
                       (unsigned long long)gm_residency_number(r, object), gpumem_status_name(status));
    r->stats.copies += direct ? 1 : (object->bytes + way->chunk - 1) / way->chunk;
    return GM_OK;
}

static gm_status transfer(struct gpumem_residency *r, struct gm_residency_way *way,
                          struct gm_residency_object *object) {
    const bool in = way == &r->to_device;
    object->busy = true; /* before the home, whose allocation releases `state` */
    gm_status status = in ? GM_OK : need_home(r, object);
    const bool direct = !status && is_direct(r, object);
    if (!status)
        status = prepare_transfer(r, way, object, direct);
    if (!status) {
        status = submit(r, way, object, direct);
        if (!status && direct)
            status = note_host_work(r, object, way->stream);
        gm_status recorded = gm_residency_record(r, object->copy, way->stream, in);
        status = status ? status : recorded;
    }
    gm_residency_moved(r, object);
    return status;
}

gm_status gm_residency_to_device(struct gpumem_residency *r, struct gm_residency_object *object) {
    const uint64_t begin = gm_now_ns();
    gm_status status = transfer(r, &r->to_device, object);
    r->stats.transfer_ns += gm_now_ns() - begin;
    if (status)
        return status;
    object->on_device = true;
    r->stats.transfers_to_device++;
    r->stats.bytes_to_device += object->bytes;
    return GM_OK;
}

gm_status gm_residency_to_host(struct gpumem_residency *r, struct gm_residency_object *object, uint64_t *spent) {
    const uint64_t begin = gm_now_ns();
    gm_status status = transfer(r, &r->to_host, object);
    *spent += gm_now_ns() - begin;
    if (status)
        return status;
    object->on_host = true;
    r->stats.transfers_to_host++;
    r->stats.bytes_to_host += object->bytes;
    return GM_OK;
}

gm_status gm_residency_wait_host(struct gpumem_residency *r, struct gm_residency_object *object) {
    const unsigned long long number = gm_residency_number(r, object);
    const CUevent work = object->host_work; /* events live as long as the residency */
    if (!work)
        return GM_OK;
    gm_residency_pause(r);
    gm_status status = r->driver->event_synchronize(work);
    gm_residency_resume(r);
    return status ? gm_fail(status, "a transfer of object %llu failed: %s", number, gpumem_status_name(status)) : GM_OK;
}
