/* Vectors of gpumem.h: elements in a region. The driver's asynchronous copies and fills move and fill them in the
 * vector's stream.
 *
 * The result of an overlapping copy is undefined. So elements that move by a short distance are copied through a
 * second region, the staging region. It is created when first needed, and destroyed when the vector shrinks. */
#include <stdlib.h>

#include "shim/base/base.h"
#include "shim/gpumem.h"
#include "shim/driver/internal_stream.h"
#include "shim/driver/program_driver.h"
#include "shim/region/region.h"
#include "shim/base/error.h"

/* DIRECT_COPIES: a move that needs at most this many non-overlapping copies does not use the staging region.
 * staging_max: bytes that are copied through it at a time. */
enum { DIRECT_COPIES = 16 };
static const size_t staging_max = (size_t)32 << 20;

struct gpumem_vector {
    struct gpumem_region *region;
    struct gpumem_region *staging; /* second region for overlapping moves; NULL until needed */
    size_t element, count;         /* bytes, elements */
    CUstream stream;
};

/* ---- copies in the vector's stream */

static CUdeviceptr base_of(struct gpumem_region *region) {
    struct gpumem_view view = {.struct_size = sizeof view};
    gpumem_region_view(region, &view);
    return (CUdeviceptr)(uintptr_t)view.base;
}

static CUdeviceptr at(const struct gpumem_vector *vector, size_t index) {
    return base_of(vector->region) + index * vector->element;
}

static gm_status checked(CUresult result, const char *what, size_t size) {
    return result ? gm_fail((gm_status)result, "%s of %zu bytes failed with CUresult %d", what, size, (int)result)
                  : GM_OK;
}

static gm_status copy(const struct gpumem_vector *vector, CUdeviceptr to, CUdeviceptr from, size_t size) {
    bool pushed;
    gm_status status = size ? gm_region_enter(vector->region, &pushed) : GM_OK;
    if (status || !size)
        return status;
    CUresult result = gm_program_driver()->memcpy_async(to, from, size, vector->stream);
    gm_context_leave(pushed);
    return checked(result, "a copy", size);
}

/* Copies `size` bytes from `from` to `to`, which overlap, in chunks that do not overlap. When the data moves up, the
 * last chunk is copied first. With `staging`, each chunk is copied through it. */
static gm_status copy_overlapping(const struct gpumem_vector *vector, CUdeviceptr to, CUdeviceptr from, size_t size,
                                  size_t chunk, CUdeviceptr staging) {
    gm_status status = GM_OK;
    bool up = to > from;
    for (size_t done = 0; done < size && !status; done += chunk) {
        size_t part = size - done < chunk ? size - done : chunk;
        size_t offset = up ? size - done - part : done;
        if (staging)
            status = copy(vector, staging, from + offset, part);
        if (!status)
            status = copy(vector, to + offset, staging ? staging : from + offset, part);
    }
    return status;
}

static gm_status need_staging(struct gpumem_vector *vector, size_t size, size_t *chunk) {
    struct gpumem_region_options options = {
        .struct_size = sizeof options, .reserve = staging_max, .flags = GPUMEM_REGION_EXACT};
    gm_status status = GM_OK;
    *chunk = size < staging_max ? size : staging_max;
    if (!vector->staging)
        status = gpumem_region_create(&options, &vector->staging);
    if (!status)
        status = gpumem_region_grow(vector->staging, *chunk);
    return status;
}

/* Moves the elements [first, first + count) to `target`. Everything that may fail for lack of memory is done before
 * the first byte moves. */
static gm_status move_elements(struct gpumem_vector *vector, size_t target, size_t first, size_t count) {
    size_t size = count * vector->element, chunk;
    size_t gap = (target > first ? target - first : first - target) * vector->element;
    if (!size || !gap)
        return GM_OK;
    CUdeviceptr to = at(vector, target), from = at(vector, first);
    if (size / gap <= DIRECT_COPIES)
        return copy_overlapping(vector, to, from, size, gap, 0);
    gm_status status = need_staging(vector, size, &chunk);
    return status ? status : copy_overlapping(vector, to, from, size, chunk, base_of(vector->staging));
}

/* ---- values */

/* The index of the element when the value is an element of this vector, and `count` when it lies elsewhere. A value
 * that is not at the start of an element is refused. */
static gm_status own_index(const struct gpumem_vector *vector, const void *value, size_t *index) {
    size_t offset = (CUdeviceptr)(uintptr_t)value - at(vector, 0);
    *index = vector->count;
    if (offset >= vector->count * vector->element)
        return GM_OK;
    if (offset % vector->element)
        return gm_fail(GM_INVALID_VALUE, "the value lies across two elements of %zu bytes", vector->element);
    *index = offset / vector->element;
    return GM_OK;
}

static gm_status zero(const struct gpumem_vector *vector, size_t first, size_t count) {
    size_t size = count * vector->element;
    bool pushed;
    gm_status status = size ? gm_region_enter(vector->region, &pushed) : GM_OK;
    if (status || !size)
        return status;
    CUresult result = gm_program_driver()->memset_d8_async(at(vector, first), 0, size, vector->stream);
    gm_context_leave(pushed);
    return checked(result, "a fill", size);
}

/* Copies one element, then doubles the filled part. It reads what it wrote, so it costs as much as one copy of the
 * whole and a few calls. */
static gm_status fill_elements(const struct gpumem_vector *vector, size_t first, size_t count, CUdeviceptr value) {
    CUdeviceptr to = at(vector, first);
    size_t size = count * vector->element, done = vector->element;
    if (!size)
        return GM_OK;
    gm_status status = value == to ? GM_OK : copy(vector, to, value, vector->element);
    while (done < size && !status) {
        size_t part = size - done < done ? size - done : done;
        status = copy(vector, to + done, to, part);
        done += part;
    }
    return status;
}

/* ---- creation and destruction */

GM_PUBLIC enum gpumem_status gpumem_vector_create(const struct gpumem_region_options *options, size_t element_size,
                                                  struct CUstream_st *stream, struct gpumem_vector **vector) {
    GM_NEED(vector);
    if (!element_size)
        return gm_fail(GM_INVALID_VALUE, "elements of 0 bytes");
    struct gpumem_vector *made = calloc(1, sizeof *made);
    if (!made)
        return gm_fail(GM_OUT_OF_MEMORY, "no host memory for a vector");
    made->element = element_size;
    made->stream = stream;
    gm_status status = gpumem_region_create(options, &made->region);
    if (status)
        free(made);
    else
        *vector = made;
    return status;
}

GM_PUBLIC enum gpumem_status gpumem_vector_destroy(struct gpumem_vector *vector) {
    if (!vector)
        return GPUMEM_OK;
    gm_status status = gpumem_region_destroy(vector->region);
    if (status == GPUMEM_STREAM_CAPTURE)
        return status;
    /* When a capture began meanwhile, the staging region is leaked. Its work is done, so it disturbs no other work. */
    if (gpumem_region_destroy(vector->staging) == GPUMEM_STREAM_CAPTURE)
        gm_log(GM_LOG_WARN, "the staging memory of a destroyed vector is leaked: a stream captures");
    free(vector);
    return status;
}

GM_PUBLIC void *gpumem_vector_data(const struct gpumem_vector *vector) {
    return vector ? (void *)(uintptr_t)at(vector, 0) : NULL;
}
GM_PUBLIC size_t gpumem_vector_count(const struct gpumem_vector *vector) { return vector ? vector->count : 0; }
GM_PUBLIC struct gpumem_region *gpumem_vector_region(struct gpumem_vector *vector) {
    return vector ? vector->region : NULL;
}
GM_PUBLIC void gpumem_vector_set_stream(struct gpumem_vector *vector, struct CUstream_st *stream) {
    if (vector)
        vector->stream = stream;
}

GM_PUBLIC size_t gpumem_vector_capacity(const struct gpumem_vector *vector) {
    struct gpumem_view view = {.struct_size = sizeof view};
    if (!vector)
        return 0;
    gpumem_region_view(vector->region, &view);
    return view.mapped / vector->element;
}

GM_PUBLIC void gpumem_vector_swap(struct gpumem_vector *one, struct gpumem_vector *other) {
    if (!one || !other)
        return;
    struct gpumem_vector saved = *one;
    *one = *other;
    *other = saved;
}

/* ---- size */

GM_PUBLIC enum gpumem_status gpumem_vector_reserve(struct gpumem_vector *vector, size_t count) {
    GM_NEED(vector);
    size_t size;
    if (__builtin_mul_overflow(count, vector->element, &size))
        return gm_fail(GM_OUT_OF_MEMORY, "%zu elements of %zu bytes requested", count, vector->element);
    return gpumem_region_grow(vector->region, size);
}

/* Grows the region for `more` elements behind the last. */
static gm_status make_element_room(struct gpumem_vector *vector, size_t more) {
    size_t count;
    if (__builtin_add_overflow(vector->count, more, &count))
        return gm_fail(GM_OUT_OF_MEMORY, "%zu more elements requested of a vector of %zu", more, vector->count);
    return gpumem_vector_reserve(vector, count);
}

GM_PUBLIC enum gpumem_status gpumem_vector_append(struct gpumem_vector *vector, size_t count) {
    GM_NEED(vector);
    gm_status status = make_element_room(vector, count);
    vector->count += status ? 0 : count;
    return status;
}

GM_PUBLIC enum gpumem_status gpumem_vector_resize(struct gpumem_vector *vector, size_t count, const void *value) {
    GM_NEED(vector);
    if (count > vector->count && value)
        return gpumem_vector_insert(vector, vector->count, count - vector->count, value);
    gm_status status = gpumem_vector_reserve(vector, count);
    if (!status && count > vector->count)
        status = zero(vector, vector->count, count - vector->count);
    if (!status)
        vector->count = count;
    return status;
}

GM_PUBLIC enum gpumem_status gpumem_vector_shrink(struct gpumem_vector *vector) {
    GM_NEED(vector);
    gm_status status = gpumem_region_shrink(vector->region, vector->count * vector->element);
    if (status || !vector->staging)
        return status;
    status = gpumem_region_destroy(vector->staging);
    if (status != GPUMEM_STREAM_CAPTURE)
        vector->staging = NULL;
    return status;
}

/* ---- elements */

static gm_status check_range(const struct gpumem_vector *vector, size_t first, size_t count) {
    if (first <= vector->count && count <= vector->count - first)
        return GM_OK;
    return gm_fail(GM_INVALID_VALUE, "elements %zu to %zu of %zu", first, first + count, vector->count);
}

/* Moves the elements from `position` on by `count`. Uses positions and not addresses, since the base may change. */
static gm_status open_gap(struct gpumem_vector *vector, size_t position, size_t count) {
    gm_status status = check_range(vector, position, 0);
    if (!status)
        status = make_element_room(vector, count);
    return status ? status : move_elements(vector, position + count, position, vector->count - position);
}

GM_PUBLIC enum gpumem_status gpumem_vector_insert(struct gpumem_vector *vector, size_t position, size_t count,
                                                  const void *value) {
    GM_NEED(vector);
    GM_NEED(value);
    size_t own;
    gm_status status = own_index(vector, value, &own);
    if (status || !count)
        return status ? status : check_range(vector, position, 0);
    bool is_own = own < vector->count;
    status = open_gap(vector, position, count);
    if (status)
        return status;
    if (is_own)
        own += own >= position ? count : 0;
    status = fill_elements(vector, position, count, is_own ? at(vector, own) : (CUdeviceptr)(uintptr_t)value);
    if (!status)
        vector->count += count;
    return status;
}

GM_PUBLIC enum gpumem_status gpumem_vector_push_back(struct gpumem_vector *vector, const void *value) {
    GM_NEED(vector);
    GM_NEED(value);
    return gpumem_vector_insert(vector, vector->count, 1, value);
}

GM_PUBLIC enum gpumem_status gpumem_vector_insert_from(struct gpumem_vector *vector, size_t position,
                                                       const void *source, size_t count) {
    GM_NEED(vector);
    GM_NEED_ARRAY(source, count);
    gm_status status = open_gap(vector, position, count);
    if (!status)
        status = copy(vector, at(vector, position), (CUdeviceptr)(uintptr_t)source, count * vector->element);
    if (!status)
        vector->count += count;
    return status;
}

GM_PUBLIC enum gpumem_status gpumem_vector_fill(struct gpumem_vector *vector, size_t first, size_t count,
                                                const void *value) {
    GM_NEED(vector);
    GM_NEED(value);
    size_t own;
    gm_status status = check_range(vector, first, count);
    if (!status)
        status = own_index(vector, value, &own);
    if (status || !count)
        return status;
    /* The value may be one of the overwritten elements. It is copied to the first place, and is not read again. */
    return fill_elements(vector, first, count, own < vector->count ? at(vector, own) : (CUdeviceptr)(uintptr_t)value);
}

GM_PUBLIC enum gpumem_status gpumem_vector_erase(struct gpumem_vector *vector, size_t first, size_t count) {
    GM_NEED(vector);
    gm_status status = check_range(vector, first, count);
    if (!status)
        status = move_elements(vector, first, first + count, vector->count - first - count);
    if (!status)
        vector->count -= count;
    return status;
}

GM_PUBLIC enum gpumem_status gpumem_vector_assign(struct gpumem_vector *vector, size_t count, const void *value) {
    GM_NEED(vector);
    GM_NEED(value);
    size_t own;
    gm_status status = own_index(vector, value, &own);
    if (!status)
        status = gpumem_vector_reserve(vector, count);
    if (!status && count)
        status = fill_elements(vector, 0, count, own < vector->count ? at(vector, own) : (CUdeviceptr)(uintptr_t)value);
    if (!status)
        vector->count = count;
    return status;
}

GM_PUBLIC enum gpumem_status gpumem_vector_assign_from(struct gpumem_vector *vector, const void *source, size_t count) {
    GM_NEED(vector);
    GM_NEED_ARRAY(source, count);
    gm_status status = gpumem_vector_reserve(vector, count);
    if (!status)
        status = copy(vector, at(vector, 0), (CUdeviceptr)(uintptr_t)source, count * vector->element);
    if (!status)
        vector->count = count;
    return status;
}

GM_PUBLIC enum gpumem_status gpumem_vector_copy(struct gpumem_vector *vector, const struct gpumem_vector *other) {
    GM_NEED(vector);
    GM_NEED(other);
    if (vector->element != other->element)
        return gm_fail(GM_INVALID_VALUE, "elements of %zu bytes from a vector of %zu", other->element, vector->element);
    return vector == other ? GPUMEM_OK : gpumem_vector_assign_from(vector, gpumem_vector_data(other), other->count);
}
