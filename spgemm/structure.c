/* Structures of spgemm.h: a symbolic step that is an object, and numeric steps that use it. */
#include "spgemm/aliases.h"

#include <stdlib.h>

struct gpumem_spgemm_structure {
    struct spg_structure of;
    struct spg_memory memory; /* where its blocks come from */
    enum spg_precision precision;
    int device, matrices;
    struct spg_matrix_shape shape[3];
    unsigned long long hash[3]; /* of the patterns */
};

__attribute__((visibility("default"))) enum gpumem_status
gpumem_spgemm_symbolic(struct gpumem_spgemm *m, const struct gpumem_spgemm_csr *a, const struct gpumem_spgemm_csr *b,
                       const struct gpumem_spgemm_csr *d, uint64_t flags, struct CUstream_st *stream,
                       struct gpumem_spgemm_structure **structure) {
    struct spg_error error;
    struct spg_request r;
    if (!spg_given(m, "the multiplier", &error) || !spg_given(structure, "the place for the structure", &error) ||
        !spg_request_flags(flags, GPUMEM_SPGEMM_CHECK, &error) || !spg_request_read(m, &r, a, b, d, false, &error) ||
        !spg_multiplier_enter(m, false, stream, &error))
        return spg_failed(&error);
    struct spg_memory *memory = &m->product.method.gpu.memory;
    spg_set_aside(m, &r);
    struct gpumem_spgemm_structure *s = calloc(1, sizeof *s);
    bool done = s || spg_fail_as(&error, GPUMEM_OUT_OF_MEMORY, "out of host memory for a structure");
    done = done &&
           (flags & GPUMEM_SPGEMM_CHECK ? spg_request_check(m, &r, s->hash, &error)
                                        : spg_request_hash(m, &r, s->hash, &error)) &&
           spg_request_form(m, &r, &error) && spg_product_count(&m->product, &s->of, &error);
    if (done)
        spg_memory_release(memory, spg_structure_size(&s->of));
    /* Other multipliers use the structure in streams that are not ordered with this one. */
    if (!done || !spg_multiplier_leave(m, &error) || !spg_cuda(cudaStreamSynchronize(stream), "a structure", &error)) {
        if (done) {
            s->memory = spg_uncounted(memory);
            spg_structure_drop(&s->of, &s->memory);
        }
        free(s);
        return spg_multiplier_abandon(m, true, &error);
    }
    s->memory = spg_uncounted(memory);
    s->precision = m->job.precision;
    s->device = m->device;
    s->matrices = r.count;
    for (int i = 0; i < r.count; i++)
        s->shape[i] = spg_shape_of(&r.csr[i]);
    *structure = s;
    return GPUMEM_OK;
}

__attribute__((visibility("default"))) enum gpumem_status
gpumem_spgemm_structure_result(const struct gpumem_spgemm_structure *s, struct gpumem_spgemm_result *result) {
    struct spg_error error;
    size_t size;
    if (!spg_given(s, "the structure", &error) || !spg_struct_size("gpumem_spgemm_result", result, &size, &error))
        return spg_failed(&error);
    struct gpumem_spgemm_result c = {.rows = s->of.c.rows,
                                     .columns = s->of.c.columns,
                                     .stored = s->of.c.stored,
                                     .offsets = s->of.c.offsets.at,
                                     .products = s->of.work.totals.bound};
    spg_struct_write(result, &c, sizeof c);
    return GPUMEM_OK;
}

static bool fits(const struct gpumem_spgemm *m, const struct gpumem_spgemm_structure *s, const struct spg_request *r,
                 const struct gpumem_spgemm_output *o, struct spg_error *error) {
    if (s->device != m->device)
        return spg_fail_as(error, GPUMEM_INVALID_CONTEXT, "the structure belongs to device %d, the multiplier to %d",
                           s->device, m->device);
    if (s->precision != m->job.precision)
        return spg_fail_as(error, GPUMEM_INVALID_VALUE, "the structure is for precision %d, the multiplier for %d",
                           (int)s->precision, (int)m->job.precision);
    return spg_request_repeats(r, s->matrices, s->shape, "the structure", error) &&
           (o->capacity >= s->of.c.stored ||
            spg_fail_as(error, GPUMEM_TOO_SMALL, "C has %lld entries, and the capacity is %lld",
                        (long long)s->of.c.stored, (long long)o->capacity));
}

static bool fill(struct gpumem_spgemm *m, const struct gpumem_spgemm_structure *s, const struct spg_request *r,
                 const struct gpumem_spgemm_output *o, struct spg_error *error) {
    const struct spg_result *c = &s->of.c;
    return spg_request_form(m, r, error) &&
           (!o->offsets || spg_cuda(cudaMemcpyAsync(o->offsets, c->offsets.at, ((size_t)c->rows + 1) * sizeof(int32_t),
                                                    cudaMemcpyDeviceToDevice, m->product.method.gpu.memory.stream),
                                    "offsets of C", error)) &&
           spg_product_fill(&m->product, &s->of, o->indices, o->values, error);
}

__attribute__((visibility("default"))) enum gpumem_status
gpumem_spgemm_numeric(struct gpumem_spgemm *m, const struct gpumem_spgemm_structure *s,
                      const struct gpumem_spgemm_csr *a, const struct gpumem_spgemm_csr *b,
                      const struct gpumem_spgemm_csr *d, const struct gpumem_spgemm_output *output, uint64_t flags,
                      struct CUstream_st *stream) {
    struct spg_error error;
    struct spg_request r;
    struct gpumem_spgemm_output o;
    bool checks = flags & GPUMEM_SPGEMM_CHECK;
    if (!spg_given(m, "the multiplier", &error) || !spg_given(s, "the structure", &error) ||
        !spg_request_flags(flags, GPUMEM_SPGEMM_CHECK, &error) || !spg_request_read(m, &r, a, b, d, false, &error) ||
        !spg_output_read(&o, output, m->job.precision, true, &error) || !fits(m, s, &r, &o, &error) ||
        !spg_apart_from_output(m, &r, &o, s->of.c.rows, &error) || !spg_multiplier_enter(m, !checks, stream, &error))
        return spg_failed(&error);
    bool done =
        (!checks || spg_request_same_positions(m, &r, s->hash, "the structure", &error)) && fill(m, s, &r, &o, &error);
    if (!done || !spg_multiplier_leave(m, &error))
        return spg_multiplier_abandon(m, false, &error);
    return GPUMEM_OK;
}

__attribute__((visibility("default"))) void gpumem_spgemm_structure_destroy(struct gpumem_spgemm_structure *s,
                                                                            struct CUstream_st *stream) {
    if (!s)
        return;
    s->memory.stream = stream;
    spg_structure_drop(&s->of, &s->memory);
    free(s);
}
