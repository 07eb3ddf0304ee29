#include "spgemm/gpu_operands.h"
#include "spgemm/kernels.h"

void spg_formed_drop(struct spg_formed *formed, struct spg_memory *memory) {
    for (int i = 0; i < formed->count; i++)
        spg_block_drop(&formed->block[i], memory);
    formed->count = 0;
}

static bool make_block(struct spg_gpu *g, struct spg_formed *formed, size_t size, const char *what, void **at,
                       struct spg_error *error) {
    struct spg_block *block = &formed->block[formed->count];
    if (!spg_block_make(block, &g->memory, size, what, error))
        return false;
    formed->count++;
    *at = block->at;
    return true;
}

/* Memory for a matrix. */
static bool make_matrix(struct spg_gpu *g, struct spg_formed *formed, int64_t rows, int64_t columns, int64_t stored,
                        const char *what, struct spg_operand *m, struct spg_error *error) {
    size_t offsets = spg_aligned(((size_t)rows + 1) * sizeof(int32_t)),
           indices = spg_aligned((size_t)stored * sizeof(int32_t)),
           values = (size_t)stored * spg_value_size(g->job->precision);
    void *at;
    if (rows > SPG_ROWS_MAX || columns > SPG_ROWS_MAX || stored > INT32_MAX - SPG_STEP_MAX)
        return spg_fail_as(error, SPG_NOT_SUPPORTED,
                           "%s has %lld rows, %lld columns and %lld entries, which exceed 32 "
                           "bits",
                           what, (long long)rows, (long long)columns, (long long)stored);
    if (!make_block(g, formed, offsets + indices + values, what, &at, error))
        return false;
    *m = (struct spg_operand){.rows = (int32_t)rows,
                              .columns = (int32_t)columns,
                              .stored = stored,
                              .offsets = at,
                              .indices = (int32_t *)((char *)at + offsets),
                              .values = values ? (char *)at + offsets + indices : NULL};
    return true;
}

static bool transpose(struct spg_gpu *g, const struct spg_operand *m, const struct spg_form *form,
                      struct spg_formed *formed, struct spg_operand *plain, struct spg_error *error) {
    enum spg_precision precision = g->job->precision;
    cudaStream_t stream = g->memory.stream;
    struct spg_block scratch = {0};
    size_t bytes = 0;
    bool done =
        make_matrix(g, formed, m->columns, m->rows, m->stored, "a transposed matrix", plain, error) &&
        spg_cuda(spg_launch_transpose(precision, m, form->scale, form->conjugated, plain, NULL, &bytes, stream),
                 "a transposition", error) &&
        spg_block_make(&scratch, &g->memory, bytes, "entries to transpose", error) &&
        spg_cuda(spg_launch_transpose(precision, m, form->scale, form->conjugated, plain, scratch.at, &bytes, stream),
                 "a transposition", error);
    spg_block_drop(&scratch, &g->memory);
    return done;
}

bool spg_form_operand(struct spg_gpu *g, const struct spg_operand *m, const struct spg_form *form,
                      struct spg_formed *formed, struct spg_operand *plain, struct spg_error *error) {
    enum spg_precision precision = g->job->precision;
    void *values;
    *plain = *m;
    if (form->transposed)
        return transpose(g, m, form, formed, plain, error);
    if (!form->scale || !m->stored || precision == SPG_PATTERN)
        return true;
    if (!make_block(g, formed, (size_t)m->stored * spg_value_size(precision), "scaled values", &values, error))
        return false;
    plain->values = values;
    return spg_cuda(spg_launch_scale(precision, m->values, m->stored, form->scale, values, g->memory.stream),
                    "scaled values", error);
}

static bool copy(struct spg_gpu *g, void *to, const void *from, int64_t count, size_t element,
                 struct spg_error *error) {
    size_t size = (size_t)count * element;
    return !size || spg_cuda(cudaMemcpyAsync(to, from, size, cudaMemcpyDeviceToDevice, g->memory.stream),
                             "two matrices as one", error);
}

bool spg_form_sum(struct spg_gpu *g, struct spg_operand *a, struct spg_operand *b, const struct spg_operand *d,
                  const void *beta, struct spg_formed *formed, struct spg_error *error) {
    cudaStream_t stream = g->memory.stream;
    size_t value = spg_value_size(g->job->precision);
    struct spg_operand beside, below;
    if (!make_matrix(g, formed, a->rows, (int64_t)a->columns + a->rows, a->stored + a->rows, "A beside an identity",
                     &beside, error) ||
        !make_matrix(g, formed, (int64_t)b->rows + d->rows, b->columns, b->stored + d->stored, "B above the addend",
                     &below, error) ||
        !spg_cuda(spg_launch_beside(g->job->precision, a, beta, &beside, stream), "A beside an identity", error) ||
        !spg_cuda(spg_launch_below(b, d, below.offsets, stream), "B above the addend", error) ||
        !copy(g, below.indices, b->indices, b->stored, sizeof(int32_t), error) ||
        !copy(g, below.indices + b->stored, d->indices, d->stored, sizeof(int32_t), error) ||
        !copy(g, below.values, b->values, b->stored, value, error) ||
        (value && !copy(g, (char *)below.values + (size_t)b->stored * value, d->values, d->stored, value, error)))
        return false;
    *a = beside;
    *b = below;
    return true;
}

bool spg_form_identity(struct spg_gpu *g, int32_t rows, struct spg_formed *formed, struct spg_operand *identity,
                       struct spg_error *error) {
    return make_matrix(g, formed, rows, rows, rows, "an identity", identity, error) &&
           spg_cuda(spg_launch_identity(g->job->precision, identity, g->memory.stream), "an identity", error);
}
