/* The method "auto". Three ways to compute C:
 *
 * - Short rows in one pass, which writes C where it belongs (gpu_short.c). It is tried first where rows have at most
 *   SPG_SHORT entries in the mean.
 * - Growing: C grows while its rows are computed (gpu_spread.c), and rows are moved together. Each row is computed
 *   once.
 * - Counting: a first pass counts the entries of each row, a second one writes C where it belongs (gpu_passes.c).
 *
 * Growing is faster where hash tables hold the rows. Rows are counted first, short ones too, when
 * - C is written to the memory of a caller, who must learn its size first, or allocated by functions of a caller,
 *   whose memory cannot grow; and where values are complex or there are none;
 * - a row exceeds the largest table: growing would compute it twice;
 * - C has few columns: counting a row takes less time than moving it;
 * - C is large, and rows are alike, or most intermediate products are entries, or rows are short: such rows are counted
 *   in less time than moved together, and growing would take up to twice C's memory;
 * - C may have more entries than 32-bit offsets can count: it is then refused before its memory is allocated.
 *
 * The sizes and offsets of C's rows are kept. A product of the same structure uses them and only computes values: by
 * launches alone, once the rows are sorted into bins by their sizes.
 *
 * All memory comes from a cache (gpu.h), so a call like the one before allocates nothing. */
#include "spgemm/gpu_product.h"
#include "spgemm/gpu_compact.h"
#include "spgemm/gpu_spread.h"

struct spg_product_settings spg_product_settings = {4 * 6656, (int64_t)(0.9 * INT32_MAX), 8 << 20};

/* Entries of C for each intermediate product, from which it takes less time to count rows than to move them; and
 * entries of a row up to which this holds, too: many rows then exceed their first chunk, and each requests more. */
#define HARDLY_MERGED 0.7
#define SHORT_IN_C    32

#define KNOWN_WELL 0.01 /* standard error of the number of entries, as a part of it */

void spg_product_forget(struct spg_product *p) {
    if (p->work.gpu)
        spg_work_drop(&p->work);
    p->work = (struct spg_work){0};
    spg_result_drop(&p->method.gpu.c, &p->method.gpu.memory);
}

/* Whether rows are counted first; samples them if that decides. A narrow C is counted before the totals are known. */
static bool choose(struct spg_work *w, const struct spg_place *place, bool *counts, struct spg_error *error) {
    *counts = spg_work_is_narrow(w);
    if (*counts)
        return true;
    if (!spg_work_totals(w, true, error))
        return false;
    int64_t longest = w->totals.row_max < w->b->columns ? w->totals.row_max : w->b->columns;
    bool large = w->totals.bound >= spg_product_settings.many_products;
    *counts = place || w->gpu->memory.allocator.allocate || !spg_is_real(w->gpu->job->precision) ||
              longest >= spg_product_settings.long_row || (large && w->grouped);
    if (*counts || !large)
        return true;
    if (!spg_work_sample(w, NULL, error))
        return false;
    double entries = (double)w->totals.bound * (double)w->entries_per_product;
    *counts = entries >= HARDLY_MERGED * (double)w->totals.bound || entries <= (double)SHORT_IN_C * w->rows ||
              entries >= (double)spg_product_settings.entries;
    return true;
}

/* Values and columns of a planned product, from operands that may be others than those that were counted. The work and
 * c are only read: several calls may use them at one time. */
static bool write_values(const struct spg_work *planned, const struct spg_result *c, struct spg_gpu *g,
                         int32_t *indices, void *values, struct spg_error *error) {
    struct spg_target target = {
        .values = values ? values : indices, .columns = indices, .start = planned->c_offset, .size = planned->size};
    struct spg_work w = *planned;
    /* The multiplier that counted may be gone. */
    w.gpu = g;
    w.a = g->a;
    w.b = g->b;
    if (!c->stored)
        return true;
    if (spg_work_is_short(&w))
        return spg_short_recompute(g, c->offsets.at, c->stored, indices, values, error);
    w.progress = (struct spg_block){0};
    bool done = spg_work_compute_planned(&w, &target, error);
    spg_block_drop(&w.progress, &g->memory);
    return done;
}

/* Whether C lies in regions of the multiplier. */
static bool in_regions(const struct spg_gpu *g) {
    return !g->memory.allocator.allocate && g->job->precision != SPG_PATTERN;
}

/* Memory of the multiplier for the entries of C. */
static bool own_arrays(struct spg_loop *l, struct spg_error *error) {
    if (!in_regions(l->w.gpu))
        return spg_work_result(&l->w, true, error);
    return spg_loop_ensure(l, l->w.gpu->c.stored, error) && spg_loop_trim(l, error);
}

/* Maps memory for C while its rows are counted, if the sample tells its size well. What is missing is mapped later, so
 * a failure is none. */
static void map_ahead(struct spg_loop *l) {
    const struct spg_work *w = &l->w;
    struct spg_error ignored;
    double entries = (double)w->totals.bound * (double)w->entries_per_product * (1 + 2 * w->sample_error);
    if (l->columns.region && w->is_sampled && w->sample_error <= KNOWN_WELL && entries < INT32_MAX)
        spg_loop_ensure(l, (int64_t)entries, &ignored);
}

/* Counts all rows, sets C's offsets and its number of entries, and plans the rows. `l`: NULL, or its arrays may grow.
 */
static bool count(struct spg_work *w, struct spg_loop *l, struct spg_error *error) {
    struct spg_target counted = {.size = w->size};
    bool done = spg_work_is_narrow(w) || (spg_work_totals(w, true, error) && spg_work_sample_if_long(w, error) &&
                                          spg_work_compute(w, NULL, w->rows, &counted, false, error));
    if (done && l)
        map_ahead(l);
    return done && spg_work_settle_and_plan(w, &counted, w->gpu->estimated, error) && spg_work_result(w, false, error);
}

static bool by_counting(struct spg_loop *l, const struct spg_place *place, int32_t **indices, void **values,
                        struct spg_error *error) {
    struct spg_work *w = &l->w;
    struct spg_result *c = &w->gpu->c;
    if (!count(w, place ? NULL : l, error) ||
        !(place ? place->provide(place->context, c->stored, indices, values, error) : own_arrays(l, error)))
        return false;
    if (!place) {
        *indices = c->indices.at;
        *values = c->values.at;
    }
    return write_values(w, c, w->gpu, *indices, *values, error);
}

static bool by_growing(struct spg_loop *l, int32_t **indices, void **values, struct spg_error *error) {
    struct spg_result *c = &l->w.gpu->c;
    if (!spg_loop_spread(l, error) || !spg_work_result(&l->w, false, error) || !spg_loop_compact(l, error) ||
        !spg_loop_trim(l, error))
        return false;
    *indices = c->indices.at;
    *values = c->values.at;
    return true;
}

static enum spg_short_outcome by_one_pass(struct spg_product *p, const struct spg_place *place, int32_t **indices,
                                          void **values, struct spg_error *error) {
    struct spg_gpu *g = &p->method.gpu;
    int64_t products;
    if (place || g->memory.allocator.allocate || !spg_is_real(g->job->precision) ||
        spg_product_settings.long_row <= SPG_SHORT * SPG_SHORT)
        return SPG_SHORT_NOT;
    enum spg_short_outcome outcome =
        spg_short_compute(g, &p->short_rows, spg_product_settings.entries, &products, error);
    if (outcome == SPG_SHORT_COMPUTED) {
        p->work = (struct spg_work){
            .gpu = g, .a = g->a, .b = g->b, .rows = g->a->rows, .counted = true, .totals.bound = products};
        *indices = g->c.indices.at;
        *values = g->c.values.at;
    }
    return outcome;
}

bool spg_product_compute(struct spg_product *p, const struct spg_place *place, int32_t **indices, void **values,
                         struct spg_error *error) {
    struct spg_loop l;
    bool counts = true, grows = !place && in_regions(&p->method.gpu);
    spg_product_forget(p);
    enum spg_short_outcome outcome = by_one_pass(p, place, indices, values, error);
    if (outcome != SPG_SHORT_NOT)
        return outcome == SPG_SHORT_COMPUTED;
    bool done = spg_loop_make(&l, &p->method, grows, error) && choose(&l.w, place, &counts, error) &&
                (counts ? by_counting(&l, place, indices, values, error) : by_growing(&l, indices, values, error));
    /* Where C is too large for the caller's memory, the caller can make room: its structure is kept. */
    bool counted = !done && error->status == SPG_TOO_SMALL;
    if (done || counted) {
        spg_block_drop(&l.w.progress, &p->method.gpu.memory);
        p->work = l.w;
        l.w = (struct spg_work){.gpu = &p->method.gpu};
    }
    spg_loop_drop(&l);
    if (!done && !counted)
        spg_product_forget(p);
    return done;
}

bool spg_product_recompute(struct spg_product *p, const struct spg_place *place, int32_t **indices, void **values,
                           struct spg_error *error) {
    struct spg_work *w = &p->work;
    struct spg_result *c = &p->method.gpu.c;
    bool done = true;
    if (place) {
        done = place->provide(place->context, c->stored, indices, values, error);
    } else {
        *indices = c->indices.at;
        *values = c->values.at;
    }
    done = done && spg_work_plan(w, error) && write_values(w, c, &p->method.gpu, *indices, *values, error);
    if (!done && error->status != SPG_TOO_SMALL)
        spg_product_forget(p);
    return done;
}

bool spg_product_count(struct spg_product *p, struct spg_structure *s, struct spg_error *error) {
    struct spg_gpu *g = &p->method.gpu;
    struct spg_work w = {0};
    *s = (struct spg_structure){0};
    spg_product_forget(p);
    bool done = spg_work_make(&w, &p->method, error) && spg_work_offsets(&w, error) && count(&w, NULL, error);
    spg_block_drop(&w.progress, &g->memory);
    if (!done) {
        spg_work_drop(&w);
        spg_product_forget(p);
        return false;
    }
    s->work = w;
    s->c = g->c;
    g->c = (struct spg_result){0};
    return true;
}

bool spg_product_fill(struct spg_product *p, const struct spg_structure *s, int32_t *indices, void *values,
                      struct spg_error *error) {
    return write_values(&s->work, &s->c, &p->method.gpu, indices, values, error);
}

void spg_structure_drop(struct spg_structure *s, struct spg_memory *memory) {
    spg_sort_lengths_drop(&s->work.exact_lengths, memory);
    spg_block_drop(&s->work.block, memory);
    spg_result_drop(&s->c, memory);
    *s = (struct spg_structure){0};
}

size_t spg_structure_size(const struct spg_structure *s) {
    return s->work.exact_lengths.block.size + s->work.block.size + s->c.offsets.size;
}

bool spg_product_is_planned(const struct spg_product *p) {
    return p->work.gpu && (p->work.planned || spg_work_is_short(&p->work));
}

bool spg_product_analyse(struct spg_product *p, size_t *bytes, int64_t *products, double *expected,
                         struct spg_error *error) {
    struct spg_work w = {0};
    spg_product_forget(p);
    bool done =
        spg_work_make(&w, &p->method, error) && spg_work_totals(&w, true, error) && spg_work_sample(&w, NULL, error);
    *bytes = w.block.size;
    *products = w.totals.bound;
    *expected = (double)w.totals.bound * (double)w.entries_per_product;
    spg_work_drop(&w);
    return done;
}
