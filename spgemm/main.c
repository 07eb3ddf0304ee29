/* spgemm: multiplies sparse matrices and says what it took. */
#include "spgemm/generators.h"
#include "spgemm/outcome.h"
#include "spgemm/reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A and B as the product takes them: with layout csc transposed and swapped, since C' = B' A'. */
struct operands {
    struct gm_csr first, second; /* `second` is empty where B is A */
    const struct gm_csr *a, *b;
};

static bool load(struct gm_csr *m, const char *name, const struct gm_settings *s, struct gm_spgemm_error *error) {
    struct gm_reading reading = {0};
    bool done = strncmp(name, "gen:", 4) ? gm_read_matrix(m, name, s->precision, &reading, error)
                                         : gm_generate(m, name + 4, error);
    if (reading.merged)
        fprintf(stderr, "spgemm: %s: %lld entries added to others of their position\n", name,
                (long long)reading.merged);
    if (done && s->precision == GM_FLOAT)
        gm_csr_round_to_float(m);
    return done;
}

static struct gm_shape shape_of(const struct gm_csr *m) {
    return (struct gm_shape){m->rows, m->columns, gm_csr_stored(m), gm_csr_nonzeros(m)};
}

static bool fits(const struct gm_settings *s, const struct gm_csr *a, const struct gm_csr *b,
                 struct gm_spgemm_error *error) {
    if (a->columns == b->rows)
        return true;
    if (!s->b)
        return gm_spgemm_fail(error, "%.200s: %d x %d is not square, as A A needs", s->matrix, a->rows, a->columns);
    return gm_spgemm_fail(error, "%.200s is %d x %d, %.200s is %d x %d: A's columns are not B's rows", s->matrix,
                          a->rows, a->columns, s->b, b->rows, b->columns);
}

static bool transpose(struct gm_csr *m, struct gm_spgemm_error *error) {
    struct gm_csr t;
    if (!gm_csr_transpose(&t, m, error))
        return false;
    gm_csr_free(m);
    *m = t;
    return true;
}

static bool load_operands(struct operands *o, struct gm_outcome *outcome, struct gm_spgemm_error *error) {
    const struct gm_settings *s = outcome->settings;
    struct gm_csr *second = s->b ? &o->second : &o->first;
    if (!load(&o->first, s->matrix, s, error) || (s->b && !load(&o->second, s->b, s, error)) ||
        !fits(s, &o->first, second, error))
        return false;
    outcome->a = shape_of(&o->first);
    outcome->b = shape_of(second);
    if (s->columns && (!transpose(&o->first, error) || (s->b && !transpose(&o->second, error))))
        return false;
    o->a = s->columns ? second : &o->first;
    o->b = s->columns ? &o->first : second;
    return true;
}

static bool model(const struct operands *o, struct gm_outcome *outcome, struct gm_spgemm_error *error) {
    struct gm_sizes sizes = {0};
    struct gm_histogram histogram = {0};
    struct gm_sample sample = {0};
    bool done = gm_sizes_make(&sizes, o->a, o->b, error) &&
                gm_histogram_make(&histogram, sizes.row, sizes.rows, error) &&
                gm_sample_rows(&sample, o->a, o->b, GM_SAMPLE_ROWS, GM_SAMPLE_SEED, error) &&
                gm_estimate_cohen(o->a, o->b, GM_COHEN_KEYS, GM_SAMPLE_SEED, NULL, &outcome->cohen, error);
    int32_t asked = outcome->settings->size_per_row;
    if (done && asked == 0)
        asked = gm_auto_size_per_row(&sample.sizes, outcome->settings->kernel == GM_KERNEL_HASH);
    outcome->nnz_c = sizes.total;
    outcome->bound = sizes.bound;
    outcome->longest = sizes.longest;
    outcome->sampled = sample.total;
    outcome->rounds_count = asked < 0 ? GM_THESIS_SIZES : 1;
    for (int i = 0; done && i < outcome->rounds_count; i++)
        outcome->rounds[i] = gm_model_rounds(&histogram, asked < 0 ? gm_thesis_sizes[i] : asked);
    free(sizes.row);
    gm_histogram_free(&histogram);
    gm_histogram_free(&sample.sizes);
    return done;
}

static bool check(void *state, const struct gm_job *job, struct gm_outcome *outcome, struct gm_spgemm_error *error) {
    struct gm_csr c = {0};
    bool right = outcome->settings->mode->functions->fetch(state, &c, error);
    if (right && !gm_check_product(job->a, job->b, &c, job->precision, &outcome->check, error))
        right = gm_spgemm_fail_in(error, "the product is wrong");
    gm_csr_free(&c);
    return right;
}

/* The thesis' runs (4.1), 25 of 50, are for products that take moments. The first run loads code, so the
 * second one tells. */
#define SHORT_MS 100
static bool warm_up(void *state, struct gm_outcome *outcome, struct gm_spgemm_error *error) {
    const struct gm_settings *s = outcome->settings;
    struct gm_run run = {0};
    unsigned warmup = s->runs ? s->warmup : 2;
    outcome->runs_count = s->runs;
    for (outcome->warmup = 0; outcome->warmup < warmup; outcome->warmup++) {
        if (!s->mode->functions->run(state, &run, error))
            return false;
        if (!s->runs && outcome->warmup == 1 && run.ms < SHORT_MS)
            warmup = 25;
    }
    if (!s->runs)
        outcome->runs_count = warmup == 25 ? 25 : 3;
    return true;
}

/* A card that the product fills has no room for them, which is no reason to fail. */
static void estimate(void *state, struct gm_outcome *outcome) {
    struct gm_spgemm_error error;
    outcome->estimated = outcome->settings->mode->functions->estimate(state, &outcome->estimates, &error);
    if (!outcome->estimated)
        fprintf(stderr, "spgemm: no estimates: %s\n", error.text);
}

static bool multiply(const struct operands *o, struct gm_outcome *outcome, struct gm_spgemm_error *error) {
    const struct gm_settings *s = outcome->settings;
    const struct gm_mode_functions *functions = s->mode->functions;
    struct gm_job job = {.a = o->a,
                         .b = o->b,
                         .precision = s->precision,
                         .argument = s->argument,
                         .size_per_row = s->mode->sized && s->size_per_row > 0 ? s->size_per_row : 0,
                         .vector = s->vector,
                         .kernel = s->kernel,
                         .persistent = s->persistent,
                         .limit = s->limit};
    void *state = functions->open(&job, error);
    bool done = state && warm_up(state, outcome, error);
    if (done && !(outcome->runs = calloc(outcome->runs_count, sizeof *outcome->runs)))
        done = gm_spgemm_fail(error, "out of memory");
    for (unsigned i = 0; done && i < outcome->runs_count; i++)
        done = functions->run(state, &outcome->runs[i], error);
    if (done && s->mode->sized && s->size_per_row <= 0)
        estimate(state, outcome);
    if (done && s->check)
        done = check(state, &job, outcome, error);
    functions->close(state);
    return done;
}

int main(int argc, char **argv) {
    struct gm_settings settings;
    struct gm_outcome outcome = {.settings = &settings};
    struct operands operands = {0};
    struct gm_spgemm_error error;
    int status = gm_settings_read(argc, argv, &settings);
    if (status >= 0)
        return status;
    bool only_json = settings.json && !strcmp(settings.json, "-");
    bool done = load_operands(&operands, &outcome, &error) && (!settings.model || model(&operands, &outcome, &error)) &&
                (!settings.mode || multiply(&operands, &outcome, &error)) &&
                (only_json || gm_outcome_text(&outcome, &error)) &&
                (!settings.json || gm_outcome_json(&outcome, &error));
    if (!done)
        fprintf(stderr, "spgemm: %s\n", error.text);
    free(outcome.runs);
    gm_csr_free(&operands.first);
    gm_csr_free(&operands.second);
    return !done;
}
