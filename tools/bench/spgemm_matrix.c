/* spgemm_matrix: matrices for spgemm_product.py that the driver does not generate, and any matrix as a file.
 *
 * usage: spgemm_matrix write NAME FILE
 *        spgemm_matrix product NAME [NAME]
 *
 * write: FILE.mtx becomes a Matrix Market file, FILE.csr a binary one. The binary file holds the 8 bytes "SPGCSR1\n";
 * rows, columns and entries as 64-bit integers; rows + 1 offsets and the columns of the entries as 32-bit integers;
 * zeros up to a multiple of 8 bytes; the values as doubles. All numbers are little-endian, indices start with 0.
 *
 * product: prints the sizes of A and B (B = A without a second name), the intermediate products of A B, and the rows
 * and entries of B that A refers to.
 *
 * NAME is what the driver accepts (gen:..., or a Matrix Market file), or one of
 *   uniform:ROWS:COLUMNS:EACH        EACH random columns in every row; equal ones become one
 *   rmat:SCALE:EDGES:A:B:C           an R-MAT graph; A, B, C are the chances of three quadrants in percent
 *   web:PAGES:EACH                   links as in Kumar et al., Stochastic models for the web graph, FOCS 2000: a page
 *                                    links to pages of its site or copies links of earlier pages; both degrees follow
 *                                    power laws, EACH is about the mean
 *   power:ROWS:EACH:PERCENT          a graph with power laws as in Chung, Lu, Connected components in random graphs,
 *                                    Annals of Combinatorics 2002: ROWS EACH edges; the chance that an end of one is
 *                                    vertex i falls as i to the power of PERCENT / 100
 *   aggregation:N:SIDE               smoothed aggregation for a 27-point stencil on N^3 points: a row for each point,
 *                                    with the aggregates of SIDE^3 points that the point and its neighbours belong to
 *   transpose:NAME                   the transpose of another one
 * Their values are multiples of 1/64, so that files are short. */
#include "spgemm/generators.h"
#include "spgemm/random.h"
#include "spgemm/reader.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ARGUMENTS = 5 };

struct family {
    const char *name, *usage;
    int arguments;
    bool (*make)(struct spg_csr *m, const int64_t *arguments, struct spg_error *error);
};

/* ---- families */

struct triplets {
    int64_t count, capacity, *row, *column;
    double *value;
};

static bool triplets_open(struct triplets *t, int64_t capacity, struct spg_error *error) {
    *t = (struct triplets){0, capacity, NULL, NULL, NULL};
    if (capacity > INT32_MAX)
        return spg_fail(error, "%lld entries do not fit 32-bit offsets", (long long)capacity);
    t->row = malloc((size_t)capacity * sizeof *t->row);
    t->column = malloc((size_t)capacity * sizeof *t->column);
    t->value = calloc((size_t)capacity, sizeof *t->value);
    return (t->row && t->column && t->value) || spg_fail(error, "out of memory for %lld entries", (long long)capacity);
}

static bool triplets_close(struct triplets *t, bool filled, int64_t rows, int64_t columns, struct spg_csr *m,
                           struct spg_error *error) {
    int64_t merged;
    bool made = filled && spg_csr_from_triplets(m, (int32_t)rows, (int32_t)columns, t->count, t->row, t->column,
                                                t->value, &merged, error);
    free(t->row);
    free(t->column);
    free(t->value);
    return made;
}

static void add(struct triplets *t, int64_t row, int64_t column) {
    t->row[t->count] = row;
    t->column[t->count++] = column;
}

static bool uniform(struct spg_csr *m, const int64_t *a, struct spg_error *error) {
    struct triplets t;
    bool filled = triplets_open(&t, a[0] * a[2], error);
    for (int64_t k = 0; filled && k < t.capacity; k++)
        add(&t, k / a[2], (int64_t)(spg_random_at(1, (uint64_t)k) % (uint64_t)a[1]));
    return triplets_close(&t, filled, a[0], a[1], m, error);
}

static bool rmat(struct spg_csr *m, const int64_t *a, struct spg_error *error) {
    struct triplets t;
    int64_t scale = a[0], rows = (int64_t)1 << (scale > 30 ? 30 : scale);
    if (scale > 28 || a[2] + a[3] + a[4] > 100)
        return spg_fail(error, "a scale of at most 28, and chances of at most 100 %% together");
    bool filled = triplets_open(&t, rows * a[1], error);
    for (int64_t e = 0; filled && e < t.capacity; e++) {
        int64_t row = 0, column = 0;
        for (int64_t level = 0; level < scale; level++) {
            int64_t u = (int64_t)(spg_random_at(2, (uint64_t)(e * scale + level)) % 100);
            int quadrant = (u >= a[2]) + (u >= a[2] + a[3]) + (u >= a[2] + a[3] + a[4]);
            row = 2 * row + quadrant / 2;
            column = 2 * column + quadrant % 2;
        }
        add(&t, row, column);
    }
    return triplets_close(&t, filled, rows, rows, m, error);
}

enum { SITE = 16 }; /* pages */

/* Links of pages, one behind the other: Pareto's distribution with exponent 2, whose mean is twice its least value. */
static int64_t *web_starts(int64_t pages, int64_t each) {
    int64_t *start = malloc(((size_t)pages + 1) * sizeof *start), most = pages / 16 + 1;
    if (start)
        start[0] = 0;
    for (int64_t i = 0; start && i < pages; i++) {
        int64_t links = (int64_t)((double)each / 2 / sqrt(spg_unit_at(4, (uint64_t)i)));
        start[i + 1] = start[i] + (links < 1 ? 1 : links > most ? most : links);
    }
    return start;
}

static bool web(struct spg_csr *m, const int64_t *a, struct spg_error *error) {
    struct triplets t = {0};
    int64_t pages = a[0], *start = web_starts(pages, a[1]);
    bool filled = start ? triplets_open(&t, start[pages], error) : spg_fail(error, "out of memory");
    for (int64_t i = 0; filled && i < pages; i++) {
        while (t.count < start[i + 1]) {
            uint64_t at = 3 * (uint64_t)t.count, kind = spg_random_at(3, at) % 16, one = spg_random_at(3, at + 1);
            double part = spg_unit_at(3, at + 2);
            if (kind < 4 || i < SITE) /* the front pages of a site have most links */
                add(&t, i, (i / SITE * SITE + (int64_t)((SITE - 1) * part * part)) % pages);
            else if (kind < 15) /* any link so far: pages with many links get more */
                add(&t, i, t.column[one % (uint64_t)start[i]]);
            else
                add(&t, i, (int64_t)(one % (uint64_t)pages));
        }
    }
    free(start);
    return triplets_close(&t, filled, pages, pages, m, error);
}

/* A vertex with a chance that falls as a power of its number; then numbers are spread over the rows. */
static int64_t power_vertex(int64_t rows, double exponent, double chance) {
    int64_t i = (int64_t)((double)rows * pow(chance, 1 / (1 - exponent)));
    return (i < rows ? i : rows - 1) * 2654435761 % rows;
}

static bool power(struct spg_csr *m, const int64_t *a, struct spg_error *error) {
    struct triplets t;
    if (a[2] > 99)
        return spg_fail(error, "an exponent of %lld %%; at most 99", (long long)a[2]);
    bool filled = triplets_open(&t, a[0] * a[1], error);
    for (int64_t k = 0; filled && k < t.capacity; k++)
        add(&t, power_vertex(a[0], (double)a[2] / 100, spg_unit_at(5, 2 * (uint64_t)k)),
            power_vertex(a[0], (double)a[2] / 100, spg_unit_at(5, 2 * (uint64_t)k + 1)));
    return triplets_close(&t, filled, a[0], a[0], m, error);
}

struct aggregates {
    int64_t points, side, count; /* along an edge of the cube */
};

/* First and last aggregate that points at - 1 to at + 1 belong to. */
static void range(const struct aggregates *g, int64_t at, int64_t *first, int64_t *last) {
    *first = (at ? at - 1 : at) / g->side;
    *last = (at + 1 < g->points ? at + 1 : at) / g->side;
}

static int32_t aggregate_row(const void *context, int32_t row, int32_t *columns) {
    const struct aggregates *g = context;
    int64_t first[3], last[3];
    int32_t count = 0;
    range(g, row % g->points, &first[0], &last[0]);
    range(g, row / g->points % g->points, &first[1], &last[1]);
    range(g, row / g->points / g->points, &first[2], &last[2]);
    for (int64_t z = first[2]; z <= last[2]; z++)
        for (int64_t y = first[1]; y <= last[1]; y++)
            for (int64_t x = first[0]; x <= last[0]; x++)
                columns[count++] = (int32_t)((z * g->count + y) * g->count + x);
    return count;
}

static bool aggregation(struct spg_csr *m, const int64_t *a, struct spg_error *error) {
    struct aggregates g = {a[0], a[1], (a[0] + a[1] - 1) / a[1]};
    if (a[0] > 1000)
        return spg_fail(error, "%lld points along an edge; at most 1000", (long long)a[0]);
    return spg_csr_from_rows(m, (int32_t)(a[0] * a[0] * a[0]), (int32_t)(g.count * g.count * g.count), 27,
                             aggregate_row, &g, error);
}

static const struct family families[] = {
    {"uniform", "uniform:ROWS:COLUMNS:EACH", 3, uniform},
    {"rmat", "rmat:SCALE:EDGES:A:B:C", 5, rmat},
    {"web", "web:PAGES:EACH", 2, web},
    {"power", "power:ROWS:EACH:PERCENT", 3, power},
    {"aggregation", "aggregation:N:SIDE", 2, aggregation},
};

/* ---- names */

static bool arguments(const struct family *f, const char *text, int64_t *values, struct spg_error *error) {
    const char *at = text + strlen(f->name);
    for (int i = 0; i < f->arguments; i++) {
        char *end = NULL;
        errno = 0;
        values[i] = *at == ':' && at[1] >= '0' && at[1] <= '9' ? strtoll(at + 1, &end, 10) : 0;
        if (!end || errno || values[i] < 1 || values[i] > SPG_ROWS_MAX)
            return spg_fail(error, "%.100s: not %s with numbers from 1 to %d", text, f->usage, SPG_ROWS_MAX);
        at = end;
    }
    return !*at || spg_fail(error, "%.100s: '%.60s' behind %s", text, at, f->usage);
}

static void fill(struct spg_csr *m) {
    for (int64_t k = 0, stored = spg_csr_stored(m); k < stored; k++)
        m->values[k] = (double)(1 + spg_random_at(7, (uint64_t)k) % 64) / 64;
}

static bool load(struct spg_csr *m, const char *name, struct spg_error *error) {
    struct spg_read_options options = {SPG_DOUBLE, false};
    struct spg_reading reading;
    int64_t values[MOST_ARGUMENTS];
    *m = (struct spg_csr){0};
    if (!strncmp(name, "transpose:", 10)) {
        struct spg_csr other;
        bool made = load(&other, name + 10, error) && spg_csr_transpose(m, &other, error);
        spg_csr_free(&other);
        return made;
    }
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        const struct family *f = &families[i];
        if (strncmp(name, f->name, strlen(f->name)) || name[strlen(f->name)] != ':')
            continue;
        if (!arguments(f, name, values, error))
            return false;
        if (!f->make(m, values, error))
            return spg_fail_in(error, name);
        fill(m);
        return true;
    }
    return strncmp(name, "gen:", 4) ? spg_read_matrix(m, name, &options, &reading, error)
                                    : spg_generate(m, name + 4, error);
}

/* ---- files */

enum { BLOCK_ROWS = 4096, LINE_MOST = 64 };

static char *format_rows(const struct spg_csr *m, int32_t first, int32_t last, size_t *size) {
    char *text = malloc((size_t)(m->offsets[last] - m->offsets[first]) * LINE_MOST + 1), *at = text;
    for (int32_t i = first; text && i < last; i++)
        for (int32_t k = m->offsets[i]; k < m->offsets[i + 1]; k++)
            at += snprintf(at, LINE_MOST, "%d %d %.17g\n", i + 1, m->indices[k] + 1, m->values[k]);
    *size = (size_t)(at - text);
    return text;
}

static bool write_text(const struct spg_csr *m, FILE *file) {
    int32_t blocks = (int32_t)(((int64_t)m->rows + BLOCK_ROWS - 1) / BLOCK_ROWS);
    bool written = fprintf(file, "%%%%MatrixMarket matrix coordinate real general\n%d %d %lld\n", m->rows, m->columns,
                           (long long)spg_csr_stored(m)) > 0;
#pragma omp parallel for ordered schedule(static, 1)
    for (int32_t b = 0; b < blocks; b++) {
        int64_t end = ((int64_t)b + 1) * BLOCK_ROWS;
        size_t size = 0;
        char *text = format_rows(m, b * BLOCK_ROWS, (int32_t)(end < m->rows ? end : m->rows), &size);
#pragma omp ordered
        written = written && text && fwrite(text, 1, size, file) == size;
        free(text);
    }
    return written;
}

static bool write_binary(const struct spg_csr *m, FILE *file) {
    static const char zeros[8];
    size_t stored = (size_t)spg_csr_stored(m), rows = (size_t)m->rows + 1;
    int64_t head[3] = {m->rows, m->columns, (int64_t)stored};
    size_t padding = (rows + stored) % 2 * sizeof(int32_t);
    return fwrite("SPGCSR1\n", 1, 8, file) == 8 && fwrite(head, sizeof *head, 3, file) == 3 &&
           fwrite(m->offsets, sizeof *m->offsets, rows, file) == rows &&
           fwrite(m->indices, sizeof *m->indices, stored, file) == stored &&
           fwrite(zeros, 1, padding, file) == padding && fwrite(m->values, sizeof *m->values, stored, file) == stored;
}

static bool ends_with(const char *text, const char *end) {
    size_t length = strlen(text), tail = strlen(end);
    return length > tail && !strcmp(text + length - tail, end);
}

static bool write_file(const char *name, const char *path, struct spg_error *error) {
    struct spg_csr m = {0};
    bool text = ends_with(path, ".mtx");
    if (!text && !ends_with(path, ".csr"))
        return spg_fail(error, "%.200s: the name of a file ends in .mtx or .csr", path);
    if (!load(&m, name, error))
        return false;
    FILE *file = fopen(path, "w");
    bool written = file && (text ? write_text(&m, file) : write_binary(&m, file));
    if (file && fclose(file))
        written = false;
    spg_csr_free(&m);
    return written || spg_fail(error, "%.200s: %s", path, strerror(errno));
}

/* ---- products */

/* Rows of B that A refers to, and their entries; intermediate products. */
struct product {
    int64_t products, rows, entries;
};

static bool count(const struct spg_csr *a, const struct spg_csr *b, struct product *p, struct spg_error *error) {
    bool *seen = calloc((size_t)b->rows + 1, sizeof *seen);
    *p = (struct product){0};
    if (!seen)
        return spg_fail(error, "out of memory");
    for (int64_t k = 0, stored = spg_csr_stored(a); k < stored; k++) {
        int32_t row = a->indices[k];
        int64_t entries = b->offsets[row + 1] - b->offsets[row];
        p->products += entries;
        p->rows += !seen[row];
        p->entries += seen[row] ? 0 : entries;
        seen[row] = true;
    }
    free(seen);
    return true;
}

static bool print_product(const char *first, const char *second, struct spg_error *error) {
    struct spg_csr a = {0}, own = {0};
    const struct spg_csr *b = second ? &own : &a;
    struct product p;
    bool done = load(&a, first, error) && (!second || load(&own, second, error));
    if (done && a.columns != b->rows)
        done = spg_fail(error, "A's columns are not B's rows: %d x %d times %d x %d", a.rows, a.columns, b->rows,
                        b->columns);
    if (done && (done = count(&a, b, &p, error)))
        printf("rows=%d columns=%d stored=%lld b_rows=%d b_columns=%d b_stored=%lld products=%lld touched_rows=%lld "
               "touched=%lld\n",
               a.rows, a.columns, (long long)spg_csr_stored(&a), b->rows, b->columns, (long long)spg_csr_stored(b),
               (long long)p.products, (long long)p.rows, (long long)p.entries);
    spg_csr_free(&a);
    spg_csr_free(&own);
    return done;
}

int main(int argc, char **argv) {
    struct spg_error error = {0};
    bool writes = argc == 4 && !strcmp(argv[1], "write");
    if (!writes && !((argc == 3 || argc == 4) && !strcmp(argv[1], "product"))) {
        fputs("usage: spgemm_matrix write NAME FILE.mtx|FILE.csr\n       spgemm_matrix product NAME [NAME]\n", stderr);
        return 2;
    }
    bool done =
        writes ? write_file(argv[2], argv[3], &error) : print_product(argv[2], argc == 4 ? argv[3] : NULL, &error);
    if (!done)
        fprintf(stderr, "spgemm_matrix: %s\n", error.text);
    return !done || fflush(stdout);
}
