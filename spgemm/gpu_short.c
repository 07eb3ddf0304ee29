/* Products of short rows in one pass over the rows: stencils, and graphs of few edges for each vertex. Every row of A
 * and B has at most SPG_SHORT entries, so a row of C is merged in registers (kernels_short.cu). No bins are needed, and
 * rows are computed in their order, so each entry is written to its place in C at once.
 *
 * 1. Sample: one launch checks the lengths of all rows and counts 1024 rows of C. nnz(C) is predicted as the entries of
 *    A times the sampled entries of C for each entry of A. A multiplier skips this step when its last product had
 *    matrices of the same sizes.
 * 2. Map memory for the prediction, and a margin.
 * 3. Compute all rows. A large C is computed in two halves, and memory for the second is mapped meanwhile.
 * 4. Read the totals. If C exceeds the mapped memory, its offsets are right nevertheless: map what is missing, and
 *    compute all rows again, by these offsets. If a row is not short after all, the caller computes the product in
 *    another way.
 *
 * Cost: a warm call is one clearing, one launch and one copy to the host. Memory: C, 8 bytes for each 32 rows, and less
 * than the margin behind C. */
#include "spgemm/gpu_short.h"
#include "spgemm/gpu_loop.h"

#include <string.h>

struct spg_short_settings spg_short_settings = {1.02, 4 << 20, INT64_MAX};

struct pass {
    struct spg_gpu *g;
    struct spg_block block; /* the totals, then a word for each tile */
    struct spg_short_pass on_device;
    struct spg_short_totals totals;
    int32_t tiles;
    struct spg_output columns, values;
    int64_t expected;           /* entries of C */
    int64_t wanted, first_half; /* entries to map, for all rows and for the first half of the tiles; 0 = not known */
};

static bool may_be_short(const struct spg_operand *m) {
    return m->stored > 0 && m->stored <= (int64_t)SPG_SHORT * m->rows;
}

/* Whether the product of the memory's sizes is this one's. */
static bool recalls(struct spg_short_memory *memory, const struct spg_gpu *g) {
    int64_t sizes[] = {g->a->rows, g->a->stored, g->b->rows, g->b->stored, g->b->columns};
    bool same = memory->known && !memcmp(sizes, memory->sizes, sizeof sizes);
    memcpy(memory->sizes, sizes, sizeof sizes);
    memory->known = same;
    return same;
}

static void remember(struct spg_short_memory *memory, int64_t stored) {
    memory->known = true;
    memory->stored = stored;
}

static bool make_block(struct pass *p, struct spg_error *error) {
    size_t totals = sizeof(struct spg_short_totals), size = totals + (size_t)p->tiles * sizeof(uint64_t);
    if (!spg_block_make(&p->block, &p->g->memory, size, "sums of tiles", error))
        return false;
    p->on_device.totals = p->block.at;
    p->on_device.tiles = (unsigned long long *)((char *)p->block.at + totals);
    return spg_clear(p->g->memory.stream, p->block.at, size, error);
}

static bool fetch_totals(struct pass *p, struct spg_error *error) {
    return spg_fetch(p->g->memory.stream, &p->totals, p->on_device.totals, sizeof p->totals, "copy to the host", error);
}

/* Memory for C, without entries. */
static bool make_c(struct pass *p, struct spg_error *error) {
    struct spg_gpu *g = p->g;
    return spg_result_start(&g->c, &g->memory, g->a->rows, g->b->columns, error) &&
           spg_loop_arrays(&p->columns, &p->values, SPG_VECTOR_VMM, &g->memory, error);
}

static bool sample(struct pass *p, struct spg_error *error) {
    const struct spg_short_totals *t = &p->totals;
    if (!spg_cuda(spg_launch_short_sample(p->g->a, p->g->b, p->on_device.totals, p->g->memory.stream), "a sample",
                  error) ||
        !fetch_totals(p, error))
        return false;
    double entries = (double)t->sampled_entries[0] + (double)t->sampled_entries[1];
    double scale = t->sampled_terms ? (double)p->g->a->stored / (double)t->sampled_terms : 0;
    p->expected = (int64_t)(entries * scale) + 1;
    p->wanted = (int64_t)((double)p->expected * spg_short_settings.margin);
    p->first_half = (int64_t)((double)t->sampled_entries[0] * scale * spg_short_settings.margin);
    return true;
}

static bool map_entries(struct pass *p, int64_t entries, struct spg_error *error) {
    return spg_output_ensure(&p->columns, entries, sizeof(int32_t), error) &&
           spg_output_ensure(&p->values, entries, spg_value_size(p->g->job->precision), error);
}

static struct spg_short_c target(const struct pass *p) {
    int64_t columns = (int64_t)(p->columns.capacity / sizeof(int32_t)),
            values = (int64_t)(p->values.capacity / spg_value_size(p->g->job->precision));
    int64_t mapped = columns < values ? columns : values;
    return (struct spg_short_c){p->g->c.offsets.at, p->columns.at, p->values.at,
                                mapped < spg_short_settings.capacity ? mapped : spg_short_settings.capacity};
}

static bool launch(struct pass *p, int32_t first, int32_t tiles, struct spg_error *error) {
    struct spg_short_c c = target(p);
    return spg_cuda(spg_launch_short_tiles(p->g->job->precision, p->g->a, p->g->b, first, tiles, &c, &p->on_device,
                                           p->g->memory.stream),
                    "short rows", error);
}

/* The memory is there already after a product of this size: then there are no halves. */
static bool compute_rows(struct pass *p, struct spg_error *error) {
    int32_t early = 0;
    if (p->first_half && p->wanted >= spg_short_settings.halving_entries && target(p).capacity < p->wanted) {
        early = p->tiles / 2;
        if (!map_entries(p, p->first_half, error) || !launch(p, 0, early, error))
            return false;
    }
    return map_entries(p, p->wanted, error) && launch(p, early, p->tiles - early, error) && fetch_totals(p, error);
}

/* Maps exactly what C needs, and writes the entries that had no memory. */
static bool complete(struct pass *p, struct spg_error *error) {
    struct spg_result *c = &p->g->c;
    c->stored = p->totals.stored;
    return spg_result_fits(c->stored, error) &&
           (!p->totals.unwritten ||
            (map_entries(p, c->stored, error) &&
             spg_short_recompute(p->g, c->offsets.at, c->stored, p->columns.at, p->values.at, error))) &&
           spg_loop_arrays_to_result(&p->columns, &p->values, spg_value_size(p->g->job->precision), c, error);
}

static enum spg_short_outcome compute(struct pass *p, struct spg_short_memory *memory, int64_t most,
                                      struct spg_error *error) {
    struct spg_gpu *g = p->g;
    bool known = recalls(memory, g);
    if (known && memory->stored < 0)
        return SPG_SHORT_NOT;
    if (!make_block(p, error) || (!known && !sample(p, error)))
        return SPG_SHORT_FAILED;
    if (known)
        p->expected = p->wanted = memory->stored;
    if (!p->totals.not_short) {
        if (p->expected >= most)
            return SPG_SHORT_NOT;
        if (!make_c(p, error) || !compute_rows(p, error))
            return SPG_SHORT_FAILED;
    }
    /* The sample says so, or the pass does. */
    if (p->totals.not_short) {
        remember(memory, -1);
        return SPG_SHORT_NOT;
    }
    if (!complete(p, error))
        return SPG_SHORT_FAILED;
    remember(memory, g->c.stored);
    return SPG_SHORT_COMPUTED;
}

enum spg_short_outcome spg_short_compute(struct spg_gpu *g, struct spg_short_memory *memory, int64_t most,
                                         int64_t *products, struct spg_error *error) {
    struct pass p = {.g = g, .tiles = spg_short_tiles(g->a->rows)};
    if (!may_be_short(g->a) || !may_be_short(g->b) || g->b->columns > SPG_SHORT_COLUMNS ||
        g->job->vector != SPG_VECTOR_VMM)
        return SPG_SHORT_NOT;
    enum spg_short_outcome outcome = compute(&p, memory, most, error);
    spg_output_release(&p.columns);
    spg_output_release(&p.values);
    spg_block_drop(&p.block, &g->memory);
    if (outcome != SPG_SHORT_COMPUTED)
        spg_result_drop(&g->c, &g->memory);
    *products = (int64_t)p.totals.products;
    return outcome;
}

bool spg_short_recompute(const struct spg_gpu *g, int32_t *offsets, int64_t stored, int32_t *indices, void *values,
                         struct spg_error *error) {
    struct spg_short_c c = {offsets, indices, values, stored};
    return spg_cuda(spg_launch_short_values(g->job->precision, g->a, g->b, &c, g->memory.stream), "short rows", error);
}
