/* The products of spgemm.h: the memory of the caller for C, and the calls. */
#include "spgemm/aliases.h"
#include "spgemm/wide.h"

#include <stddef.h>

/* ---- memory of the caller for C */

/* The memory, and what the library has found about C. */
struct target {
    struct gpumem_spgemm_output output;
    bool wide; /* offsets have 64 bits */
    size_t value_size;
    int64_t rows, stored;
    void *offsets;
};

static bool grown(struct gpumem_region *region, size_t size, const char *what, void **at, struct spg_error *error) {
    struct gpumem_view view = {.struct_size = sizeof view};
    enum gpumem_status status = gpumem_region_grow(region, size);
    if (!status)
        status = gpumem_region_view(region, &view);
    if (status)
        return spg_fail_as(error, (int)status, "the region of C's %s: %s", what, gpumem_last_error());
    *at = view.base;
    return true;
}

static void *offsets_of(const struct target *t) {
    return t->wide ? (void *)t->output.wide_offsets : (void *)t->output.offsets;
}

static bool provide(void *context, int64_t stored, int32_t **indices, void **values, struct spg_error *error) {
    struct target *t = context;
    const struct gpumem_spgemm_output *o = &t->output;
    t->stored = stored;
    if (offsets_of(t)) {
        if (stored > o->capacity)
            return spg_fail_as(error, GPUMEM_TOO_SMALL, "C has %lld entries%s, and the capacity is %lld",
                               (long long)stored, t->wide ? " or more" : "", (long long)o->capacity);
        t->offsets = offsets_of(t);
        *indices = o->indices;
        *values = o->values;
        return true;
    }
    size_t offset = t->wide ? sizeof(int64_t) : sizeof(int32_t);
    void *at;
    if (!grown(o->offsets_region, ((size_t)t->rows + 1) * offset, "offsets", &t->offsets, error) ||
        !grown(o->indices_region, (size_t)stored * sizeof(int32_t), "columns", &at, error) ||
        !grown(o->values_region, (size_t)stored * t->value_size, "values", values, error))
        return false;
    *indices = at;
    return true;
}

bool spg_output_read(struct gpumem_spgemm_output *ours, const struct gpumem_spgemm_output *theirs,
                     enum spg_precision precision, bool arrays, struct spg_error *error) {
    if (!theirs)
        return spg_fail_as(error, GPUMEM_INVALID_VALUE, "the output is NULL");
    if (!spg_struct_read("gpumem_spgemm_output", ours, sizeof *ours, theirs, error))
        return false;
    bool regions = ours->offsets_region && ours->indices_region && ours->values_region;
    bool has_arrays = arrays || ours->offsets || ours->wide_offsets;
    if (!has_arrays && !regions)
        return spg_fail_as(error, GPUMEM_INVALID_VALUE, "the output has neither arrays nor three regions");
    bool lacks = !ours->indices || (precision != SPG_PATTERN && !ours->values);
    if (has_arrays && ours->capacity < 0)
        return spg_fail_as(error, GPUMEM_INVALID_VALUE, "the output has capacity %lld", (long long)ours->capacity);
    return !has_arrays || !ours->capacity || !lacks ||
           spg_fail_as(error, GPUMEM_INVALID_VALUE, "the output has capacity %lld, and an array is NULL",
                       (long long)ours->capacity);
}

static bool read_output(struct target *t, const struct gpumem_spgemm_output *output, enum spg_precision precision,
                        struct spg_error *error) {
    if (!spg_output_read(&t->output, output, precision, false, error))
        return false;
    bool regions = t->output.offsets_region && t->output.indices_region && t->output.values_region;
    return offsets_of(t) || regions ||
           spg_fail_as(error, GPUMEM_INVALID_VALUE, "the output has neither arrays nor three regions");
}

/* ---- products */

static bool compute_wide(struct gpumem_spgemm *m, const struct gpumem_spgemm_csr operands[2], struct target *t,
                         struct gpumem_spgemm_result *c, struct spg_error *error) {
    struct spg_place place = {t, provide};
    struct spg_wide_c found = {.values = NULL};
    if (!t && m->product.method.gpu.memory.allocator.allocate)
        return spg_fail_as(error, GPUMEM_NOT_SUPPORTED,
                           "64-bit offsets need an output: memory of the caller's functions cannot grow");
    if (!spg_wide_compute(&m->product, operands, t ? &place : NULL, t ? &t->offsets : NULL, &found, error))
        return false;
    *c = (struct gpumem_spgemm_result){.rows = operands[0].rows,
                                       .columns = operands[1].columns,
                                       .stored = found.stored,
                                       .wide_offsets = found.offsets,
                                       .indices = found.indices,
                                       .values = found.values,
                                       .products = found.products,
                                       .peak = m->product.method.gpu.memory.peak};
    return true;
}

static bool compute(struct gpumem_spgemm *m, struct target *t, bool repeated, struct gpumem_spgemm_result *c,
                    struct spg_error *error) {
    struct spg_place place = {t, provide}, *to = t ? &place : NULL;
    struct spg_gpu *g = &m->product.method.gpu;
    struct spg_result *own = &g->c;
    if (!(repeated ? spg_product_recompute : spg_product_compute)(&m->product, to, &c->indices, &c->values, error))
        return false;
    c->offsets = own->offsets.at;
    if (t) {
        c->offsets = t->offsets;
        if (!spg_cuda(cudaMemcpyAsync(c->offsets, own->offsets.at, ((size_t)t->rows + 1) * sizeof(int32_t),
                                      cudaMemcpyDeviceToDevice, g->memory.stream),
                      "offsets of C", error))
            return false;
    }
    if (m->job.precision == SPG_PATTERN)
        c->values = NULL;
    c->rows = own->rows;
    c->columns = own->columns;
    c->stored = own->stored;
    c->products = m->product.work.totals.bound;
    c->peak = g->memory.peak;
    return true;
}

/* The positions of a checked product are known by their numbers, so that a product of the same structure can be
 * checked. */
static bool check_operands(struct gpumem_spgemm *m, const struct spg_request *r, bool repeated, bool wide,
                           struct spg_error *error) {
    if (repeated)
        return spg_request_same_positions(m, r, m->hash, "the last product", error);
    bool right = spg_request_check(m, r, wide ? NULL : m->hash, error);
    m->hashed = right && !wide;
    return right;
}

static void remember(struct gpumem_spgemm *m, const struct spg_request *r, enum spg_call call, bool own) {
    m->last = call;
    m->in_own_memory = own;
    m->shapes = r->count;
    for (int i = 0; i < r->count; i++)
        m->shape[i] = spg_shape_of(&r->csr[i]);
}

/* Whether a call with the structure of the last one can be that. */
static bool check_repeated(const struct gpumem_spgemm *m, const struct spg_request *r, enum spg_call call, bool own,
                           bool checks, struct spg_error *error) {
    if (!m->product.work.gpu || m->last != call)
        return spg_fail_as(error, GPUMEM_INVALID_VALUE, "same structure as what? there is no last product%s",
                           m->product.work.gpu ? " of this call" : "");
    if (!spg_request_repeats(r, m->shapes, m->shape, "the last product", error))
        return false;
    if (checks && !m->hashed)
        return spg_fail_as(error, GPUMEM_INVALID_VALUE,
                           "the last product was not checked, so its positions are not known");
    if (own && !m->in_own_memory)
        return spg_fail_as(error, GPUMEM_INVALID_VALUE,
                           "the last product lies in the caller's memory, so the multiplier "
                           "has none of its own for this one");
    return !own || spg_apart_from_c(m, r, error);
}

/* One product of the multiplier, whatever asks for it: the call, once the matrices are read. */
static enum gpumem_status run(struct gpumem_spgemm *m, const struct spg_request *r, enum spg_call call,
                              const struct gpumem_spgemm_output *output, uint64_t flags, struct CUstream_st *stream,
                              struct gpumem_spgemm_result *result) {
    bool repeated = flags & GPUMEM_SPGEMM_SAME_STRUCTURE, wide = flags & GPUMEM_SPGEMM_WIDE;
    struct target target = {.wide = wide, .value_size = spg_value_size(m->job.precision)};
    struct gpumem_spgemm_result c = {0};
    struct spg_error error;
    size_t size;
    target.rows = spg_request_rows(&r->csr[0]);
    if (!spg_struct_size("gpumem_spgemm_result", result, &size, &error) ||
        (output && (!read_output(&target, output, m->job.precision, &error) ||
                    !spg_apart_from_output(m, r, &target.output, target.rows, &error))) ||
        (repeated && !check_repeated(m, r, call, !output, flags & GPUMEM_SPGEMM_CHECK, &error)))
        return spg_failed(&error);
    bool launches = repeated && !(flags & GPUMEM_SPGEMM_CHECK) && spg_product_is_planned(&m->product) &&
                    (!output || offsets_of(&target));
    if (!spg_multiplier_enter(m, launches, stream, &error))
        return spg_failed(&error);
    if (!repeated)
        spg_set_aside(m, r);
    struct target *t = output ? &target : NULL;
    m->hashed = m->hashed && repeated;
    bool done = !wide || spg_wide_takes(&r->csr[1], &error);
    if (done && flags & GPUMEM_SPGEMM_CHECK)
        done = check_operands(m, r, repeated, wide, &error);
    else if (done && wide)
        done = spg_request_check_offsets(m, r, &error);
    if (done && wide)
        done = compute_wide(m, r->csr, t, &c, &error);
    else if (done)
        done = spg_request_form(m, r, &error) && compute(m, t, repeated, &c, &error);
    if (!done || !spg_multiplier_leave(m, &error)) {
        /* So the caller can make room. */
        if (error.status == GPUMEM_TOO_SMALL) {
            remember(m, r, call, false);
            if (size >= offsetof(struct gpumem_spgemm_result, offsets))
                result->stored = target.stored;
        }
        return spg_multiplier_abandon(m, true, &error);
    }
    remember(m, r, call, !output);
    spg_struct_write(result, &c, sizeof c);
    return GPUMEM_OK;
}

__attribute__((visibility("default"))) enum gpumem_status
gpumem_spgemm_multiply_add(struct gpumem_spgemm *m, const struct gpumem_spgemm_csr *a,
                           const struct gpumem_spgemm_csr *b, const struct gpumem_spgemm_csr *d,
                           const struct gpumem_spgemm_output *output, uint64_t flags, struct CUstream_st *stream,
                           struct gpumem_spgemm_result *result) {
    const uint64_t known = GPUMEM_SPGEMM_SAME_STRUCTURE | GPUMEM_SPGEMM_CHECK | (d ? 0 : (uint64_t)GPUMEM_SPGEMM_WIDE);
    struct spg_error error;
    struct spg_request r;
    if (!spg_given(m, "the multiplier", &error) || !spg_request_flags(flags, known, &error) ||
        !spg_request_read(m, &r, a, b, d, flags & GPUMEM_SPGEMM_WIDE, &error))
        return spg_failed(&error);
    for (int i = 0; (flags & GPUMEM_SPGEMM_WIDE) && i < 2; i++)
        if (r.csr[i].operation || r.csr[i].scale) {
            spg_fail_as(&error, GPUMEM_NOT_SUPPORTED, "64-bit offsets are for plain A and B");
            return spg_failed(&error);
        }
    return run(m, &r, SPG_CALL_PRODUCT, output, flags, stream, result);
}

__attribute__((visibility("default"))) enum gpumem_status
gpumem_spgemm_multiply(struct gpumem_spgemm *m, const struct gpumem_spgemm_csr *a, const struct gpumem_spgemm_csr *b,
                       const struct gpumem_spgemm_output *output, uint64_t flags, struct CUstream_st *stream,
                       struct gpumem_spgemm_result *result) {
    return gpumem_spgemm_multiply_add(m, a, b, NULL, output, flags, stream, result);
}

__attribute__((visibility("default"))) enum gpumem_status gpumem_spgemm_sort(struct gpumem_spgemm *m,
                                                                             const struct gpumem_spgemm_csr *a,
                                                                             const struct gpumem_spgemm_output *output,
                                                                             uint64_t flags, struct CUstream_st *stream,
                                                                             struct gpumem_spgemm_result *result) {
    struct spg_error error;
    struct spg_request r = {.count = 1};
    if (!spg_given(m, "the multiplier", &error))
        return spg_failed(&error);
    unsigned accepts = SPG_READ_ARRAYS | (m->job.precision == SPG_PATTERN ? SPG_READ_PATTERN : 0);
    if (!spg_request_flags(flags, GPUMEM_SPGEMM_SAME_STRUCTURE, &error) ||
        !spg_read_csr("A", &r.csr[0], a, accepts, &error))
        return spg_failed(&error);
    return run(m, &r, SPG_CALL_SORT, output, flags, stream, result);
}

/* ---- triple products */

/* The conjugate transpose of a plain P. */
static bool adjoint(struct gpumem_spgemm_csr *r, const struct gpumem_spgemm_csr *p, struct spg_error *error) {
    if (p && !spg_struct_read("gpumem_spgemm_csr", r, sizeof *r, p, error))
        return false;
    if (!p || r->operation != GPUMEM_SPGEMM_PLAIN)
        return spg_fail_as(error, GPUMEM_INVALID_VALUE, "P without R must be there, and be plain");
    r->struct_size = sizeof *r;
    r->operation = GPUMEM_SPGEMM_CONJUGATE;
    r->scale = NULL;
    return true;
}

__attribute__((visibility("default"))) enum gpumem_status
gpumem_spgemm_triple(struct gpumem_spgemm *m, const struct gpumem_spgemm_csr *r, const struct gpumem_spgemm_csr *a,
                     const struct gpumem_spgemm_csr *p, const struct gpumem_spgemm_output *output, uint64_t flags,
                     struct CUstream_st *stream, struct gpumem_spgemm_result *result) {
    struct spg_error error;
    struct gpumem_spgemm_csr left;
    struct gpumem_spgemm_result ra = {.struct_size = sizeof ra};
    size_t size;
    if (!spg_given(m, "the multiplier", &error) ||
        !spg_request_flags(flags, GPUMEM_SPGEMM_SAME_STRUCTURE | GPUMEM_SPGEMM_CHECK, &error) ||
        !spg_struct_size("gpumem_spgemm_result", result, &size, &error) || (!r && !adjoint(&left, p, &error)) ||
        (!m->inner && !(m->inner = spg_multiplier_like(m, &error))))
        return spg_failed(&error);
    /* R A of the structure of another call would be a product of another structure. */
    if ((flags & GPUMEM_SPGEMM_SAME_STRUCTURE) && m->last != SPG_CALL_TRIPLE) {
        spg_fail_as(&error, GPUMEM_INVALID_VALUE, "same structure as what? there is no last product of this call");
        return spg_failed(&error);
    }
    /* The last call may still read the R A that this one overwrites. */
    bool entered = spg_multiplier_enter(m, true, stream, &error);
    m->product.method.gpu.memory.captured = false;
    if (!entered)
        return spg_failed(&error);
    enum gpumem_status status = gpumem_spgemm_multiply(m->inner, r ? r : &left, a, NULL, flags, stream, &ra);
    if (status)
        return status;
    struct gpumem_spgemm_csr product = {.struct_size = sizeof product,
                                        .rows = ra.rows,
                                        .columns = ra.columns,
                                        .stored = ra.stored,
                                        .offsets = ra.offsets,
                                        .indices = ra.indices,
                                        .values = ra.values};
    struct spg_request request;
    if (!spg_request_read(m, &request, &product, p, NULL, false, &error))
        return spg_failed(&error);
    status = run(m, &request, SPG_CALL_TRIPLE, output, flags, stream, result);
    if (!status && size >= offsetof(struct gpumem_spgemm_result, wide_offsets)) {
        size_t held = m->inner->product.method.gpu.memory.now;
        result->products += ra.products;
        result->peak = result->peak + held > ra.peak ? result->peak + held : ra.peak;
    }
    return status;
}

/* ---- estimates */

__attribute__((visibility("default"))) enum gpumem_status
gpumem_spgemm_workspace(struct gpumem_spgemm *m, const struct gpumem_spgemm_csr *a, const struct gpumem_spgemm_csr *b,
                        struct CUstream_st *stream, struct gpumem_spgemm_needs *workspace) {
    struct spg_error error;
    struct spg_request r;
    struct gpumem_spgemm_needs w = {0};
    double expected;
    size_t size;
    if (!spg_given(m, "the multiplier", &error) || !spg_struct_size("gpumem_spgemm_needs", workspace, &size, &error) ||
        !spg_request_read(m, &r, a, b, NULL, false, &error) || !spg_multiplier_enter(m, false, stream, &error))
        return spg_failed(&error);
    spg_set_aside(m, &r);
    if (!spg_request_form(m, &r, &error) ||
        !spg_product_analyse(&m->product, &w.helpers, &w.products, &expected, &error) ||
        !spg_multiplier_leave(m, &error))
        return spg_multiplier_abandon(m, true, &error);
    w.expected = (int64_t)(expected + 0.5);
    w.output = ((size_t)spg_request_rows(&r.csr[0]) + 1) * sizeof(int32_t) +
               (size_t)w.expected * (sizeof(int32_t) + spg_value_size(m->job.precision));
    spg_struct_write(workspace, &w, sizeof w);
    return GPUMEM_OK;
}
