#include "spgemm/generators.h"
#include "spgemm/generate.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

typedef int64_t arguments[SPG_GENERATOR_ARGUMENTS];

struct argument {
    const char *name;
    int64_t initial, low, high;
};

/* One row for each name. Matrices whose family does not set the values get random ones from the seed. */
struct generator {
    const char *name, *help;
    struct argument arguments[SPG_GENERATOR_ARGUMENTS]; /* the last named one is the seed */
    bool (*make)(struct spg_csr *m, const int64_t *arguments, uint64_t seed, struct spg_error *error);
    bool sets_values;
    const int64_t *fixed; /* arguments of make() that the name stands for; NULL = those of the user */
};

#define POINTS(list) list, (int)(sizeof list / sizeof list[0])

static const struct spg_grid_point star7[] = {{0, 0, -1}, {0, -1, 0}, {-1, 0, 0}, {0, 0, 0},
                                              {1, 0, 0},  {0, 1, 0},  {0, 0, 1}};
static const struct spg_grid_point diamond13[] = {{0, -2, 0}, {-1, -1, 0}, {0, -1, 0}, {1, -1, 0}, {-2, 0, 0},
                                                  {-1, 0, 0}, {0, 0, 0},   {1, 0, 0},  {2, 0, 0},  {-1, 1, 0},
                                                  {0, 1, 0},  {1, 1, 0},   {0, 2, 0}};
static const struct spg_grid_point quad9[] = {{-1, -1, 0}, {0, -1, 0}, {1, -1, 0}, {-1, 0, 0}, {0, 0, 0},
                                              {1, 0, 0},   {-1, 1, 0}, {0, 1, 0},  {1, 1, 0}};
static const struct spg_grid_point triangle7[] = {{-1, -1, 0}, {0, -1, 0}, {-1, 0, 0}, {0, 0, 0},
                                                  {1, 0, 0},   {0, 1, 0},  {1, 1, 0}};
/* Kuhn's division of a cube into six tetrahedra: neighbours are the nonzero corners of the unit cube and their
 * negatives. */
static const struct spg_grid_point kuhn15[] = {{-1, -1, -1}, {0, -1, -1}, {-1, 0, -1}, {0, 0, -1}, {-1, -1, 0},
                                               {0, -1, 0},   {-1, 0, 0},  {0, 0, 0},   {1, 0, 0},  {0, 1, 0},
                                               {1, 1, 0},    {0, 0, 1},   {1, 0, 1},   {0, 1, 1},  {1, 1, 1}};

static bool stencil7(struct spg_csr *m, const int64_t *a, uint64_t seed, struct spg_error *error) {
    return spg_generate_grid(m, a, POINTS(star7), 1, error);
}

static bool brick27(struct spg_csr *m, const int64_t *a, uint64_t seed, struct spg_error *error) {
    struct spg_grid_point points[27];
    for (int i = 0; i < 27; i++)
        points[i] = (struct spg_grid_point){(int8_t)(i % 3 - 1), (int8_t)(i / 3 % 3 - 1), (int8_t)(i / 9 - 1)};
    return spg_generate_grid(m, (int64_t[]){a[0], a[0], a[0]}, points, 27, a[1], error);
}

static bool diamond(struct spg_csr *m, const int64_t *a, uint64_t seed, struct spg_error *error) {
    return spg_generate_grid(m, a, POINTS(diamond13), a[3], error);
}

static bool quad(struct spg_csr *m, const int64_t *a, uint64_t seed, struct spg_error *error) {
    return spg_generate_grid(m, a, POINTS(quad9), a[3], error);
}

static bool triangle(struct spg_csr *m, const int64_t *a, uint64_t seed, struct spg_error *error) {
    return spg_generate_grid(m, a, POINTS(triangle7), a[3], error);
}

static bool kuhn(struct spg_csr *m, const int64_t *a, uint64_t seed, struct spg_error *error) {
    return spg_generate_grid(m, a, POINTS(kuhn15), a[3], error);
}

static bool cage(struct spg_csr *m, const int64_t *a, uint64_t seed, struct spg_error *error) {
    return spg_generate_cage(m, a[0], error);
}

static bool kkt(struct spg_csr *m, const int64_t *a, uint64_t seed, struct spg_error *error) {
    return spg_generate_kkt(m, a[0], seed, error);
}

static bool rmat(struct spg_csr *m, const int64_t *a, uint64_t seed, struct spg_error *error) {
    return spg_generate_rmat(m, a[0], a[1], seed, error);
}

static bool dense_rows(struct spg_csr *m, const int64_t *a, uint64_t seed, struct spg_error *error) {
    return spg_generate_dense(m, a[0], a[1], a[2], false, seed, error);
}

static bool dense_columns(struct spg_csr *m, const int64_t *a, uint64_t seed, struct spg_error *error) {
    return spg_generate_dense(m, a[0], a[1], a[2], true, seed, error);
}

#define SEED(initial) \
    { "SEED", initial, 0, INT64_MAX }
#define SIDE(name, initial) \
    { name, initial, 1, INT32_MAX }
#define FIXED(...) ((const int64_t[]){__VA_ARGS__})

static const struct generator generators[] = {
    {"atmosmodl", "7-point stencil on 38 x 198 x 198, as atmosmodl", {SEED(1)}, stencil7, false, FIXED(38, 198, 198)},
    {"atmosmodm", "the same structure, other values, as atmosmodm", {SEED(2)}, stencil7, false, FIXED(38, 198, 198)},
    {"cage", "DNA electrophoresis, L monomers, as the cage matrices", {{"L", 10, 3, 16}, SEED(1)}, cage},
    {"cage14", "cage:14", {SEED(1)}, cage, false, FIXED(14)},
    {"cage15", "cage:15", {SEED(1)}, cage, false, FIXED(15)},
    {"nlpkkt",
     "KKT matrix of a boundary control problem on N^3 points, as the nlpkkt matrices",
     {{"N", 20, 1, 500}, SEED(1)},
     kkt,
     true},
    {"nlpkkt80", "nlpkkt:80", {SEED(1)}, kkt, true, FIXED(80)},
    {"stencil7",
     "7-point stencil on an X x Y x Z grid",
     {SIDE("X", 32), SIDE("Y", 32), SIDE("Z", 32), SEED(1)},
     stencil7},
    {"brick27",
     "27-point stencil on N^3 points, DOF unknowns each",
     {{"N", 32, 1, 1290}, {"DOF", 1, 1, 64}, SEED(1)},
     brick27},
    {"rmat",
     "R-MAT graph, 2^SCALE vertices, EDGES drawn for each, equal ones once",
     {{"SCALE", 14, 1, 28}, {"EDGES", 8, 1, 4096}, SEED(1)},
     rmat},
    {"dense-rows",
     "ROWS rows of EACH entries, DENSE of them with all columns",
     {SIDE("ROWS", 100000), SIDE("EACH", 4), {"DENSE", 4, 0, INT32_MAX}, SEED(1)},
     dense_rows},
    {"dense-columns",
     "the transposed structure",
     {SIDE("ROWS", 100000), SIDE("EACH", 4), {"DENSE", 4, 0, INT32_MAX}, SEED(1)},
     dense_columns},
    {"twin-Hardesty1",
     "like Hardesty1: 13-point diamond 473 x 1985",
     {SEED(1)},
     diamond,
     false,
     FIXED(473, 1985, 1, 1)},
    {"twin-pwtk", "like pwtk: 9-point quad 190 x 191, 6 unknowns", {SEED(1)}, quad, false, FIXED(190, 191, 1, 6)},
    {"twin-BenElechi1",
     "like BenElechi1: 9-point quad 202 x 203, 6 unknowns",
     {SEED(1)},
     quad,
     false,
     FIXED(202, 203, 1, 6)},
    {"twin-af_3_k101",
     "like af_3_k101: 7-point triangle 317 x 318, 5 unknowns",
     {SEED(1)},
     triangle,
     false,
     FIXED(317, 318, 1, 5)},
    {"twin-af_shell10",
     "like af_shell10: 7-point triangle 549 x 549, 5 unknowns",
     {SEED(1)},
     triangle,
     false,
     FIXED(549, 549, 1, 5)},
    {"twin-Transport", "like Transport: 15-point Kuhn 117^3", {SEED(1)}, kuhn, false, FIXED(117, 117, 117, 1)},
};
#define GENERATORS (sizeof generators / sizeof generators[0])

static int argument_count(const struct generator *g) {
    int count = 0;
    while (count < SPG_GENERATOR_ARGUMENTS && g->arguments[count].name)
        count++;
    return count;
}

/* "cage[:L[:SEED]]" */
static void describe(const struct generator *g, char *text, size_t size) {
    size_t used = (size_t)snprintf(text, size, "%s", g->name);
    int count = argument_count(g);
    for (int i = 0; i < count; i++)
        used += (size_t)snprintf(text + used, size - used, "[:%s", g->arguments[i].name);
    for (int i = 0; i < count; i++)
        used += (size_t)snprintf(text + used, size - used, "]");
}

void spg_generators_list(FILE *file) {
    for (size_t i = 0; i < GENERATORS; i++) {
        const struct generator *g = &generators[i];
        char usage[64], initial[128] = "";
        describe(g, usage, sizeof usage);
        for (int k = 0, count = argument_count(g); k < count; k++)
            snprintf(initial + strlen(initial), sizeof initial - strlen(initial), "%s%s=%lld", k ? " " : "",
                     g->arguments[k].name, (long long)g->arguments[k].initial);
        fprintf(file, "gen:%-32s %-34s %s\n", usage, initial, g->help);
    }
}

/* Reads ":5:7". For stencil7, "38x198x198" may give the three sides. */
static bool read_arguments(const struct generator *g, const char *text, int64_t *values, struct spg_error *error) {
    int count = argument_count(g);
    char usage[64];
    const char *at = text;
    describe(g, usage, sizeof usage);
    for (int i = 0; i < count; i++)
        values[i] = g->arguments[i].initial;
    for (int i = 0; *at; i++) {
        char *end;
        if (i == count)
            return spg_fail(error, "gen:%s%s: too many arguments; it is %s", g->name, text, usage);
        const struct argument *argument = &g->arguments[i];
        at++;
        errno = 0;
        long long value = strtoll(at, &end, 10);
        bool by_x = *end == 'x' && g->make == stencil7 && !g->fixed && i < 2;
        if (!isdigit((unsigned char)*at) || errno || (*end && *end != ':' && !by_x) || value < argument->low ||
            value > argument->high)
            return spg_fail(error, "gen:%s%s: %s '%.*s' is not a number from %lld to %lld; it is %s", g->name, text,
                            argument->name, (int)strcspn(at, ":"), at, (long long)argument->low,
                            (long long)argument->high, usage);
        values[i] = value;
        at = end;
    }
    return true;
}

static bool unknown(const char *text, size_t length, struct spg_error *error) {
    char known[400] = "";
    for (size_t i = 0; i < GENERATORS; i++)
        snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s", i ? ", " : "", generators[i].name);
    return spg_fail(error, "gen:%.*s: no such matrix; there are: %s", (int)(length > 60 ? 60 : length), text, known);
}

bool spg_generate(struct spg_csr *m, const char *text, struct spg_error *error) {
    size_t length = strcspn(text, ":");
    const struct generator *g = NULL;
    arguments values;
    *m = (struct spg_csr){0};
    for (size_t i = 0; i < GENERATORS; i++)
        if (strlen(generators[i].name) == length && !memcmp(generators[i].name, text, length))
            g = &generators[i];
    if (!g)
        return unknown(text, length, error);
    if (!read_arguments(g, text + length, values, error))
        return false;
    uint64_t seed = (uint64_t)values[argument_count(g) - 1];
    if (!g->make(m, g->fixed ? g->fixed : values, seed, error))
        return spg_fail_in(error, text);
    if (!g->sets_values)
        spg_csr_fill(m, seed);
    return true;
}
