#include "spgemm/aliases.h"

/* Bytes of one array. Its end does not wrap around, whatever sizes a caller gives. */
struct range {
    uintptr_t begin, end;
};

static struct range range_of(const void *at, int64_t count, size_t element) {
    uintptr_t begin = (uintptr_t)at;
    size_t size;
    if (!at || __builtin_mul_overflow((size_t)count, element, &size) || size > UINTPTR_MAX - begin)
        size = at ? UINTPTR_MAX - begin : 0;
    return (struct range){begin, begin + size};
}

static bool meet(struct range a, struct range b) {
    return a.begin < a.end && b.begin < b.end && a.begin < b.end && b.begin < a.end;
}

/* The arrays of a matrix. */
struct ranges {
    struct range array[3];
};

static struct ranges ranges_of(const struct gpumem_spgemm_csr *m, size_t value_size) {
    bool wide = m->wide_offsets;
    const void *offsets = wide ? (const void *)m->wide_offsets : (const void *)m->offsets;
    return (struct ranges){{range_of(offsets, m->rows + 1, wide ? sizeof(int64_t) : sizeof(int32_t)),
                            range_of(m->indices, m->stored, sizeof(int32_t)),
                            range_of(m->values, m->stored, value_size)}};
}

static bool any_meet(const struct ranges *a, const struct ranges *b) {
    for (int i = 0; i < 9; i++)
        if (meet(a->array[i / 3], b->array[i % 3]))
            return true;
    return false;
}

static struct range range_of_block(const struct spg_block *block) {
    return range_of(block->at, (int64_t)block->size, 1);
}

bool spg_lies_in(const struct gpumem_spgemm_csr *m, const struct spg_result *c) {
    struct ranges matrix = ranges_of(m, 1);
    struct ranges blocks = {{range_of_block(&c->offsets), range_of_block(&c->indices), range_of_block(&c->values)}};
    return any_meet(&matrix, &blocks);
}

static int lying_in(const struct spg_request *r, const struct spg_result *c) {
    for (int i = 0; i < r->count; i++)
        if (spg_lies_in(&r->csr[i], c))
            return i;
    return -1;
}

void spg_set_aside(struct gpumem_spgemm *m, const struct spg_request *r) {
    struct spg_gpu *g = &m->product.method.gpu;
    if (lying_in(r, &m->aside) >= 0)
        return;
    spg_result_drop(&m->aside, &g->memory);
    if (lying_in(r, &g->c) < 0)
        return;
    m->aside = g->c;
    g->c = (struct spg_result){0};
}

static struct range range_of_region(struct gpumem_region *region) {
    struct gpumem_view view = {.struct_size = sizeof view};
    if (!region || gpumem_region_view(region, &view))
        return (struct range){0, 0};
    return range_of(view.base, (int64_t)view.mapped, 1);
}

bool spg_apart_from_output(const struct gpumem_spgemm *m, const struct spg_request *r,
                           const struct gpumem_spgemm_output *output, int64_t rows, struct spg_error *error) {
    size_t value_size = spg_value_size(m->job.precision);
    struct gpumem_spgemm_csr c = {.rows = rows,
                                  .stored = output->capacity,
                                  .offsets = output->offsets,
                                  .wide_offsets = output->wide_offsets,
                                  .indices = output->indices,
                                  .values = output->values};
    struct ranges out = ranges_of(&c, value_size);
    if (!c.offsets && !c.wide_offsets && !c.indices)
        out = (struct ranges){{range_of_region(output->offsets_region), range_of_region(output->indices_region),
                               range_of_region(output->values_region)}};
    for (int i = 0; i < r->count; i++) {
        struct ranges matrix = ranges_of(&r->csr[i], value_size);
        if (any_meet(&matrix, &out))
            return spg_fail_as(error, GPUMEM_INVALID_VALUE, "%s lies in the output", spg_request_names[i]);
    }
    return true;
}

bool spg_apart_from_c(const struct gpumem_spgemm *m, const struct spg_request *r, struct spg_error *error) {
    int i = lying_in(r, &m->product.method.gpu.c);
    return i < 0 ||
           spg_fail_as(error, GPUMEM_INVALID_VALUE,
                       "%s lies in the last product, which one of the same structure overwrites", spg_request_names[i]);
}
