/* Residencies: creation and destruction, announcements and statistics. */
#include "shim/residency/parts.h"

#include <stdlib.h>
#include <string.h>

#include "shim/driver/internal_stream.h"
#include "shim/driver/quiesce.h"

enum { DEFAULT_OBJECTS = 65536, MOST_OBJECTS = 1 << 24, DEFAULT_WINDOW = 4096, CHUNK_UNIT = 4096 };

static const size_t default_staging = (size_t)32 << 20;

/* ---- creation */

static gm_status read_residency_options(const struct gpumem_residency_options *options,
                                        struct gpumem_residency_options *known) {
    const uint64_t flags = GPUMEM_RESIDENCY_NO_REUSE | GPUMEM_RESIDENCY_NO_LAZY_RELEASE |
                           GPUMEM_RESIDENCY_NO_ON_DEMAND | GPUMEM_RESIDENCY_WAIT;
    *known = (struct gpumem_residency_options){0};
    gm_status status = options ? gm_struct_read("gpumem_residency_options", known, sizeof *known, options) : GM_OK;
    if (status)
        return status;
    if (known->flags & ~flags)
        return gm_fail(GM_NOT_SUPPORTED, "residency flags 0x%llx: gpumem %s knows 0x%llx",
                       (unsigned long long)known->flags, GM_VERSION, (unsigned long long)flags);
    known->eviction = known->eviction ? known->eviction : "window";
    known->staging = known->staging ? known->staging : default_staging;
    known->objects = known->objects ? known->objects : DEFAULT_OBJECTS;
    known->window = known->window ? known->window : DEFAULT_WINDOW;
    known->copy_threads = known->copy_threads ? known->copy_threads : gm_residency_copy_threads();
    if (!gm_eviction_find(known->eviction))
        return gm_fail(GM_INVALID_VALUE, "there is no eviction policy \"%.80s\"", known->eviction);
    if (known->objects > MOST_OBJECTS || known->window > MOST_OBJECTS)
        return gm_fail(GM_INVALID_VALUE, "%zu objects, vectors of %zu: at most %d", known->objects, known->window,
                       (int)MOST_OBJECTS);
    if (known->copy_threads > GM_RESIDENCY_COPIERS + 1)
        return gm_fail(GM_INVALID_VALUE, "%zu copying threads: at most %d", known->copy_threads,
                       GM_RESIDENCY_COPIERS + 1);
    if (!known->allocate != !known->release)
        return gm_fail(GM_INVALID_VALUE, "options have one of allocate and release, but not both");
    return GM_OK;
}

static gm_status default_budget(size_t *budget) {
    size_t free_bytes = 0, total;
    gm_status status = gm_program_driver()->mem_get_info(&free_bytes, &total);
    if (status)
        return gm_fail(status, "the free memory of the device is unknown: %s", gpumem_status_name(status));
    *budget = free_bytes / 10 * 9;
    return GM_OK;
}

static void *allocate_policy(size_t bytes, void *user) { return malloc(bytes); }
static void release_policy(void *memory, size_t bytes, void *user) { free(memory); }

static void free_copy(struct gm_residency_copy *copy) {
    if (copy)
        free(copy->read);
    free(copy);
}

/* What describes memory of a context that was destroyed. */
static void free_descriptions(struct gpumem_residency *r) {
    while (r->pool_count)
        free_copy(r->pool[--r->pool_count]);
    while (r->homes) {
        struct gm_residency_home *home = r->homes;
        r->homes = home->next;
        free(home);
    }
}

static void free_tables(struct gpumem_residency *r) {
    for (uint32_t i = 0; r->objects && i < r->object_count; i++) {
        free_copy(r->objects[i].copy);
        free(r->objects[i].home);
        if (r->objects[i].parts != &r->objects[i].single)
            free(r->objects[i].parts);
    }
    free_descriptions(r);
    gm_eviction_close(r->eviction);
    free(r->objects);
    free(r->held);
    free(r->buckets);
    free(r->vector);
    free(r->pool);
    free(r->events);
    gm_residency_copying_close(&r->copying);
    pthread_mutex_destroy(&r->placement);
    pthread_mutex_destroy(&r->state);
    free(r);
}

static bool make_tables(struct gpumem_residency *r, const struct gpumem_residency_options *options) {
    const struct gm_eviction_setup setup = {
        .policy = gm_eviction_find(options->eviction),
        .objects = (uint32_t)options->objects,
        .window = (uint32_t)options->window,
        .capacity = r->budget,
        .seed = options->seed,
        .allocate = allocate_policy,
        .release = release_policy,
    };
    uint32_t buckets = 16;
    while (buckets < options->objects)
        buckets *= 2;
    r->object_room = setup.objects;
    r->window = setup.window;
    r->bucket_mask = buckets - 1;
    r->free_first = r->free_last = GM_RESIDENCY_NONE;
    r->objects = calloc(options->objects, sizeof *r->objects);
    r->buckets = malloc(buckets * sizeof *r->buckets);
    r->vector = malloc(options->window * sizeof *r->vector);
    if (!r->objects || !r->buckets || !r->vector || gm_eviction_open(&setup, &r->eviction))
        return false;
    memset(r->buckets, 0xff, buckets * sizeof *r->buckets);
    return true;
}

GM_PUBLIC enum gpumem_status gpumem_residency_create(const struct gpumem_residency_options *options,
                                                     struct gpumem_residency **residency) {
    GM_NEED(residency);
    struct gpumem_residency_options known;
    struct gm_context context;
    gm_status status = read_residency_options(options, &known);
    if (status)
        return status;
    if ((status = gm_program_context(&context)))
        return status;
    if (!known.budget && (status = default_budget(&known.budget)))
        return status;
    struct gpumem_residency *made = calloc(1, sizeof *made);
    if (!made)
        return gm_fail(GM_OUT_OF_MEMORY, "no host memory for a residency");
    made->driver = gm_program_driver();
    made->context = context;
    made->budget = known.budget;
    made->allocate = known.allocate;
    made->release = known.release;
    made->user = known.user;
    made->flags = known.flags;
    made->to_device.chunk = known.staging / 2 / GM_RESIDENCY_SLOTS / CHUNK_UNIT * CHUNK_UNIT;
    made->to_device.chunk = made->to_device.chunk ? made->to_device.chunk : CHUNK_UNIT;
    made->to_host.chunk = made->to_device.chunk;
    made->held_free = GM_RESIDENCY_NONE;
    pthread_mutex_init(&made->placement, NULL);
    pthread_mutex_init(&made->state, NULL);
    gm_residency_copying_open(&made->copying, (unsigned)known.copy_threads);
    if (!make_tables(made, &known)) {
        free_tables(made);
        return gm_fail(GM_OUT_OF_MEMORY, "no host memory for a residency of %zu objects", known.objects);
    }
    *residency = made;
    return GPUMEM_OK;
}

/* ---- destruction */

static void end_way(struct gpumem_residency *r, struct gm_residency_way *way) {
    for (unsigned i = 0; i < GM_RESIDENCY_SLOTS; i++)
        gm_residency_event_put(r, way->busy[i]);
    if (way->staging)
        (void)GM_TWICE(r->driver->mem_free_host(way->staging));
    if (way->stream)
        (void)GM_TWICE(r->driver->stream_destroy(way->stream));
}

static void free_memory(struct gpumem_residency *r) {
    for (uint32_t i = 0; i < r->object_count; i++) {
        struct gm_residency_object *object = &r->objects[i];
        if (object->copy)
            gm_residency_free_copy(r, object->copy);
        object->copy = NULL;
        gm_residency_event_put(r, object->host_work);
        object->host_work = NULL;
        gm_residency_leave_home(r, object);
    }
    while (r->pool_count)
        gm_residency_free_copy(r, r->pool[--r->pool_count]);
    gm_residency_free_homes(r);
    end_way(r, &r->to_device);
    end_way(r, &r->to_host);
    while (r->event_count)
        (void)r->driver->event_destroy(r->events[--r->event_count]);
}

GM_PUBLIC enum gpumem_status gpumem_residency_destroy(struct gpumem_residency *r) {
    struct gm_residency_call call;
    if (!r)
        return GPUMEM_OK;
    gm_status status = gm_residency_enter(r, &call, true);
    if (!status) {
        gm_residency_pause(r);
        status = gm_wait_natively(r->context.handle);
        gm_residency_resume(r);
        free_memory(r);
        gm_residency_leave(r, &call);
        if (status)
            gm_fail(status, "work before the destruction of a residency failed: %s", gpumem_status_name(status));
    }
    free_tables(r);
    return status;
}

/* ---- announcements and statistics */

GM_PUBLIC enum gpumem_status gpumem_residency_announce(struct gpumem_residency *r, const uint64_t *objects,
                                                       size_t count) {
    GM_NEED_AS(r, "residency");
    GM_NEED_ARRAY(objects, count);
    gm_status status = GM_OK;
    if (count > r->window)
        return gm_fail(GM_INVALID_VALUE, "a vector of %zu objects: options.window is %u", count, r->window);
    pthread_mutex_lock(&r->state);
    for (size_t i = 0; i < count && !status; i++) {
        const struct gm_residency_object *object = gm_residency_find(r, objects[i]);
        if (object)
            r->vector[i] = gm_residency_index(r, object);
        else
            status = GPUMEM_NOT_FOUND;
    }
    if (!status)
        status = gm_eviction_announce(r->eviction, r->vector, (uint32_t)count);
    pthread_mutex_unlock(&r->state);
    return status;
}

GM_PUBLIC enum gpumem_status gpumem_residency_get_stats(struct gpumem_residency *r,
                                                        struct gpumem_residency_stats *stats) {
    GM_NEED_AS(r, "residency");
    GM_NEED(stats);
    pthread_mutex_lock(&r->state);
    struct gpumem_residency_stats now = r->stats;
    now.resident = gm_eviction_resident_objects(r->eviction);
    now.resident_bytes = gm_eviction_resident_bytes(r->eviction);
    now.pool_bytes = 0;
    for (unsigned i = 0; i < r->pool_count; i++)
        now.pool_bytes += r->pool[i]->bytes;
    pthread_mutex_unlock(&r->state);
    return gm_struct_write("gpumem_residency_stats", stats, &now, sizeof now);
}
