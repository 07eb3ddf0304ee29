#include "spgemm/gpu_loop.h"

bool spg_loop_arrays(struct spg_output *columns, struct spg_output *values, enum spg_vector vector,
                     struct spg_memory *memory, struct spg_error *error) {
    return spg_output_make(columns, vector, memory, "columns by rounds", error) &&
           spg_output_make(values, vector, memory, "values by rounds", error);
}

bool spg_loop_arrays_to_result(struct spg_output *columns, struct spg_output *values, size_t value_size,
                               struct spg_result *c, struct spg_error *error) {
    return spg_output_to_block(columns, (size_t)c->stored * sizeof(int32_t), &c->indices, error) &&
           spg_output_to_block(values, (size_t)c->stored * value_size, &c->values, error);
}

bool spg_loop_make(struct spg_loop *l, struct spg_method *method, bool arrays, struct spg_error *error) {
    const struct spg_job *job = method->gpu.job;
    *l = (struct spg_loop){.job = job, .value_size = spg_value_size(job->precision)};
    return spg_work_make(&l->w, method, error) && spg_work_offsets(&l->w, error) &&
           (!arrays || spg_loop_arrays(&l->columns, &l->values, job->vector, &method->gpu.memory, error));
}

void spg_loop_drop(struct spg_loop *l) {
    struct spg_memory *memory = &l->w.gpu->memory;
    spg_histogram_free(&l->sample);
    spg_output_release(&l->columns);
    spg_output_release(&l->values);
    spg_output_release(&l->owner);
    spg_block_drop(&l->first, memory);
    spg_block_drop(&l->resume, memory);
    spg_block_drop(&l->unfinished, memory);
    spg_work_drop(&l->w);
}

/* The expected size of C gets physical handles of its own, so that the slots after C can be returned later. A handle
 * costs about 0.05 ms, so few bytes get none. */
#define FEW_BYTES (8 << 20)
static bool ensure_array(struct spg_loop *l, struct spg_output *o, int64_t slots, size_t element,
                         struct spg_error *error) {
    int64_t c = l->expected_entries + l->expected_entries / 256;
    bool apart = c < slots - slots / 64 && (slots - c) * (int64_t)element >= FEW_BYTES;
    if (c > (int64_t)(o->size / element) && apart && !spg_output_ensure(o, c, element, error))
        return false;
    return spg_output_ensure(o, slots, element, error);
}

/* With SPG_VECTOR_COPY, freeing the old block waits for the copy. */
bool spg_loop_ensure(struct spg_loop *l, int64_t slots, struct spg_error *error) {
    double start = spg_now_ms();
    bool grown = ensure_array(l, &l->columns, slots, sizeof(int32_t), error) &&
                 ensure_array(l, &l->values, slots, l->value_size, error);
    l->grow_ms += spg_now_ms() - start;
    return grown;
}
