/* Mode auto: the library call of spgemm.h, as a program makes it. The operands are on the device before the clock
 * starts.
 *
 * cold: each run has a new multiplier, so it allocates all its memory. warm: one multiplier for all runs. same: one
 * multiplier, and from the second run on only values are computed. wide: one multiplier, and C has 64-bit offsets. */
#include "spgemm/check_sums.h"
#include "spgemm/client.h"
#include "spgemm/modes.h"

#include <stdlib.h>
#include <string.h>

struct state {
    const struct spg_job *job;
    struct spg_operand first, second; /* `second` is empty when B is A */
    cudaEvent_t started, finished;
    struct gpumem_spgemm *multiplier;
    struct gpumem_spgemm_result c;
    bool has_product;
};

static bool make_multiplier(struct state *s, struct spg_error *error) {
    struct gpumem_spgemm_options options = {.struct_size = sizeof options,
                                            .limit = s->job->limit,
                                            .precision = s->job->precision == SPG_FLOAT ? GPUMEM_SPGEMM_FLOAT
                                                                                        : GPUMEM_SPGEMM_DOUBLE};
    gpumem_spgemm_destroy(s->multiplier);
    s->multiplier = NULL;
    s->has_product = false;
    return spg_call_worked(gpumem_spgemm_create(&options, &s->multiplier), error);
}

static void close_state(void *pointer) {
    struct state *s = pointer;
    if (!s)
        return;
    gpumem_spgemm_destroy(s->multiplier);
    if (s->started)
        cudaEventDestroy(s->started);
    if (s->finished)
        cudaEventDestroy(s->finished);
    spg_operand_drop(&s->first);
    spg_operand_drop(&s->second);
    free(s);
}

static void *open_state(const struct spg_job *job, struct spg_error *error) {
    struct state *s = calloc(1, sizeof *s);
    if (!s) {
        spg_fail_as(error, SPG_OUT_OF_MEMORY, "out of host memory");
        return NULL;
    }
    s->job = job;
    if (make_multiplier(s, error) && spg_operand_make(&s->first, job->a, job->precision, error) &&
        (job->b == job->a || spg_operand_make(&s->second, job->b, job->precision, error)) &&
        spg_cuda(cudaEventCreate(&s->started), "event", error) &&
        spg_cuda(cudaEventCreate(&s->finished), "event", error))
        return s;
    close_state(s);
    return NULL;
}

static bool is_wide(const struct state *s) { return !strcmp(s->job->argument, "wide"); }

static bool multiply(struct state *s, float *ms, struct spg_error *error) {
    struct gpumem_spgemm_csr a = spg_argument_of(&s->first),
                             b = spg_argument_of(s->job->b == s->job->a ? &s->first : &s->second);
    bool same = s->has_product && !strcmp(s->job->argument, "same");
    uint64_t flags = same ? GPUMEM_SPGEMM_SAME_STRUCTURE : is_wide(s) ? GPUMEM_SPGEMM_WIDE : 0;
    s->c.struct_size = sizeof s->c;
    s->has_product = false;
    s->has_product = spg_cuda(cudaDeviceSynchronize(), "the device", error) &&
                     spg_cuda(cudaEventRecord(s->started, NULL), "event", error) &&
                     spg_call_worked(gpumem_spgemm_multiply(s->multiplier, &a, &b, NULL, flags, NULL, &s->c), error) &&
                     spg_cuda(cudaEventRecord(s->finished, NULL), "event", error) &&
                     spg_cuda(cudaEventSynchronize(s->finished), "the product", error) &&
                     spg_cuda(cudaEventElapsedTime(ms, s->started, s->finished), "event", error);
    return s->has_product;
}

static bool run(void *pointer, struct spg_run *run, struct spg_error *error) {
    struct state *s = pointer;
    bool cold = !*s->job->argument || !strcmp(s->job->argument, "cold");
    float ms = 0;
    *run = (struct spg_run){0};
    if ((cold && !make_multiplier(s, error)) || !multiply(s, &ms, error))
        return false;
    double trim_start = spg_now_ms();
    if (cold && !spg_call_worked(gpumem_spgemm_trim(s->multiplier), error))
        return false;
    run->trim_ms = spg_now_ms() - trim_start;
    run->ms = (double)ms;
    run->peak = s->c.peak;
    run->stored = run->entries = s->c.stored;
    return true;
}

static bool fetch(void *pointer, struct spg_csr *c, struct spg_error *error) {
    struct state *s = pointer;
    struct spg_result result =
        spg_result_at(s->c.rows, s->c.columns, s->c.stored, s->c.offsets, s->c.indices, s->c.values);
    return spg_result_fetch(&result, s->job->precision, c, error);
}

/* The floats lie at the front of the array. Widening from the end overwrites none before it is read. */
static void widen_values(double *values, size_t count) {
    const char *narrow = (const char *)values;
    for (size_t k = count; k-- > 0;) {
        float value;
        memcpy(&value, narrow + k * sizeof value, sizeof value);
        values[k] = value;
    }
}

/* Reads entries of C; floats become doubles. */
static bool read_entries(void *pointer, int64_t first, int64_t count, int32_t *indices, double *values,
                         struct spg_error *error) {
    const struct state *s = pointer;
    size_t value = spg_value_size(s->job->precision);
    const char *from = (const char *)s->c.values + (size_t)first * value;
    if (!count)
        return true;
    if (!spg_cuda(cudaMemcpy(indices, s->c.indices + first, (size_t)count * sizeof *indices, cudaMemcpyDeviceToHost),
                  "copy of C", error) ||
        !spg_cuda(cudaMemcpy(values, from, (size_t)count * value, cudaMemcpyDeviceToHost), "copy of C", error))
        return false;
    if (s->job->precision == SPG_FLOAT)
        widen_values(values, (size_t)count);
    return true;
}

bool spg_auto_verify(void *pointer, struct spg_check *check, struct spg_error *error) {
    struct state *s = pointer;
    size_t count = (size_t)s->c.rows + 1;
    int64_t *offsets = malloc(count * sizeof *offsets);
    if (!offsets)
        return spg_fail(error, "out of host memory for offsets of C");
    bool right = spg_cuda(cudaMemcpy(offsets, s->c.wide_offsets, count * sizeof *offsets, cudaMemcpyDeviceToHost),
                          "copy of C", error) &&
                 spg_check_sums(s->job->a, s->job->b, offsets, read_entries, s, s->job->precision, check, error);
    free(offsets);
    return right;
}

const struct spg_mode_ops spg_mode_auto = {open_state, run, fetch, close_state, NULL};
