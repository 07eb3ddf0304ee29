#include "spgemm/output.h"
#include "shim/gpumem.h"

static bool worked(int status, const struct gm_output *o, struct gm_spgemm_error *error) {
    if (!status)
        return true;
    return gm_spgemm_fail(error, "%s%s: %s", status == (int)cudaErrorMemoryAllocation ? "out of device memory: " : "",
                          o->what, gpumem_last_error());
}

bool gm_output_make(struct gm_output *o, enum gm_vector vector, struct gm_memory *memory, const char *what,
                    struct gm_spgemm_error *error) {
    /* Places are compared by what they take: nothing is mapped ahead. */
    struct gpumem_region_options options = {.flags = GPUMEM_REGION_EXACT};
    *o = (struct gm_output){.vector = vector, .memory = memory, .what = what};
    if (vector == GM_VECTOR_COPY || worked(gpumem_region_create(&options, &o->region), o, error))
        return true;
    *o = (struct gm_output){0};
    return false;
}

/* Granules are known when they are mapped: what was asked for is counted before, what it came to after. */
static bool map_more(struct gm_output *o, size_t wanted, struct gm_spgemm_error *error) {
    struct gpumem_view view;
    size_t asked = wanted - o->there;
    if (!gm_memory_take(o->memory, asked, o->what, error))
        return false;
    if (!worked(gpumem_region_grow(o->region, wanted), o, error)) {
        gm_memory_give(o->memory, asked);
        return false;
    }
    gpumem_region_view(o->region, &view);
    if (!gm_memory_take(o->memory, view.mapped - wanted, o->what, error)) {
        gpumem_region_shrink(o->region, o->size);
        gm_memory_give(o->memory, asked);
        return false;
    }
    o->at = view.base;
    o->there = view.mapped;
    return true;
}

static bool copy_larger(struct gm_output *o, size_t wanted, struct gm_spgemm_error *error) {
    struct gm_block old = {.at = o->at, .size = o->there}, larger;
    if (wanted < 2 * o->there)
        wanted = 2 * o->there;
    if (!gm_block_make(&larger, o->memory, wanted, o->what, error))
        return false;
    if (o->size &&
        !gm_cuda(cudaMemcpyAsync(larger.at, old.at, o->size, cudaMemcpyDeviceToDevice, NULL), o->what, error)) {
        gm_block_drop(&larger, o->memory);
        return false;
    }
    gm_block_drop(&old, o->memory);
    o->at = larger.at;
    o->there = larger.size;
    return true;
}

bool gm_output_append(struct gm_output *o, size_t more, struct gm_spgemm_error *error) {
    size_t wanted = o->size + more;
    if (wanted < o->size)
        return gm_spgemm_fail(error, "out of device memory: %s of more bytes than a size holds", o->what);
    if (wanted > o->there &&
        !(o->vector == GM_VECTOR_COPY ? copy_larger(o, wanted, error) : map_more(o, wanted, error)))
        return false;
    o->size = wanted;
    return true;
}

bool gm_output_keep(struct gm_output *o, size_t size, struct gm_block *block, struct gm_spgemm_error *error) {
    struct gpumem_view view;
    *block = (struct gm_block){0};
    if (!size) {
        gm_output_release(o);
        return true;
    }
    if (!worked(gpumem_region_shrink(o->region, size), o, error))
        return false;
    gpumem_region_view(o->region, &view);
    gm_memory_give(o->memory, o->there - view.mapped);
    *block = (struct gm_block){view.base, view.mapped, o->region};
    *o = (struct gm_output){0};
    return true;
}

void gm_output_release(struct gm_output *o) {
    if (o->vector == GM_VECTOR_COPY) {
        struct gm_block block = {.at = o->at, .size = o->there};
        gm_block_drop(&block, o->memory);
    } else if (o->region) {
        gpumem_region_release(o->region);
        gm_memory_give(o->memory, o->there);
    }
    *o = (struct gm_output){0};
}
