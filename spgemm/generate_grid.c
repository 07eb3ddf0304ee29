/* Stencils on regular grids. Row p u + a, unknown a of grid point p, is coupled with column q u + b for every q = p +
 * point inside the grid and 0 <= b < u, where u is the number of unknowns.
 * nnz = u^2 x the sum over all points of (X - |x|)(Y - |y|)(Z - |z|). */
#include "spgemm/generate.h"

struct grid {
    int64_t size[3];
    const struct spg_grid_point *points;
    int point_count;
    int32_t unknowns;
};

static bool inside(int64_t at, int64_t size) { return at >= 0 && at < size; }

static int32_t grid_row(const void *context, int32_t row, int32_t *columns) {
    const struct grid *g = context;
    int64_t point = row / g->unknowns;
    int64_t x = point % g->size[0], y = point / g->size[0] % g->size[1], z = point / g->size[0] / g->size[1];
    int32_t count = 0;
    for (int i = 0; i < g->point_count; i++) {
        int64_t to[3] = {x + g->points[i].x, y + g->points[i].y, z + g->points[i].z};
        if (!inside(to[0], g->size[0]) || !inside(to[1], g->size[1]) || !inside(to[2], g->size[2]))
            continue;
        int64_t first = ((to[2] * g->size[1] + to[1]) * g->size[0] + to[0]) * g->unknowns;
        for (int32_t u = 0; u < g->unknowns; u++)
            columns[count + u] = (int32_t)(first + u);
        count += g->unknowns;
    }
    return count;
}

bool spg_generate_grid(struct spg_csr *m, const int64_t size[3], const struct spg_grid_point *points, int point_count,
                       int64_t unknowns, struct spg_error *error) {
    struct grid grid = {{size[0], size[1], size[2]}, points, point_count, (int32_t)unknowns};
    __int128 rows = (__int128)size[0] * size[1] * size[2] * unknowns;
    *m = (struct spg_csr){0};
    if (rows > SPG_ROWS_MAX)
        return spg_fail(error, "%lld x %lld x %lld points with %lld unknowns do not fit 32-bit indices",
                        (long long)size[0], (long long)size[1], (long long)size[2], (long long)unknowns);
    return spg_csr_from_rows(m, (int32_t)rows, (int32_t)rows, point_count * grid.unknowns, grid_row, &grid, error);
}
