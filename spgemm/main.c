/* spgemm: multiplies sparse matrices and reports time and memory. Order: read the options, load or make A and B, model
 * the product (--model), compute it (--mode), report. With --mpi each process computes some rows, and process 0
 * reports. */
#include "spgemm/choices.h"
#include "spgemm/generators.h"
#include "spgemm/outcome.h"
#include "spgemm/processes.h"
#include "spgemm/reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A and B of the product. With layout csc they are transposed and swapped, because C' = B' A'. */
struct operands {
    struct spg_csr first, second; /* `second` is empty when B is A */
    const struct spg_csr *a, *b;
    struct spg_csr rows; /* of A, with --mpi: those of this process */
};

static bool load(struct spg_csr *m, const char *name, const struct spg_settings *s, struct spg_error *error) {
    struct spg_reading reading = {0};
    struct spg_read_options options = {s->precision, s->any_size};
    bool done = strncmp(name, "gen:", 4) ? spg_read_matrix(m, name, &options, &reading, error)
                                         : spg_generate(m, name + 4, error);
    if (reading.merged)
        fprintf(stderr, "spgemm: %s: %lld entries added to others of their position\n", name,
                (long long)reading.merged);
    if (done && s->precision == SPG_FLOAT)
        spg_csr_round_to_float(m);
    return done;
}

static struct spg_shape shape_of(const struct spg_csr *m) {
    return (struct spg_shape){m->rows, m->columns, spg_csr_stored(m), spg_csr_nonzeros(m)};
}

static bool fits(const struct spg_settings *s, const struct spg_csr *a, const struct spg_csr *b,
                 struct spg_error *error) {
    if (a->columns == b->rows)
        return true;
    if (!s->b)
        return spg_fail(error, "%.200s: %d x %d is not square, as A A needs", s->matrix, a->rows, a->columns);
    return spg_fail(error, "%.200s is %d x %d, %.200s is %d x %d: A's columns are not B's rows", s->matrix, a->rows,
                    a->columns, s->b, b->rows, b->columns);
}

static bool transpose(struct spg_csr *m, struct spg_error *error) {
    struct spg_csr t;
    if (!spg_csr_transpose(&t, m, error))
        return false;
    spg_csr_free(m);
    *m = t;
    return true;
}

static bool load_operands(struct operands *o, struct spg_outcome *outcome, struct spg_error *error) {
    const struct spg_settings *s = outcome->settings;
    struct spg_csr *second = s->b ? &o->second : &o->first;
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

/* Takes the rows of this process out of A. */
static bool take_rows(struct operands *o, const struct spg_processes *p, struct spg_error *error) {
    int32_t first, rows;
    spg_processes_rows(o->a, o->b, p->rank, p->count, &first, &rows);
    if (!spg_csr_rows(&o->rows, o->a, first, rows, error))
        return false;
    o->a = &o->rows;
    return true;
}

static bool model(const struct operands *o, struct spg_outcome *outcome, struct spg_error *error) {
    struct spg_sizes sizes = {0};
    struct spg_histogram histogram = {0};
    struct spg_sample sample = {0};
    bool done = spg_sizes_make(&sizes, o->a, o->b, error) &&
                spg_histogram_make(&histogram, sizes.row, sizes.rows, error) &&
                spg_sample_rows(&sample, o->a, o->b, SPG_SAMPLE_ROWS, SPG_SAMPLE_SEED, error) &&
                spg_estimate_cohen(o->a, o->b, SPG_COHEN_KEYS, SPG_SAMPLE_SEED, NULL, &outcome->cohen, error);
    int32_t requested = outcome->settings->size_per_row;
    if (done && requested == 0)
        requested = spg_auto_size_per_row(&sample.sizes, outcome->settings->kernel == SPG_KERNEL_HASH);
    outcome->nnz_c = sizes.total;
    outcome->bound = sizes.bound;
    outcome->longest = sizes.longest;
    outcome->sampled = sample.total;
    outcome->rounds_count = requested < 0 ? SPG_THESIS_SIZES : 1;
    for (int i = 0; done && i < outcome->rounds_count; i++)
        outcome->rounds[i] = spg_model_rounds(&histogram, requested < 0 ? spg_thesis_sizes[i] : requested);
    free(sizes.row);
    spg_histogram_free(&histogram);
    spg_histogram_free(&sample.sizes);
    return done;
}

static bool check(void *state, const struct spg_mode_ops *ops, const struct spg_job *job, struct spg_outcome *outcome,
                  struct spg_error *error) {
    const struct spg_mode *mode = outcome->settings->mode;
    struct spg_csr c = {0};
    if (mode->verify && !strcmp(job->argument, "wide"))
        return mode->verify(state, &outcome->check, error) || spg_fail_in(error, "the product is wrong");
    bool right = ops->fetch(state, &c, error);
    if (right && !spg_check_product(job->a, job->b, &c, job->precision, &outcome->check, error))
        right = spg_fail_in(error, outcome->check.out_of_memory ? "--check" : "the product is wrong");
    spg_csr_free(&c);
    return right;
}

/* The thesis (4.1) times 25 of 50 runs, which suits short products. The first run loads the kernels, so the second one
 * decides whether a product is short. */
#define SHORT_MS 100
static bool run_once(const struct spg_job *job, const struct spg_mode_ops *ops, void *state, struct spg_run *run,
                     struct spg_error *error) {
    if (job->processes)
        job->processes->wait();
    return ops->run(state, run, error);
}

static bool warm_up(const struct spg_job *job, const struct spg_mode_ops *ops, void *state, struct spg_outcome *outcome,
                    struct spg_error *error) {
    const struct spg_settings *s = outcome->settings;
    struct spg_run run = {0};
    unsigned warmup = s->runs ? s->warmup : 2;
    outcome->runs_count = s->runs;
    for (outcome->warmup = 0; outcome->warmup < warmup; outcome->warmup++) {
        if (!run_once(job, ops, state, &run, error))
            return false;
        /* All processes must make equally many runs. */
        if (job->processes)
            job->processes->largest(&run.ms, 1);
        if (!s->runs && outcome->warmup == 1 && run.ms < SHORT_MS)
            warmup = 25;
    }
    if (!s->runs)
        outcome->runs_count = warmup == 25 ? 25 : 3;
    return true;
}

/* The product may fill the device so that no memory is left for the estimates. That is no reason to fail. */
static void estimate(void *state, struct spg_outcome *outcome) {
    struct spg_error error;
    outcome->estimated = outcome->settings->mode->ops->estimate(state, &outcome->estimates, &error);
    if (!outcome->estimated)
        fprintf(stderr, "spgemm: no estimates: %s\n", error.text);
}

/* What the processes measured: the longest times, the largest peaks, the sums of entries. */
static bool merge(const struct spg_processes *p, struct spg_outcome *outcome, struct spg_error *error) {
    for (unsigned i = 0; i < outcome->runs_count; i++) {
        struct spg_run *run = &outcome->runs[i];
        double most[] = {run->ms,      run->estimate_ms,  run->grow_ms,        run->compact_ms, run->distribute_ms,
                         run->trim_ms, (double)run->peak, outcome->check.worst};
        int64_t sums[] = {run->stored, run->entries};
        p->largest(most, sizeof most / sizeof most[0]);
        p->sum(sums, sizeof sums / sizeof sums[0]);
        *run = (struct spg_run){.ms = most[0],
                                .estimate_ms = most[1],
                                .grow_ms = most[2],
                                .compact_ms = most[3],
                                .distribute_ms = most[4],
                                .trim_ms = most[5],
                                .peak = (size_t)most[6],
                                .stored = sums[0],
                                .entries = sums[1],
                                .rounds = run->rounds,
                                .size_per_row = run->size_per_row};
        outcome->check.worst = most[7];
    }
    outcome->processes = p->count;
    if (!outcome->shares_count)
        return true;
    struct spg_share *all = calloc((size_t)p->count, sizeof *all);
    if (!all)
        return spg_fail(error, "out of memory");
    p->gather(&outcome->shares[0], all, sizeof *all);
    outcome->shares_count = p->count < SPG_SHARES ? p->count : SPG_SHARES;
    memcpy(outcome->shares, all, (size_t)outcome->shares_count * sizeof *all);
    free(all);
    return true;
}

static bool multiply(const struct operands *o, const struct spg_processes *processes, struct spg_outcome *outcome,
                     struct spg_error *error) {
    const struct spg_settings *s = outcome->settings;
    const struct spg_mode_ops *ops =
        s->mode->on_devices && (s->on_devices || s->mpi) ? s->mode->on_devices : s->mode->ops;
    struct spg_job job = {.a = o->a,
                          .b = o->b,
                          .precision = s->precision,
                          .argument = s->argument,
                          .size_per_row = s->mode->sized && s->size_per_row > 0 ? s->size_per_row : 0,
                          .vector = s->vector,
                          .kernel = s->kernel,
                          .persistent = s->persistent,
                          .limit = s->limit,
                          .devices = s->devices,
                          .devices_count = s->devices_count,
                          .processes = processes};
    void *state = ops->open(&job, error);
    bool done = state && warm_up(&job, ops, state, outcome, error);
    if (done && !(outcome->runs = calloc(outcome->runs_count, sizeof *outcome->runs)))
        done = spg_fail(error, "out of memory");
    for (unsigned i = 0; done && i < outcome->runs_count; i++)
        done = run_once(&job, ops, state, &outcome->runs[i], error);
    if (done && s->mode->sized && s->size_per_row <= 0)
        estimate(state, outcome);
    if (done && s->check)
        done = check(state, ops, &job, outcome, error);
    if (done && ops->shares)
        outcome->shares_count = ops->shares(state, outcome->shares, SPG_SHARES);
    if (done && processes)
        done = merge(processes, outcome, error);
    ops->close(state);
    return done;
}

int main(int argc, char **argv) {
    struct spg_settings settings;
    struct spg_outcome outcome = {.settings = &settings};
    struct operands operands = {0};
    struct spg_processes mpi, *processes = NULL;
    struct spg_error error;
    int status = spg_settings_read(argc, argv, &settings);
    if (status >= 0)
        return status;
    if (settings.mpi) {
        if (!spg_processes_start(&mpi, &error)) {
            fprintf(stderr, "spgemm: %s\n", error.text);
            return 1;
        }
        processes = &mpi;
    }
    bool reports = !processes || mpi.rank == 0, only_json = settings.json && !strcmp(settings.json, "-");
    bool done = load_operands(&operands, &outcome, &error) && (!processes || take_rows(&operands, processes, &error)) &&
                (!settings.model || model(&operands, &outcome, &error)) &&
                (!settings.mode || multiply(&operands, processes, &outcome, &error)) &&
                (!reports || only_json || spg_outcome_text(&outcome, &error)) &&
                (!reports || !settings.json || spg_outcome_json(&outcome, &error));
    if (!done)
        fprintf(stderr, "spgemm: %s\n", error.text);
    if (processes)
        processes->stop(!done);
    free(outcome.runs);
    spg_csr_free(&operands.first);
    spg_csr_free(&operands.second);
    spg_csr_free(&operands.rows);
    return !done;
}
