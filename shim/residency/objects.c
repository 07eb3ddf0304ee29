/* Objects: numbers, the table by address, registration and versions. */
#include "shim/residency/parts.h"

#include <stdlib.h>
#include <string.h>

/* ---- numbers: the index + 1, and above it how many objects had the index before */

uint64_t gm_residency_number(const struct gpumem_residency *r, const struct gm_residency_object *object) {
    return (uint64_t)object->generation << 32 | (gm_residency_index(r, object) + 1);
}

struct gm_residency_object *gm_residency_find(struct gpumem_residency *r, uint64_t number) {
    const uint32_t index = (uint32_t)number - 1;
    struct gm_residency_object *object = index < r->object_count ? &r->objects[index] : NULL;
    if (object && object->registered && object->generation == number >> 32)
        return object;
    bool ended = object && number >> 32 < (uint64_t)object->generation + (object->registered != 0);
    gm_fail(GPUMEM_NOT_FOUND, "object %llu %s", (unsigned long long)number,
            ended ? "was unregistered" : "is not registered");
    return NULL;
}

/* The oldest free number, so that a policy has forgotten the object that had it. */
static struct gm_residency_object *take_number(struct gpumem_residency *r) {
    if (r->object_count < r->object_room)
        return &r->objects[r->object_count++];
    if (r->free_first == GM_RESIDENCY_NONE)
        return NULL;
    struct gm_residency_object *object = &r->objects[r->free_first];
    r->free_first = object->next;
    if (r->free_first == GM_RESIDENCY_NONE)
        r->free_last = GM_RESIDENCY_NONE;
    return object;
}

static void give_number(struct gpumem_residency *r, struct gm_residency_object *object) {
    const uint32_t index = gm_residency_index(r, object);
    *object = (struct gm_residency_object){.generation = object->generation + 1, .next = GM_RESIDENCY_NONE};
    if (r->free_last == GM_RESIDENCY_NONE)
        r->free_first = index;
    else
        r->objects[r->free_last].next = index;
    r->free_last = index;
}

/* ---- objects by the address of their first part */

static uint32_t *bucket_of_address(struct gpumem_residency *r, const void *address) {
    const uint64_t mixed = (uint64_t)(uintptr_t)address * 0x9e3779b97f4a7c15u;
    return &r->buckets[(mixed >> 32) & r->bucket_mask];
}

static struct gm_residency_object *find_address(struct gpumem_residency *r, const void *address) {
    uint32_t index = address ? *bucket_of_address(r, address) : GM_RESIDENCY_NONE;
    while (index != GM_RESIDENCY_NONE && r->objects[index].parts[0].address != address)
        index = r->objects[index].next;
    return index == GM_RESIDENCY_NONE ? NULL : &r->objects[index];
}

static void link_address(struct gpumem_residency *r, struct gm_residency_object *object) {
    if (!object->parts[0].address)
        return;
    uint32_t *bucket = bucket_of_address(r, object->parts[0].address);
    object->next = *bucket;
    *bucket = gm_residency_index(r, object);
}

static void unlink_address(struct gpumem_residency *r, struct gm_residency_object *object) {
    if (!object->parts[0].address)
        return;
    uint32_t *place = bucket_of_address(r, object->parts[0].address);
    while (&r->objects[*place] != object)
        place = &r->objects[*place].next;
    *place = object->next;
}

/* ---- registration */

/* What a registration describes: its parts, or the one piece as `single`. */
struct description {
    struct gpumem_part single;
    const struct gpumem_part *parts;
    size_t part_count, bytes;
    bool gpu_only;
};

static gm_status check_part(const struct gpumem_residency *r, const struct description *d, size_t index) {
    const struct gpumem_part *part = &d->parts[index];
    const bool needs_address = !d->gpu_only || d->parts[0].address;
    bool managed = false;
    if (!part->bytes)
        return gm_fail(GM_INVALID_VALUE, "part %zu of an object at %p has no bytes", index, d->parts[0].address);
    if (needs_address != (part->address != NULL))
        return gm_fail(GM_INVALID_VALUE, "part %zu of an object %s", index,
                       part->address ? "has an address and the first has none" : "has no address");
    if (!part->address || gm_memory_type(r->driver, (CUdeviceptr)part->address, &managed) != CU_MEMORYTYPE_DEVICE ||
        managed)
        return GM_OK;
    return gm_fail(GM_INVALID_VALUE, "%p is device memory, not host memory", part->address);
}

static gm_status describe_object(const struct gpumem_residency *r, const struct gpumem_object_options *options,
                                 struct description *d) {
    if (options->flags & ~(uint64_t)GPUMEM_OBJECT_GPU_ONLY)
        return gm_fail(GM_NOT_SUPPORTED, "object flags 0x%llx: gpumem %s knows 0x1", (unsigned long long)options->flags,
                       GM_VERSION);
    d->gpu_only = options->flags & GPUMEM_OBJECT_GPU_ONLY;
    d->single = (struct gpumem_part){options->address, options->bytes};
    d->parts = options->part_count ? options->parts : &d->single;
    d->part_count = options->part_count ? options->part_count : 1;
    if (!d->parts)
        return gm_fail(GM_INVALID_VALUE, "an object has %zu parts and parts is NULL", d->part_count);
    d->bytes = 0;
    for (size_t i = 0; i < d->part_count; i++) {
        gm_status status = check_part(r, d, i);
        if (status)
            return status;
        if (__builtin_add_overflow(d->bytes, d->parts[i].bytes, &d->bytes))
            d->bytes = SIZE_MAX;
    }
    if (options->part_count && options->bytes && options->bytes != d->bytes)
        return gm_fail(GM_INVALID_VALUE, "an object of %zu bytes has parts of %zu bytes", options->bytes, d->bytes);
    if (d->bytes > r->budget)
        return gm_fail(GM_INVALID_VALUE, "an object of %zu bytes is larger than the budget of %zu bytes", d->bytes,
                       r->budget);
    return GM_OK;
}

static gm_status check_same(const struct gm_residency_object *object, const struct description *d) {
    void *address = d->parts[0].address;
    if (object->bytes != d->bytes)
        return gm_fail(GM_INVALID_VALUE, "%p is registered with %zu bytes, and now with %zu: unregister it first",
                       address, object->bytes, d->bytes);
    if (object->gpu_only != d->gpu_only || object->part_count != d->part_count)
        return gm_fail(GM_INVALID_VALUE, "%p is registered with other flags or parts", address);
    for (size_t i = 0; i < d->part_count; i++)
        if (object->parts[i].address != d->parts[i].address || object->parts[i].bytes != d->parts[i].bytes)
            return gm_fail(GM_INVALID_VALUE, "%p is registered with another part %zu", address, i);
    return GM_OK;
}

static gm_status update(struct gpumem_residency *r, struct gm_residency_object *object, uint64_t version) {
    if (object->version == version)
        return GM_OK;
    if (gm_in_use(object))
        return gm_fail(GM_INVALID_VALUE, "object %llu is in use: its host memory must not change",
                       (unsigned long long)gm_residency_number(r, object));
    object->version = version;
    object->on_host = true;
    object->on_device = false;
    return GM_OK;
}

static gm_status add_object(struct gpumem_residency *r, const struct description *d, uint64_t version,
                            struct gm_residency_object **added) {
    struct gpumem_part *parts = NULL;
    if (d->part_count > 1 && !(parts = malloc(d->part_count * sizeof *parts)))
        return gm_fail(GM_OUT_OF_MEMORY, "no host memory for %zu parts", d->part_count);
    struct gm_residency_object *object = take_number(r);
    if (!object) {
        free(parts);
        return gm_fail(GM_OUT_OF_MEMORY, "%u objects are registered: options.objects allows no more", r->object_room);
    }
    object->single = d->parts[0];
    object->parts = parts ? parts : &object->single;
    memcpy(object->parts, d->parts, d->part_count * sizeof *d->parts);
    object->part_count = d->part_count;
    object->bytes = d->bytes;
    object->gpu_only = d->gpu_only;
    object->version = version;
    object->on_host = !d->gpu_only;
    link_address(r, object);
    r->stats.objects++;
    *added = object;
    return GM_OK;
}

GM_PUBLIC enum gpumem_status gpumem_residency_register(struct gpumem_residency *r,
                                                       const struct gpumem_object_options *options, uint64_t *number) {
    GM_NEED_AS(r, "residency");
    GM_NEED(number);
    struct gpumem_object_options known;
    struct gm_residency_call call;
    struct description d;
    gm_status status = gm_struct_read("gpumem_object_options", &known, sizeof known, options);
    if (!status)
        status = describe_object(r, &known, &d);
    if (!status)
        status = gm_residency_enter(r, &call, false);
    if (status)
        return status;
    struct gm_residency_object *object = find_address(r, d.parts[0].address);
    for (; object && object->busy; object = find_address(r, d.parts[0].address))
        gm_residency_await_move(r, &call); /* another version has to wait for that */
    if (!object)
        status = add_object(r, &d, known.version, &object);
    else if (!(status = check_same(object, &d)))
        status = update(r, object, known.version);
    if (!status) {
        object->registered++;
        *number = gm_residency_number(r, object);
    }
    gm_residency_leave(r, &call);
    return status;
}

/* ---- end and change */

static gm_status end_object(struct gpumem_residency *r, struct gm_residency_object *object) {
    object->busy = true; /* a registration of the same address waits for the end */
    gm_status status = object->resident ? gm_residency_end_copy(r, object, false) : GM_OK;
    gm_status host = gm_residency_wait_host(r, object);
    gm_residency_event_put(r, object->host_work);
    object->host_work = NULL;
    gm_residency_leave_home(r, object);
    unlink_address(r, object);
    if (object->parts != &object->single)
        free(object->parts);
    gm_residency_moved(r, object);
    give_number(r, object);
    r->stats.objects--;
    return status ? status : host;
}

GM_PUBLIC enum gpumem_status gpumem_residency_unregister(struct gpumem_residency *r, uint64_t number) {
    GM_NEED_AS(r, "residency");
    struct gm_residency_call call;
    gm_status status = gm_residency_enter(r, &call, true);
    if (status)
        return status;
    struct gm_residency_object *object = gm_residency_find(r, number);
    if (!object)
        status = GPUMEM_NOT_FOUND;
    else if (object->registered > 1)
        object->registered--;
    else if (gm_in_use(object))
        status =
            gm_fail(GM_INVALID_VALUE, "object %llu is in use and cannot be unregistered", (unsigned long long)number);
    else
        status = end_object(r, object);
    gm_residency_leave(r, &call);
    return status;
}

GM_PUBLIC enum gpumem_status gpumem_residency_update(struct gpumem_residency *r, uint64_t number, uint64_t version) {
    GM_NEED_AS(r, "residency");
    struct gm_residency_call call;
    gm_status status = gm_residency_enter(r, &call, true);
    if (status)
        return status;
    struct gm_residency_object *object = gm_residency_find(r, number);
    if (!object)
        status = GPUMEM_NOT_FOUND;
    else if (!object->parts[0].address && !object->home)
        status = gm_fail(GM_INVALID_VALUE, "object %llu is GPU-only and has no host memory that could have changed",
                         (unsigned long long)number);
    else
        status = update(r, object, version);
    gm_residency_leave(r, &call);
    return status;
}
