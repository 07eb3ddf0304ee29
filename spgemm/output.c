#include "spgemm/output.h"
#include "shim/gpumem.h"

static bool worked(enum gpumem_status status, const struct spg_output *o, struct spg_error *error) {
    if (!status)
        return true;
    return spg_fail_as(error, (int)status, "%s%s: %s", status == GPUMEM_OUT_OF_MEMORY ? "out of device memory: " : "",
                       o->what, gpumem_last_error());
}

bool spg_output_make(struct spg_output *o, enum spg_vector vector, struct spg_memory *memory, const char *what,
                     struct spg_error *error) {
    /* The bench compares memory, so the region must not map ahead. */
    struct gpumem_region_options options = {.struct_size = sizeof options, .flags = GPUMEM_REGION_EXACT};
    struct spg_block kept;
    *o = (struct spg_output){.vector = vector, .memory = memory, .what = what};
    if (vector == SPG_VECTOR_VMM && spg_cache_take_region(memory, what, &kept)) {
        o->at = kept.at;
        o->capacity = kept.size;
        o->region = kept.region;
        return true;
    }
    if (vector == SPG_VECTOR_COPY || worked(gpumem_region_create(&options, &o->region), o, error))
        return true;
    *o = (struct spg_output){0};
    return false;
}

/* The granularity is only known after mapping: the requested bytes are charged before it, the rest after it. */
static bool map_more(struct spg_output *o, size_t wanted, struct spg_error *error) {
    struct gpumem_view view = {.struct_size = sizeof view};
    size_t requested = wanted - o->capacity;
    if (!spg_memory_charge(o->memory, requested, o->what, error))
        return false;
    enum gpumem_status status = gpumem_region_grow(o->region, wanted);
    if (status == GPUMEM_OUT_OF_MEMORY && o->memory->cache) {
        spg_cache_empty(o->memory);
        status = gpumem_region_grow(o->region, wanted);
    }
    if (!worked(status, o, error)) {
        spg_memory_release(o->memory, requested);
        return false;
    }
    gpumem_region_view(o->region, &view);
    if (!spg_memory_charge(o->memory, view.mapped - wanted, o->what, error)) {
        gpumem_region_shrink(o->region, o->capacity);
        spg_memory_release(o->memory, requested);
        return false;
    }
    o->at = view.base;
    o->capacity = view.mapped;
    return true;
}

static bool copy_larger(struct spg_output *o, size_t wanted, struct spg_error *error) {
    struct spg_block old = {.at = o->at, .size = o->capacity}, larger;
    if (wanted < 2 * o->capacity)
        wanted = 2 * o->capacity;
    if (!spg_block_make(&larger, o->memory, wanted, o->what, error))
        return false;
    if (o->size && !spg_cuda(cudaMemcpyAsync(larger.at, old.at, o->size, cudaMemcpyDeviceToDevice, o->memory->stream),
                             o->what, error)) {
        spg_block_drop(&larger, o->memory);
        return false;
    }
    spg_block_drop(&old, o->memory);
    o->at = larger.at;
    o->capacity = larger.size;
    return true;
}

bool spg_output_append(struct spg_output *o, size_t more, struct spg_error *error) {
    size_t wanted = o->size + more;
    if (wanted < o->size)
        return spg_fail(error, "out of device memory: %s of more bytes than a size holds", o->what);
    if (wanted > o->capacity &&
        !(o->vector == SPG_VECTOR_COPY ? copy_larger(o, wanted, error) : map_more(o, wanted, error)))
        return false;
    o->size = wanted;
    return true;
}

bool spg_output_ensure(struct spg_output *o, int64_t count, size_t element, struct spg_error *error) {
    size_t wanted;
    if (__builtin_mul_overflow((size_t)count, element, &wanted))
        return spg_fail(error, "out of device memory: %s: %lld of them", o->what, (long long)count);
    return wanted <= o->size || spg_output_append(o, wanted - o->size, error);
}

bool spg_output_to_block(struct spg_output *o, size_t size, struct spg_block *block, struct spg_error *error) {
    struct gpumem_view view = {.struct_size = sizeof view};
    *block = (struct spg_block){0};
    if (!size) {
        spg_output_release(o);
        return true;
    }
    /* A cache keeps the memory behind C for the next product. */
    if (!o->memory->cache && !worked(gpumem_region_shrink(o->region, size), o, error))
        return false;
    gpumem_region_view(o->region, &view);
    spg_memory_release(o->memory, o->capacity - view.mapped);
    *block = (struct spg_block){view.base, view.mapped, o->region, o->what};
    *o = (struct spg_output){0};
    return true;
}

void spg_output_release(struct spg_output *o) {
    if (o->vector == SPG_VECTOR_COPY) {
        struct spg_block block = {.at = o->at, .size = o->capacity};
        spg_block_drop(&block, o->memory);
    } else if (o->region) {
        struct spg_block block = {o->at, o->capacity, o->region, o->what};
        spg_block_drop(&block, o->memory);
    }
    *o = (struct spg_output){0};
}
