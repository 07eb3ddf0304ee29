/* Products whose offsets have 64 bits, by the kernels for 32 bits. The rows are cut twice:
 *
 * - A, if it has 64-bit offsets, into pieces that 32-bit offsets can describe; a piece gets such offsets.
 * - A piece into slabs of at most 2^31 - 1 intermediate products, so that no slab of C has more entries. A row alone
 *   cannot exceed the columns of B, which 32 bits count.
 *
 * Each slab is an ordinary product whose rows are counted first. It is written behind the slabs before, and its offsets
 * become 64-bit ones. So products of 32 bits pay nothing. Memory: C; helpers of gpu_rows.h for the rows of a piece, and
 * 4 bytes for each row of a matrix with 64-bit offsets. */
#include "spgemm/wide.h"
#include "spgemm/gpu_split.h"
#include "spgemm/output.h"

#include <stdlib.h>

#define ENTRIES_MAX ((int64_t)INT32_MAX - SPG_STEP_MAX)

struct spg_wide_settings spg_wide_settings = {INT32_MAX, ENTRIES_MAX};

struct wide {
    struct spg_product *product;
    struct spg_memory *memory;
    enum spg_precision precision;
    const struct spg_place *place; /* of the caller; NULL: the two arrays that follow */
    struct spg_output columns, values;
    struct spg_block own_offsets, a_offsets, b_offsets;
    struct spg_operand b;
    struct spg_wide_c *c; /* what is complete */
    void *const *offsets; /* where the caller's offsets are, once they are provided */
};

/* ---- memory for C */

static bool provide_total(struct wide *w, int64_t stored, struct spg_error *error) {
    struct spg_wide_c *c = w->c;
    if (w->place) {
        if (!w->place->provide(w->place->context, stored, &c->indices, &c->values, error))
            return false;
        c->offsets = *w->offsets;
        return true;
    }
    if (!spg_output_ensure(&w->columns, stored, sizeof(int32_t), error) ||
        !spg_output_ensure(&w->values, stored, spg_value_size(w->precision), error))
        return false;
    c->offsets = w->own_offsets.at;
    c->indices = w->columns.at;
    c->values = w->values.at;
    return true;
}

/* Memory for a slab follows the slabs before. */
static bool provide(void *context, int64_t stored, int32_t **indices, void **values, struct spg_error *error) {
    struct wide *w = context;
    if (!provide_total(w, w->c->stored + stored, error))
        return false;
    *indices = w->c->indices + w->c->stored;
    *values = (char *)w->c->values + (size_t)w->c->stored * spg_value_size(w->precision);
    return true;
}

/* ---- slabs */

static bool multiply_slab(struct wide *w, const struct spg_operand *a, int64_t row, struct spg_error *error) {
    struct spg_gpu *g = &w->product->method.gpu;
    struct spg_place place = {w, provide};
    int32_t *indices;
    void *values;
    g->first = *a;
    g->second = w->b;
    g->a = &g->first;
    g->b = &g->second;
    if (!spg_product_compute(w->product, &place, &indices, &values, error) ||
        !spg_cuda(spg_launch_widen(g->c.offsets.at, w->c->stored, (int64_t)a->rows + 1, w->c->offsets + row,
                                   w->memory->stream),
                  "64-bit offsets", error))
        return false;
    w->c->stored += g->c.stored;
    w->c->products += w->product->work.totals.bound;
    return true;
}

/* Rows of A from row `row` on, with 32-bit offsets. */
static bool multiply_piece(struct wide *w, const struct spg_operand *a, int64_t row, struct spg_error *error) {
    struct spg_gpu *g = &w->product->method.gpu;
    struct spg_slabs slabs;
    spg_product_forget(w->product);
    g->first = *a;
    g->second = w->b;
    g->a = &g->first;
    g->b = &g->second;
    bool done = spg_slabs_limited(&slabs, &w->product->method, spg_wide_settings.products, error);
    for (int32_t i = 0; done && i < slabs.parts; i++) {
        struct spg_operand rows = spg_operand_rows(a, slabs.cut[i], slabs.cut[i + 1] - slabs.cut[i], slabs.at[i],
                                                   slabs.at[i + 1] - slabs.at[i]);
        done = multiply_slab(w, &rows, row + slabs.cut[i], error);
    }
    spg_slabs_free(&slabs);
    return done;
}

/* ---- A and B with 64-bit offsets */

static bool narrow(struct wide *w, const int64_t *from, int64_t base, int64_t count, struct spg_block *to,
                   struct spg_error *error) {
    size_t size = (size_t)count * sizeof(int32_t);
    if (to->size < size) {
        spg_block_drop(to, w->memory);
        if (!spg_block_make(to, w->memory, size, "32-bit offsets", error))
            return false;
    }
    return spg_cuda(spg_launch_narrow(from, base, count, to->at, w->memory->stream), "32-bit offsets", error);
}

/* The rows of A where pieces begin, on the host. The caller frees them. */
static bool cut_pieces(struct wide *w, const struct gpumem_spgemm_csr *a, int32_t **cuts, int32_t *pieces,
                       struct spg_error *error) {
    int64_t most = 2 * (a->stored / spg_wide_settings.entries) + 3;
    struct spg_block block;
    if (!spg_block_make(&block, w->memory, ((size_t)most + 2) * sizeof(int32_t), "cuts of rows", error))
        return false;
    int32_t *number = block.at, *cut = number + 1;
    *cuts = NULL;
    bool done = spg_cuda(spg_launch_limited_cuts(a->wide_offsets, (int32_t)a->rows, spg_wide_settings.entries, cut,
                                                 number, w->memory->stream),
                         "cuts of rows", error) &&
                spg_fetch(w->memory->stream, pieces, number, sizeof *pieces, "cuts of rows", error);
    if (done) {
        size_t size = ((size_t)*pieces + 1) * sizeof **cuts;
        *cuts = malloc(size);
        done = *cuts ? spg_fetch(w->memory->stream, *cuts, cut, size, "cuts of rows", error)
                     : spg_fail_as(error, SPG_OUT_OF_MEMORY, "out of host memory for pieces of A");
    }
    spg_block_drop(&block, w->memory);
    return done;
}

static bool multiply_wide_rows(struct wide *w, const struct gpumem_spgemm_csr *a, int32_t first, int32_t end,
                               struct spg_error *error) {
    int64_t base, last;
    if (!spg_fetch(w->memory->stream, &base, a->wide_offsets + first, sizeof base, "A", error) ||
        !spg_fetch(w->memory->stream, &last, a->wide_offsets + end, sizeof last, "A", error))
        return false;
    if (last - base > ENTRIES_MAX)
        return spg_fail_as(error, SPG_NOT_SUPPORTED, "row %d of A has %lld entries, and at most %lld are possible",
                           first, (long long)(last - base), (long long)ENTRIES_MAX);
    if (!narrow(w, a->wide_offsets + first, base, (int64_t)end - first + 1, &w->a_offsets, error))
        return false;
    struct spg_operand rows = {.rows = end - first,
                               .columns = (int32_t)a->columns,
                               .stored = last - base,
                               .offsets = w->a_offsets.at,
                               .indices = (int32_t *)a->indices + base,
                               .values = (char *)a->values + (size_t)base * spg_value_size(w->precision)};
    return multiply_piece(w, &rows, first, error);
}

static bool multiply_all(struct wide *w, const struct gpumem_spgemm_csr *a, struct spg_error *error) {
    struct spg_operand whole = spg_operand_of(a);
    int32_t *cut = NULL, pieces = 0;
    if (!a->wide_offsets)
        return multiply_piece(w, &whole, 0, error);
    bool done = cut_pieces(w, a, &cut, &pieces, error);
    for (int32_t i = 0; done && i < pieces; i++)
        done = multiply_wide_rows(w, a, cut[i], cut[i + 1], error);
    free(cut);
    return done;
}

bool spg_wide_takes(const struct gpumem_spgemm_csr *b, struct spg_error *error) {
    return b->stored <= ENTRIES_MAX ||
           spg_fail_as(error, SPG_NOT_SUPPORTED, "B has %lld entries, and at most %lld are possible",
                       (long long)b->stored, (long long)ENTRIES_MAX);
}

static bool take_b(struct wide *w, const struct gpumem_spgemm_csr *b, struct spg_error *error) {
    w->b = spg_operand_of(b);
    if (!b->wide_offsets)
        return true;
    if (!narrow(w, b->wide_offsets, 0, b->rows + 1, &w->b_offsets, error))
        return false;
    w->b.offsets = w->b_offsets.at;
    return true;
}

/* ---- the product */

static bool make_own(struct wide *w, int64_t rows, struct spg_error *error) {
    return w->place || (spg_block_make(&w->own_offsets, w->memory, ((size_t)rows + 1) * sizeof(int64_t),
                                       "64-bit offsets of C", error) &&
                        spg_output_make(&w->columns, SPG_VECTOR_VMM, w->memory, "columns by slabs", error) &&
                        spg_output_make(&w->values, SPG_VECTOR_VMM, w->memory, "values by slabs", error));
}

/* The product owns C from here on, as after an ordinary product. */
static bool keep(struct wide *w, const struct gpumem_spgemm_csr operands[2], struct spg_error *error) {
    struct spg_result *c = &w->product->method.gpu.c;
    spg_product_forget(w->product);
    if (w->place)
        return true;
    *c = (struct spg_result){.rows = (int32_t)operands[0].rows,
                             .columns = (int32_t)operands[1].columns,
                             .stored = w->c->stored,
                             .offsets = w->own_offsets};
    w->own_offsets = (struct spg_block){0};
    return spg_output_to_block(&w->columns, (size_t)c->stored * sizeof(int32_t), &c->indices, error) &&
           spg_output_to_block(&w->values, (size_t)c->stored * spg_value_size(w->precision), &c->values, error);
}

bool spg_wide_compute(struct spg_product *p, const struct gpumem_spgemm_csr operands[2], const struct spg_place *place,
                      void *const *offsets, struct spg_wide_c *c, struct spg_error *error) {
    struct wide w = {.product = p,
                     .memory = &p->method.gpu.memory,
                     .precision = p->method.gpu.job->precision,
                     .place = place,
                     .c = c,
                     .offsets = offsets};
    *c = (struct spg_wide_c){0};
    spg_product_forget(p);
    bool done = take_b(&w, &operands[1], error) && make_own(&w, operands[0].rows, error) &&
                provide_total(&w, 0, error) && spg_clear(w.memory->stream, c->offsets, sizeof *c->offsets, error) &&
                multiply_all(&w, &operands[0], error) && keep(&w, operands, error);
    if (!done)
        spg_product_forget(p);
    spg_output_release(&w.columns);
    spg_output_release(&w.values);
    spg_block_drop(&w.own_offsets, w.memory);
    spg_block_drop(&w.a_offsets, w.memory);
    spg_block_drop(&w.b_offsets, w.memory);
    return done;
}
