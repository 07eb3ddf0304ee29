#include "spgemm/outcome.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

struct spg_times spg_outcome_times(const struct spg_outcome *o, size_t member) {
    unsigned count = o->runs_count;
    double *times = malloc(count * sizeof *times);
    if (!times)
        return (struct spg_times){NAN, NAN, NAN};
    for (unsigned i = 0; i < count; i++)
        memcpy(&times[i], (const char *)&o->runs[i] + member, sizeof *times);
    qsort(times, count, sizeof *times, by_value);
    struct spg_times found = {times[0], (times[(count - 1) / 2] + times[count / 2]) / 2, times[count - 1]};
    free(times);
    return found;
}

static void shape(const char *name, const char *value, const struct spg_shape *s) {
    printf("%s=%s rows=%d columns=%d nonzeros=%lld stored=%lld\n", name, value, s->rows, s->columns,
           (long long)s->nonzeros, (long long)s->stored);
}

static double off_by(double estimate, int64_t exact) { return exact ? 100 * (estimate / (double)exact - 1) : 0; }

static void model(const struct spg_outcome *o) {
    size_t slot_size = spg_slot_size(o->settings->precision);
    printf("nnz_c=%lld bytes=%lld longest_row=%d\n", (long long)o->nnz_c, (long long)o->nnz_c * (long long)slot_size,
           o->longest);
    printf("upper_bound=%lld bytes=%lld overestimation=%.3f\n", (long long)o->bound,
           (long long)o->bound * (long long)slot_size, o->nnz_c ? (double)o->bound / (double)o->nnz_c : 1);
    printf("sampled_nnz_c=%.0f off=%+.2f%%\n", o->sampled, off_by(o->sampled, o->nnz_c));
    printf("cohen_nnz_c=%.0f off=%+.2f%%\n", o->cohen, off_by(o->cohen, o->nnz_c));
    for (int i = 0; i < o->rounds_count; i++)
        printf("size_per_row=%d efficiency=%.2f%% rounds=%d\n", o->rounds[i].size_per_row,
               100 * o->rounds[i].efficiency, o->rounds[i].rounds);
}

static void share(const struct spg_outcome *o, const char *name, size_t member, double of) {
    double median = spg_outcome_times(o, member).median;
    if (median > 0)
        printf(" %s_ms=%.3f (%.1f%%)", name, median, 100 * median / of);
}

static void times(const struct spg_outcome *o) {
    struct spg_times all = spg_outcome_times(o, offsetof(struct spg_run, ms));
    printf("runs=%u warmup=%u ms_min=%.3f ms_median=%.3f ms_max=%.3f", o->runs_count, o->warmup, all.least, all.median,
           all.most);
    share(o, "distribute", offsetof(struct spg_run, distribute_ms), all.median);
    share(o, "estimate", offsetof(struct spg_run, estimate_ms), all.median);
    share(o, "grow", offsetof(struct spg_run, grow_ms), all.median);
    share(o, "compact", offsetof(struct spg_run, compact_ms), all.median);
    double trim = spg_outcome_times(o, offsetof(struct spg_run, trim_ms)).median;
    if (trim > 0)
        printf(" trim_ms=%.3f", trim);
    putchar('\n');
}

static void shares(const struct spg_outcome *o) {
    for (int i = 0; i < o->shares_count; i++) {
        const struct spg_share *s = &o->shares[i];
        printf("device=%d rows=%lld products=%lld nnz_c=%lld peak_bytes=%zu b=%s\n", s->device, (long long)s->rows,
               (long long)s->products, (long long)s->stored, s->peak, s->b);
    }
}

static void product(const struct spg_outcome *o) {
    const struct spg_settings *s = o->settings;
    const struct spg_run *last = &o->runs[o->runs_count - 1];
    printf("mode=%s precision=%s layout=%s", s->mode_text, s->precision == SPG_FLOAT ? "float" : "double",
           s->columns ? "csc" : "csr");
    if (s->mode->kernels)
        printf(" kernel=%s%s", s->kernel == SPG_KERNEL_THESIS ? "thesis" : "hash", s->persistent ? " persistent" : "");
    if (s->mode->sized)
        printf(" vector=%s size_per_row=%d%s", s->vector == SPG_VECTOR_COPY ? "copy" : "vmm", last->size_per_row,
               s->size_per_row > 0 ? "" : " (auto)");
    if (o->processes)
        printf(" processes=%d", o->processes);
    putchar('\n');
    times(o);
    printf("nnz_c=%lld entries=%lld efficiency=%.2f%%", (long long)last->stored, (long long)last->entries,
           last->entries ? 100 * (double)last->stored / (double)last->entries : 100);
    if (last->peak)
        printf(" peak_bytes=%zu", last->peak);
    if (last->rounds)
        printf(" rounds=%d", last->rounds);
    putchar('\n');
    if (last->slabs) {
        double ms = spg_outcome_times(o, offsetof(struct spg_run, ms)).median;
        printf("slabs=%lld sent_bytes=%lld received_bytes=%lld bus_ms=%.3f bus_share=%.1f%%\n", (long long)last->slabs,
               (long long)last->sent, (long long)last->received, last->bus_ms, 100 * last->bus_ms / ms);
    }
    shares(o);
    if (o->estimated) {
        printf("sampled_nnz_c=%.0f off=%+.2f%% sampled_ms=%.3f\n", o->estimates.sampled,
               off_by(o->estimates.sampled, last->stored), o->estimates.sampled_ms);
        printf("cohen_nnz_c=%.0f off=%+.2f%% cohen_ms=%.3f\n", o->estimates.cohen,
               off_by(o->estimates.cohen, last->stored), o->estimates.cohen_ms);
    }
    if (s->check)
        printf("check=ok worst=%.2f%% of the bound on rounding\n", 100 * o->check.worst);
}

bool spg_outcome_text(const struct spg_outcome *o, struct spg_error *error) {
    shape("matrix", o->settings->matrix, &o->a);
    if (o->settings->b)
        shape("b", o->settings->b, &o->b);
    if (o->settings->model)
        model(o);
    if (o->runs)
        product(o);
    return (!fflush(stdout) && !ferror(stdout)) || spg_fail(error, "cannot write to stdout");
}
