/* KKT matrix [H A'; A 0] of a discretised 3-D boundary control problem, as in the nlpkkt matrices.
 *
 * Variables: the N^3 inner points of a cube, and the 6 N^2 points of its faces without edges and corners, in grid
 * order, x fastest. Constraints: one for each inner point, the 27-point stencil over the variables around it. H is
 * diagonal. The zero block is stored as N^3 zeros on the diagonal, as in the file of the collection.
 *
 * n = 2 N^3 + 6 N^2; nnz(A) = 27 N^3 - 12 (3 N - 2) - 8; stored entries = 2 nnz(A) + n. */
#include "spgemm/generate.h"

#include <stdlib.h>

struct kkt {
    int32_t side;      /* N + 2 */
    int32_t variables; /* N^3 + 6 N^2 */
    int32_t *variable; /* variable of each grid point; -1 on edges and corners */
    int32_t *point;    /* grid point of each variable */
};

static bool outer(int32_t at, int32_t side) { return at == 0 || at == side - 1; }

/* Row of an inner point's constraint; constraints are in grid order too. */
static int32_t constraint(const struct kkt *k, int32_t x, int32_t y, int32_t z) {
    int32_t inner = k->side - 2;
    return k->variables + ((z - 1) * inner + y - 1) * inner + x - 1;
}

static int32_t variable_row(const struct kkt *k, int32_t row, int32_t *columns) {
    int32_t p = k->point[row], side = k->side, count = 0;
    int32_t x = p % side, y = p / side % side, z = p / side / side;
    columns[count++] = row;
    for (int32_t c = z - 1; c <= z + 1; c++)
        for (int32_t b = y - 1; b <= y + 1; b++)
            for (int32_t a = x - 1; a <= x + 1; a++) {
                if (a < 1 || b < 1 || c < 1 || a > side - 2 || b > side - 2 || c > side - 2)
                    continue;
                columns[count++] = constraint(k, a, b, c);
            }
    return count;
}

static int32_t constraint_row(const struct kkt *k, int32_t row, int32_t *columns) {
    int32_t p = row - k->variables, inner = k->side - 2, side = k->side, count = 0;
    int32_t x = p % inner + 1, y = p / inner % inner + 1, z = p / inner / inner + 1;
    for (int32_t c = z - 1; c <= z + 1; c++)
        for (int32_t b = y - 1; b <= y + 1; b++)
            for (int32_t a = x - 1; a <= x + 1; a++) {
                int32_t variable = k->variable[(c * side + b) * side + a];
                if (variable >= 0)
                    columns[count++] = variable;
            }
    columns[count++] = row;
    return count;
}

static int32_t kkt_row(const void *context, int32_t row, int32_t *columns) {
    const struct kkt *k = context;
    return row < k->variables ? variable_row(k, row, columns) : constraint_row(k, row, columns);
}

static void number_variables(struct kkt *k) {
    int32_t side = k->side, next = 0;
    for (int32_t p = 0; p < side * side * side; p++) {
        int outside = outer(p % side, side) + outer(p / side % side, side) + outer(p / side / side, side);
        k->variable[p] = outside > 1 ? -1 : next;
        if (outside <= 1)
            k->point[next++] = p;
    }
}

bool spg_generate_kkt(struct spg_csr *m, int64_t size, uint64_t seed, struct spg_error *error) {
    int64_t variables = size * size * size + 6 * size * size, rows = variables + size * size * size;
    int64_t side = size + 2;
    struct kkt k = {.side = (int32_t)side, .variables = (int32_t)variables};
    bool made = false;
    *m = (struct spg_csr){0};
    k.variable = malloc((size_t)(side * side * side) * sizeof *k.variable);
    k.point = malloc((size_t)variables * sizeof *k.point);
    if (!k.variable || !k.point) {
        spg_fail(error, "out of memory for %lld rows", (long long)rows);
        goto out;
    }
    number_variables(&k);
    made = spg_csr_from_rows(m, (int32_t)rows, (int32_t)rows, 27 + 1, kkt_row, &k, error);
    if (made) {
        spg_csr_fill(m, seed);
        for (int32_t row = k.variables; row < m->rows; row++)
            m->values[m->offsets[row + 1] - 1] = 0;
    }
out:
    free(k.variable);
    free(k.point);
    return made;
}
