#include "spgemm/check.h"

#include <math.h>
#include <stdlib.h>

#define SPG_CHECK_BYTES (sizeof(int32_t) + 2 * sizeof(double)) /* of one column */

/* A thread's dense accumulators. The marker of a column is row + 1 if the current row has it. */
struct accumulator {
    int32_t *marker;
    double *sum, *absolute;
};

static void drop(struct accumulator *acc) {
    free(acc->marker);
    free(acc->sum);
    free(acc->absolute);
}

static bool make(struct accumulator *acc, int32_t columns) {
    size_t count = (size_t)columns + 1;
    acc->marker = calloc(count, sizeof *acc->marker);
    acc->sum = malloc(count * sizeof *acc->sum);
    acc->absolute = malloc(count * sizeof *acc->absolute);
    return acc->marker && acc->sum && acc->absolute;
}

/* Computes the row; returns its number of entries. */
static int32_t accumulate(struct accumulator *acc, const struct spg_csr *a, const struct spg_csr *b, int32_t row) {
    int32_t count = 0;
    for (int32_t k = a->offsets[row]; k < a->offsets[row + 1]; k++) {
        int32_t middle = a->indices[k];
        for (int32_t l = b->offsets[middle]; l < b->offsets[middle + 1]; l++) {
            int32_t j = b->indices[l];
            double product = a->values[k] * b->values[l];
            if (acc->marker[j] != row + 1) {
                acc->marker[j] = row + 1;
                acc->sum[j] = acc->absolute[j] = 0;
                count++;
            }
            acc->sum[j] += product;
            acc->absolute[j] += fabs(product);
        }
    }
    return count;
}

static double gamma_of(int32_t terms, double unit) { return terms * unit / (1 - terms * unit); }

/* Compares one row of C; updates `check`. */
static bool check_row(const struct accumulator *acc, const struct spg_csr *c, int32_t row, int32_t positions,
                      int32_t terms, enum spg_precision precision, struct spg_check *check, struct spg_error *error) {
    int32_t from = c->offsets[row], to = c->offsets[row + 1];
    double ratio = gamma_of(terms, precision == SPG_FLOAT ? 0x1p-24 : 0x1p-53) + gamma_of(terms, 0x1p-53);
    /* Products below the smallest normal number may lose this much. */
    double lost = terms * (precision == SPG_FLOAT ? 0x1p-149 : 0x1p-1074);
    if (to - from != positions)
        return spg_fail(error, "row %d has %d entries, not %d", row, to - from, positions);
    for (int32_t k = from; k < to; k++) {
        int32_t j = c->indices[k];
        if (acc->marker[j] != row + 1)
            return spg_fail(error, "row %d has an entry in column %d, where the product has none", row, j);
        double off = fabs(c->values[k] - acc->sum[j]), bound = ratio * acc->absolute[j] + lost;
        /* "off > bound" would accept NaN. */
        if (!(off <= bound))
            return spg_fail(error, "row %d, column %d is %.17g, not %.17g (off by %.3g, at most %.3g)", row, j,
                            c->values[k], acc->sum[j], off, bound);
        if (off > check->worst * bound)
            check->worst = off / bound;
    }
    return true;
}

/* Returns the first wrong row, -1 if there is none. Sets check->out_of_memory when a thread had no memory. */
static int32_t first_wrong_row(const struct spg_csr *a, const struct spg_csr *b, const struct spg_csr *c,
                               enum spg_precision precision, struct spg_check *check, struct spg_error *error) {
    int32_t wrong = -1;
#pragma omp parallel
    {
        struct accumulator acc;
        struct spg_check mine = {0};
        struct spg_error why;
        bool made = make(&acc, b->columns);
#pragma omp for schedule(dynamic, 256)
        for (int32_t i = 0; i < a->rows; i++) {
            if (!made)
                continue;
            int32_t positions = accumulate(&acc, a, b, i), terms = a->offsets[i + 1] - a->offsets[i];
            if (check_row(&acc, c, i, positions, terms, precision, &mine, &why))
                continue;
#pragma omp critical(spg_check)
            if (!check->out_of_memory && (wrong == -1 || i < wrong)) {
                wrong = i;
                *error = why;
            }
        }
#pragma omp critical(spg_check)
        {
            if (!made) {
                check->out_of_memory = true;
                spg_fail(error, "out of host memory: %zu bytes for each thread, for rows of %d columns",
                         SPG_CHECK_BYTES * ((size_t)b->columns + 1), b->columns);
            }
            if (mine.worst > check->worst)
                check->worst = mine.worst;
        }
        drop(&acc);
    }
    return wrong;
}

bool spg_check_product(const struct spg_csr *a, const struct spg_csr *b, const struct spg_csr *c,
                       enum spg_precision precision, struct spg_check *check, struct spg_error *error) {
    *check = (struct spg_check){0};
    if (c->rows != a->rows || c->columns != b->columns)
        return spg_fail(error, "the product is %d x %d, not %d x %d", c->rows, c->columns, a->rows, b->columns);
    return spg_csr_valid(c, error) && first_wrong_row(a, b, c, precision, check, error) == -1 && !check->out_of_memory;
}
