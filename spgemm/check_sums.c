#include "spgemm/check_sums.h"
#include "spgemm/random.h"
#include "spgemm/symbolic.h"

#include <math.h>
#include <stdlib.h>

#define SEED 12345

int64_t spg_check_portion = (int64_t)1 << 25;

struct sums {
    const struct spg_csr *a, *b;
    const int64_t *offsets;
    enum spg_precision precision;
    struct spg_sizes sizes;
    double *x, *sum, *absolute; /* B x for each row of B, and the same of absolute values */
    int32_t longest;            /* entries of a row of B */
};

static bool make(struct sums *s, struct spg_error *error) {
    const struct spg_csr *b = s->b;
    s->x = malloc(((size_t)b->columns + 1) * sizeof *s->x);
    s->sum = malloc(((size_t)b->rows + 1) * sizeof *s->sum);
    s->absolute = malloc(((size_t)b->rows + 1) * sizeof *s->absolute);
    if (!s->x || !s->sum || !s->absolute)
        return spg_fail(error, "out of host memory for sums of %d rows", b->rows);
    for (int32_t j = 0; j < b->columns; j++)
        s->x[j] = (double)((spg_random_at(SEED, (uint64_t)j) >> 11) + 1) * 0x1p-53;
    for (int32_t i = 0; i < b->rows; i++) {
        s->sum[i] = s->absolute[i] = 0;
        for (int32_t k = b->offsets[i]; k < b->offsets[i + 1]; k++) {
            s->sum[i] += b->values[k] * s->x[b->indices[k]];
            s->absolute[i] += fabs(b->values[k]) * s->x[b->indices[k]];
        }
        if (b->offsets[i + 1] - b->offsets[i] > s->longest)
            s->longest = b->offsets[i + 1] - b->offsets[i];
    }
    return spg_sizes_make(&s->sizes, s->a, s->b, error);
}

static void drop(struct sums *s) {
    free(s->x);
    free(s->sum);
    free(s->absolute);
    free(s->sizes.row);
}

static double gamma_of(double terms, double unit) { return terms * unit / (1 - terms * unit); }

/* Returns the difference of one row over its bound; a value above 1 is an error. */
static double check_row(const struct sums *s, int32_t row, const int32_t *indices, const double *values,
                        struct spg_error *error) {
    const struct spg_csr *a = s->a;
    int64_t count = s->offsets[row + 1] - s->offsets[row];
    double found = 0, wanted = 0, absolute = 0;
    for (int64_t k = 0; k < count; k++) {
        if (indices[k] < 0 || indices[k] >= s->b->columns || (k && indices[k] <= indices[k - 1])) {
            spg_fail(error, "row %d: column %d at entry %lld is out of order", row, indices[k], (long long)k);
            return INFINITY;
        }
        found += values[k] * s->x[indices[k]];
    }
    for (int32_t k = a->offsets[row]; k < a->offsets[row + 1]; k++) {
        wanted += a->values[k] * s->sum[a->indices[k]];
        absolute += fabs(a->values[k]) * s->absolute[a->indices[k]];
    }
    double terms = (double)(a->offsets[row + 1] - a->offsets[row]) + 2,
           bound = (gamma_of(terms, s->precision == SPG_FLOAT ? 0x1p-24 : 0x1p-53) +
                    gamma_of(terms + (double)count + s->longest + 4, 0x1p-53)) *
                   absolute;
    double off = fabs(found - wanted);
    if (off <= bound)
        return bound > 0 ? off / bound : 0;
    spg_fail(error, "row %d: C x is %.17g, not %.17g (off by %.3g, at most %.3g)", row, found, wanted, off, bound);
    return INFINITY;
}

/* Rows first to end - 1, whose entries are given. */
static bool check_rows(const struct sums *s, int32_t first, int32_t end, const int32_t *indices, const double *values,
                       struct spg_check *check, struct spg_error *error) {
    double worst = 0;
    int32_t wrong = -1;
#pragma omp parallel for schedule(dynamic, 256) reduction(max : worst)
    for (int32_t i = first; i < end; i++) {
        int64_t at = s->offsets[i] - s->offsets[first];
        struct spg_error why;
        double ratio = check_row(s, i, indices + at, values + at, &why);
        worst = ratio > worst ? ratio : worst;
        if (ratio <= 1)
            continue;
#pragma omp critical(spg_check_sums)
        if (wrong == -1 || i < wrong) {
            wrong = i;
            *error = why;
        }
    }
    check->worst = worst > check->worst ? worst : check->worst;
    return wrong == -1;
}

static bool check_sizes(const struct sums *s, struct spg_error *error) {
    for (int32_t i = 0; i < s->a->rows; i++)
        if (s->offsets[i + 1] - s->offsets[i] != s->sizes.row[i])
            return spg_fail(error, "row %d has %lld entries, not %d", i, (long long)(s->offsets[i + 1] - s->offsets[i]),
                            s->sizes.row[i]);
    return s->offsets[0] == 0 || spg_fail(error, "the first offset is %lld, not 0", (long long)s->offsets[0]);
}

/* Rows from `first` on of at most a portion, or one row. */
static int32_t portion_end(const struct sums *s, int32_t first) {
    int32_t end = first + 1;
    while (end < s->a->rows && s->offsets[end + 1] - s->offsets[first] <= spg_check_portion)
        end++;
    return end;
}

bool spg_check_sums(const struct spg_csr *a, const struct spg_csr *b, const int64_t *offsets, spg_read_entries *read,
                    void *context, enum spg_precision precision, struct spg_check *check, struct spg_error *error) {
    struct sums s = {.a = a, .b = b, .offsets = offsets, .precision = precision};
    *check = (struct spg_check){0};
    bool right = make(&s, error) && check_sizes(&s, error);
    for (int32_t first = 0, end; right && first < a->rows; first = end) {
        end = portion_end(&s, first);
        int64_t count = offsets[end] - offsets[first];
        int32_t *indices = malloc(((size_t)count + 1) * sizeof *indices);
        double *values = malloc(((size_t)count + 1) * sizeof *values);
        right = (indices && values) || spg_fail(error, "out of host memory for %lld entries of C", (long long)count);
        right = right && read(context, offsets[first], count, indices, values, error) &&
                check_rows(&s, first, end, indices, values, check, error);
        free(indices);
        free(values);
    }
    drop(&s);
    return right;
}
