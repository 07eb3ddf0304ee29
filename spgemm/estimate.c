#include "spgemm/estimate.h"
#include "spgemm/random.h"

#include <math.h>
#include <stdlib.h>

bool spg_sample_rows(struct spg_sample *sample, const struct spg_csr *a, const struct spg_csr *b, int32_t rows,
                     uint64_t seed, struct spg_error *error) {
    *sample = (struct spg_sample){0};
    if (rows > a->rows)
        rows = a->rows;
    int32_t *row = malloc(((size_t)rows + 1) * sizeof *row), *size = malloc(((size_t)rows + 1) * sizeof *size);
    int64_t sampled_bound = 0;
    bool made = row && size;
    if (!made)
        spg_fail(error, "out of memory for a sample of %d rows", rows);
    for (int32_t i = 0; made && i < rows; i++) {
        row[i] = spg_sampled_row(a->rows, rows, i, seed);
        sampled_bound += spg_row_bound(a, b, row[i]);
    }
    made = made && spg_sizes_of_rows(a, b, row, rows, size, error) &&
           spg_histogram_make(&sample->sizes, size, rows, error);
    if (made) {
        for (int32_t i = 0; i < a->rows; i++)
            sample->bound += spg_row_bound(a, b, i);
        sample->total =
            sampled_bound ? (double)sample->bound * ((double)sample->sizes.total / (double)sampled_bound) : 0;
    }
    free(row);
    free(size);
    return made;
}

/* to[k] = the minimum of key k over the row's columns; infinity for an empty row. */
static void minima(const struct spg_csr *m, int32_t row, int32_t keys, const float *from, float *to) {
    for (int32_t k = 0; k < keys; k++)
        to[k] = INFINITY;
    for (int32_t l = m->offsets[row]; l < m->offsets[row + 1]; l++) {
        const float *other = from + (size_t)m->indices[l] * (size_t)keys;
        for (int32_t k = 0; k < keys; k++)
            to[k] = other[k] < to[k] ? other[k] : to[k];
    }
}

/* 0 for an empty row, whose minima are infinite. */
static double estimate_row(const float *minimum, int32_t keys) {
    double sum = 0;
    for (int32_t k = 0; k < keys; k++)
        sum += (double)minimum[k];
    return (keys - 1) / sum;
}

bool spg_estimate_cohen(const struct spg_csr *a, const struct spg_csr *b, int32_t keys, uint64_t seed, float *size,
                        double *total, struct spg_error *error) {
    size_t wide = (size_t)keys * sizeof(float);
    float *drawn = malloc((size_t)b->columns * wide + 1), *reached = malloc((size_t)b->rows * wide + 1);
    double *estimate = malloc((size_t)a->rows * sizeof *estimate + 1);
    bool made = drawn && reached && estimate;
    if (!made) {
        spg_fail(error, "out of memory for %d keys of %d rows", keys, b->rows);
        goto out;
    }
#pragma omp parallel for
    for (int64_t i = 0; i < (int64_t)b->columns * keys; i++)
        drawn[i] = (float)-log(spg_unit_at(seed, (uint64_t)i));
#pragma omp parallel for schedule(dynamic, 1024)
    for (int32_t i = 0; i < b->rows; i++)
        minima(b, i, keys, drawn, reached + (size_t)i * (size_t)keys);
    free(drawn);
    drawn = NULL;
#pragma omp parallel for schedule(dynamic, 1024)
    for (int32_t i = 0; i < a->rows; i++) {
        float minimum[keys];
        minima(a, i, keys, reached, minimum);
        estimate[i] = estimate_row(minimum, keys);
    }
    /* In the order of rows: a parallel sum would depend on the number of threads. */
    *total = 0;
    for (int32_t i = 0; i < a->rows; i++) {
        *total += estimate[i];
        if (size)
            size[i] = (float)estimate[i];
    }
out:
    free(drawn);
    free(reached);
    free(estimate);
    return made;
}
