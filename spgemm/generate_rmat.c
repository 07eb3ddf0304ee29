/* R-MAT graphs with the parameters of Graph500, a = 0.57, b = c = 0.19, d = 0.05: skewed row sizes.
 *
 * Each edge descends from the whole matrix into one random quadrant after the other. Edge e uses the generator that
 * starts from output e of the seed's generator, so the graph does not depend on the number of threads. Vertices are not
 * shuffled. Source: Chakrabarti, Zhan, Faloutsos: R-MAT, a recursive model for graph mining, SDM 2004. */
#include "spgemm/generate.h"
#include "spgemm/random.h"

#include <stdlib.h>

static void draw(int64_t scale, uint64_t seed, int64_t *row, int64_t *column) {
    int64_t i = 0, j = 0;
    for (int64_t level = 0; level < scale; level++) {
        double u = spg_unit_at(seed, (uint64_t)level);
        i = 2 * i + (u > 0.57 + 0.19);
        j = 2 * j + ((u > 0.57 && u <= 0.57 + 0.19) || u > 0.57 + 0.19 + 0.19);
    }
    *row = i;
    *column = j;
}

bool spg_generate_rmat(struct spg_csr *m, int64_t scale, int64_t edges, uint64_t seed, struct spg_error *error) {
    int64_t rows = (int64_t)1 << scale, count = rows * edges, merged;
    bool made = false;
    *m = (struct spg_csr){0};
    if (count > INT32_MAX)
        return spg_fail(error, "%lld edges do not fit 32-bit offsets", (long long)count);
    int64_t *row = malloc((size_t)count * sizeof *row), *column = malloc((size_t)count * sizeof *column);
    double *value = calloc((size_t)count, sizeof *value);
    if (!row || !column || !value) {
        spg_fail(error, "out of memory for %lld edges", (long long)count);
        goto out;
    }
#pragma omp parallel for
    for (int64_t e = 0; e < count; e++)
        draw(scale, spg_random_at(seed, (uint64_t)e), &row[e], &column[e]);
    made = spg_csr_from_triplets(m, (int32_t)rows, (int32_t)rows, count, row, column, value, &merged, error);
out:
    free(row);
    free(column);
    free(value);
    return made;
}
