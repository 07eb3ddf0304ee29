#include "spgemm/gpu_split.h"

#include <stdlib.h>

void spg_slabs_free(struct spg_slabs *slabs) {
    free(slabs->cut);
    *slabs = (struct spg_slabs){0};
}

/* The cuts in device memory: the number of slabs, the rows, A's offsets there. */
struct cuts {
    struct spg_block block;
    int32_t *parts, *cut, *at;
    int32_t most; /* slabs for which there is room */
};

static bool make_cuts(struct cuts *c, struct spg_work *w, int64_t most, struct spg_error *error) {
    size_t count = (size_t)most + 1;
    if (most > INT32_MAX - 1)
        return spg_fail_as(error, SPG_NOT_SUPPORTED, "%lld slabs of rows are too many", (long long)most);
    if (!spg_block_make(&c->block, &w->gpu->memory, (2 * count + 1) * sizeof(int32_t), "cuts of rows", error))
        return false;
    c->most = (int32_t)most;
    c->parts = c->block.at;
    c->cut = c->parts + 1;
    c->at = c->cut + count;
    return true;
}

static bool read_cuts(struct spg_slabs *slabs, const struct cuts *c, int32_t parts, cudaStream_t stream,
                      struct spg_error *error) {
    size_t count = (size_t)parts + 1, size = count * sizeof(int32_t);
    slabs->cut = malloc(2 * size);
    if (!slabs->cut)
        return spg_fail_as(error, SPG_OUT_OF_MEMORY, "out of host memory for %d slabs of rows", parts);
    slabs->at = slabs->cut + count;
    slabs->parts = parts;
    return spg_fetch(stream, slabs->cut, c->cut, size, "cuts of rows", error) &&
           spg_fetch(stream, slabs->at, c->at, size, "cuts of rows", error);
}

/* Cuts into so many slabs of equal work, or with parts 0 into slabs of at most `most`. */
static bool cut(struct spg_slabs *slabs, struct spg_work *w, struct cuts *c, int32_t parts, int64_t most,
                struct spg_error *error) {
    cudaStream_t stream = w->gpu->memory.stream;
    return spg_cuda(spg_scan(w->scratch, &w->scratch_size, w->bound, w->start, w->rows, stream), "scan", error) &&
           make_cuts(c, w, parts ? parts : 2 * (w->totals.bound / most) + 3, error) &&
           spg_cuda(parts ? spg_launch_even_cuts(w->start, w->rows, parts, c->cut, stream)
                          : spg_launch_limited_cuts(w->start, w->rows, most, c->cut, c->parts, stream),
                    "cuts of rows", error) &&
           (parts || spg_fetch(stream, &parts, c->parts, sizeof parts, "cuts", error)) &&
           spg_cuda(spg_launch_gather(c->cut, parts + 1, w->a->offsets, c->at, stream), "cuts of rows", error) &&
           read_cuts(slabs, c, parts, stream, error);
}

static bool make_slabs(struct spg_slabs *slabs, struct spg_method *method, int32_t parts, int64_t most,
                       struct spg_error *error) {
    struct spg_work w = {0};
    struct cuts c = {0};
    *slabs = (struct spg_slabs){0};
    bool done =
        spg_work_make(&w, method, error) && spg_work_totals(&w, false, error) && cut(slabs, &w, &c, parts, most, error);
    spg_block_drop(&c.block, &method->gpu.memory);
    spg_work_drop(&w);
    if (!done)
        spg_slabs_free(slabs);
    return done;
}

bool spg_slabs_even(struct spg_slabs *slabs, struct spg_method *method, int32_t parts, struct spg_error *error) {
    return make_slabs(slabs, method, parts, 0, error);
}

bool spg_slabs_limited(struct spg_slabs *slabs, struct spg_method *method, int64_t most, struct spg_error *error) {
    return make_slabs(slabs, method, 0, most, error);
}
