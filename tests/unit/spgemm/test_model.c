/* The arithmetic of the thesis' loop, compared with cases by hand, with a simulation and with published figures. */
#include "spgemm_test.h"

#include "spgemm/model.h"

#include <math.h>
#include <stdio.h>

static struct spg_rounds model_of(const int32_t *size, int32_t rows, int32_t size_per_row) {
    struct spg_error error;
    struct spg_histogram h;
    assert_true(spg_histogram_make(&h, size, rows, &error));
    struct spg_rounds r = spg_model_rounds(&h, size_per_row);
    spg_histogram_free(&h);
    return r;
}

TEST(by_hand) {
    /* Round 1: 4 rows; 8 is finished by it, 9 is not; round 2: one row. 18 of 5 x 8 slots. */
    const int32_t size[] = {0, 1, 8, 9};
    struct spg_rounds r = model_of(size, 4, 8);
    assert_int_equal(r.rounds, 2);
    assert_int_equal(r.entries, 40);
    assert_true(r.efficiency == 18.0 / 40);
    r = model_of(size, 4, 9);
    assert_int_equal(r.rounds, 1);
    assert_int_equal(r.entries, 36);
    r = model_of(size, 4, 1);
    assert_int_equal(r.rounds, 9);
    assert_int_equal(r.entries, 19); /* the empty row has a slot too */
    r = model_of(size, 4, INT32_MAX);
    assert_int_equal(r.entries, 4 * (int64_t)INT32_MAX);
}

TEST(without_entries) {
    const int32_t size[] = {0, 0};
    struct spg_rounds r = model_of(size, 2, 8);
    assert_int_equal(r.rounds, 1);
    assert_true(r.efficiency == 0);
    r = model_of(size, 0, 8);
    assert_int_equal(r.rounds, 0);
    assert_int_equal(r.entries, 0);
}

/* Algorithm 3, with line 10 read as growth. */
static struct spg_rounds simulate(const int32_t *size, int32_t rows, int32_t size_per_row) {
    struct spg_rounds r = {.size_per_row = size_per_row};
    int32_t *left = malloc((size_t)rows * sizeof *left), active = rows;
    int64_t total = 0;
    for (int32_t i = 0; i < rows; i++)
        total += left[i] = size[i];
    bool *done = calloc((size_t)rows, sizeof *done);
    while (active) {
        r.rounds++;
        r.entries += (int64_t)size_per_row * active;
        active = 0;
        for (int32_t i = 0; i < rows; i++) {
            if (done[i])
                continue;
            left[i] = left[i] > size_per_row ? left[i] - size_per_row : 0;
            done[i] = !left[i];
            active += !done[i];
        }
    }
    r.efficiency = (double)total / (double)r.entries;
    free(left);
    free(done);
    return r;
}

static struct spg_sizes sizes_of(const char *name) {
    struct spg_csr m = generated(name);
    struct spg_error error = {""};
    struct spg_sizes sizes;
    if (!spg_sizes_make(&sizes, &m, &m, &error))
        fail_msg("%s: %s", name, error.text);
    spg_csr_free(&m);
    return sizes;
}

TEST(as_the_loop_does) {
    static const char *const names[] = {"rmat:9:6", "cage:7", "nlpkkt:5", "stencil7:9:8:7"};
    static const int32_t sizes[] = {1, 2, 3, 8, 25, 64, 1000};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct spg_sizes s = sizes_of(names[i]);
        for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
            struct spg_rounds modelled = model_of(s.row, s.rows, sizes[k]), made = simulate(s.row, s.rows, sizes[k]);
            assert_int_equal(modelled.rounds, made.rounds);
            assert_int_equal(modelled.entries, made.entries);
            assert_true(modelled.efficiency == made.efficiency);
        }
        free(s.row);
    }
}

struct golden {
    const char *name;
    int64_t nnz_c, bound;
    int32_t longest;
    struct {
        const char *efficiency;
        int32_t rounds;
    } size[SPG_THESIS_SIZES];
};

/* Table 5.2 (nnz(C), upper bound) of the thesis; efficiencies in per cent as printed by the driver. */
static void check_golden(const struct golden *g) {
    struct spg_sizes s = sizes_of(g->name);
    assert_int_equal(s.total, g->nnz_c);
    assert_int_equal(s.bound, g->bound);
    assert_int_equal(s.longest, g->longest);
    for (int i = 0; i < SPG_THESIS_SIZES; i++) {
        struct spg_rounds r = model_of(s.row, s.rows, spg_thesis_sizes[i]);
        char percent[32];
        snprintf(percent, sizeof percent, "%.2f", 100 * r.efficiency);
        if (strcmp(percent, g->size[i].efficiency) || r.rounds != g->size[i].rounds)
            fail_msg("%s, size_per_row %d: %s / %d", g->name, spg_thesis_sizes[i], percent, r.rounds);
    }
    free(s.row);
}

static const struct golden atmosmodl = {
    "atmosmodl",
    36486008,
    71590768,
    25,
    {{"79.36", 4}, {"76.58", 2}, {"76.54", 1}, {"51.02", 1}, {"38.27", 1}, {"25.51", 1}, {"19.13", 1}, {"9.57", 1}}};
static const struct golden cage14 = {"cage14",
                                     236999813,
                                     532205737,
                                     646,
                                     {{"97.80", 81},
                                      {"95.33", 41},
                                      {"91.15", 21},
                                      {"86.79", 14},
                                      {"83.49", 11},
                                      {"76.91", 7},
                                      {"72.08", 6},
                                      {"54.77", 3}}};
static const struct golden nlpkkt80 = {
    "nlpkkt80",
    154663144,
    790384704,
    152,
    {{"99.78", 19}, {"94.77", 10}, {"94.42", 5}, {"79.39", 4}, {"79.59", 3}, {"77.36", 2}, {"61.15", 2}, {"56.87", 1}}};

TEST(golden_atmosmodl) { check_golden(&atmosmodl); }

TEST(golden_large) {
    check_golden(&cage14);
    check_golden(&nlpkkt80);
}

/* Products within 2 % of table 5.2, and closed formulas where they exist. */
static void near(const char *name, double nnz_c, double bound) {
    struct spg_sizes s = sizes_of(name);
    free(s.row);
    if (fabs((double)s.total / nnz_c - 1) > 0.02 || fabs((double)s.bound / bound - 1) > 0.02)
        fail_msg("%s: nnz(C) %lld, upper bound %lld", name, (long long)s.total, (long long)s.bound);
}

TEST(twins_large) {
    near("twin-Hardesty1", 38292287, 157652676);
    near("twin-pwtk", 32772236, 626054402);
    near("twin-BenElechi1", 36261344, 705555870);
    near("twin-af_3_k101", 47472025, 612413375);
    near("twin-af_shell10", 142742975, 1840916875);
    near("twin-Transport", 99905089, 346715709);
}

TEST(bricks) {
    struct spg_sizes s = sizes_of("brick27:12:2");
    assert_int_equal(s.total, 54 * 54 * 54 * 4); /* (5 N - 6)^3 dof^2 */
    assert_int_equal(s.longest, 250);
    free(s.row);
}

TEST(bricks_large) {
    struct spg_sizes s = sizes_of("brick27:40:3");
    assert_int_equal(s.total, 65712456);
    free(s.row);
    s = sizes_of("brick27:100");
    assert_int_equal(s.total, 120553784);
    free(s.row);
}

int main(int argc, char **argv) { return run_small_or_large(argc, argv); }
