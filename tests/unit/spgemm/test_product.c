/* The check of products accepts correct ones of any origin, and names the first wrong row of others. */
#include "spgemm_test.h"

#include "spgemm/check.h"
#include "spgemm/modes.h"
#include "spgemm/symbolic.h"

#include <math.h>

/* With a cancellation: row 0, column 0 is 1 x 1 + 1 x (-1), an entry of 0. */
static const double dense_a[] = {1, 1, 0, 0, 0, 2, 3, 0, 0.5}, dense_b[] = {1, 0, 2, -1, 0, 0, 0, 4, 0};

static struct spg_csr right_product(void) {
    struct spg_error error;
    struct spg_csr c;
    const int32_t offsets[] = {0, 2, 3, 6}, indices[] = {0, 2, 1, 0, 1, 2};
    const double values[] = {0, 2, 8, 3, 2, 6};
    assert_true(spg_csr_make(&c, 3, 3, 6, &error));
    memcpy(c.offsets, offsets, sizeof offsets);
    memcpy(c.indices, indices, sizeof indices);
    memcpy(c.values, values, sizeof values);
    return c;
}

/* NULL when the product passes. */
static const char *verdict(const struct spg_csr *c, enum spg_precision precision) {
    static struct spg_error error;
    struct spg_csr a = from_dense(3, 3, dense_a), b = from_dense(3, 3, dense_b);
    struct spg_check check;
    error.text[0] = 0;
    bool right = spg_check_product(&a, &b, c, precision, &check, &error);
    assert_true(!right || (check.worst >= 0 && check.worst <= 1));
    spg_csr_free(&a);
    spg_csr_free(&b);
    return right ? NULL : error.text;
}

TEST(right_ones_pass) {
    struct spg_csr c = right_product();
    assert_null(verdict(&c, SPG_DOUBLE));
    assert_null(verdict(&c, SPG_FLOAT));
    spg_csr_free(&c);
}

TEST(wrong_values_are_refused) {
    struct spg_csr c = right_product();
    const double bad[] = {NAN, INFINITY, -6, 0, 6 * (1 + 0x1p-40)};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        c.values[5] = bad[i];
        const char *why = verdict(&c, SPG_DOUBLE);
        assert_non_null(why);
        assert_non_null(strstr(why, "row 2, column 2"));
    }
    /* The last is within the rounding of float. */
    assert_null(verdict(&c, SPG_FLOAT));
    c.values[5] = 6 * (1 + 0x1p-20);
    assert_non_null(verdict(&c, SPG_FLOAT));
    /* One unit in the last place may be lost by two products. */
    c.values[5] = nextafter(6, 7);
    assert_null(verdict(&c, SPG_DOUBLE));
    spg_csr_free(&c);
}

/* The bound is relative to the sum of absolute products, not to a result that cancelled. */
TEST(cancelled_entries_have_a_bound) {
    struct spg_csr c = right_product();
    c.values[0] = 0x1p-53;
    assert_null(verdict(&c, SPG_DOUBLE));
    c.values[0] = 0x1p-40;
    assert_non_null(verdict(&c, SPG_DOUBLE));
    spg_csr_free(&c);
}

TEST(wrong_structures_are_refused) {
    struct spg_csr c = right_product();
    /* The cancelled entry is missing. */
    memmove(c.indices, c.indices + 1, 5 * sizeof *c.indices);
    memmove(c.values, c.values + 1, 5 * sizeof *c.values);
    for (int i = 1; i <= 3; i++)
        c.offsets[i]--;
    assert_non_null(strstr(verdict(&c, SPG_DOUBLE), "row 0 has 1 entries, not 2"));
    spg_csr_free(&c);
    c = right_product();
    c.indices[2] = 2;
    assert_non_null(strstr(verdict(&c, SPG_DOUBLE), "row 1 has an entry in column 2"));
    c.indices[2] = 3;
    assert_non_null(verdict(&c, SPG_DOUBLE));
    spg_csr_free(&c);
    c = right_product();
    c.indices[0] = 2;
    c.indices[1] = 0;
    assert_non_null(strstr(verdict(&c, SPG_DOUBLE), "row 0"));
    c.indices[1] = 2;
    assert_non_null(verdict(&c, SPG_DOUBLE));
    spg_csr_free(&c);
    c = right_product();
    c.rows = 2;
    assert_non_null(strstr(verdict(&c, SPG_DOUBLE), "2 x 3, not 3 x 3"));
    c.rows = 3;
    spg_csr_free(&c);
}

TEST(modes_by_name) {
    struct spg_error error = {""};
    const char *argument;
    assert_null(spg_mode_find("fast", &argument, &error));
    assert_non_null(strstr(error.text, "there are: auto, host, upper-bound, precise, rounds, cusparse"));
    assert_null(spg_mode_find("cusparse:alg9", &argument, &error));
    assert_non_null(strstr(error.text, "alg1 alg2 alg3"));
    assert_null(spg_mode_find("rounds:8", &argument, &error));
    assert_non_null(strstr(error.text, "takes no '8'"));
    const struct spg_mode *mode;
    for (unsigned i = 0; (mode = spg_mode_at(i)); i++) {
        const struct spg_mode *found = spg_mode_find(mode->name, &argument, &error);
        if (mode->ops) {
            assert_ptr_equal(found, mode);
            assert_string_equal(argument, "");
        } else {
            assert_null(found);
            assert_non_null(strstr(error.text, "which this build lacks"));
        }
    }
}

#ifdef SPG_HAVE_GRAPHBLAS
static void compare(const char *name_a, const char *name_b, enum spg_precision precision) {
    struct spg_csr a = generated(name_a), b = name_b ? generated(name_b) : a, c;
    struct spg_error error = {""};
    struct spg_sizes sizes;
    struct spg_check check;
    struct spg_run run;
    /* With negative values some sums cancel. */
    for (int64_t k = 0; k < spg_csr_stored(&a); k += 3)
        a.values[k] = -a.values[k];
    if (precision == SPG_FLOAT) {
        spg_csr_round_to_float(&a);
        spg_csr_round_to_float(&b);
    }
    struct spg_job job = {.a = &a, .b = name_b ? &b : &a, .precision = precision, .argument = ""};
    void *product = spg_mode_graphblas.open(&job, &error);
    if (!product || !spg_mode_graphblas.run(product, &run, &error) || !spg_mode_graphblas.fetch(product, &c, &error) ||
        !spg_check_product(job.a, job.b, &c, precision, &check, &error))
        fail_msg("%s x %s: %s", name_a, name_b ? name_b : name_a, error.text);
    assert_true(spg_sizes_make(&sizes, job.a, job.b, &error));
    assert_int_equal(sizes.total, run.stored);
    for (int32_t i = 0; i < c.rows; i++)
        assert_int_equal(sizes.row[i], c.offsets[i + 1] - c.offsets[i]);
    free(sizes.row);
    spg_mode_graphblas.close(product);
    spg_csr_free(&c);
    if (name_b)
        spg_csr_free(&b);
    spg_csr_free(&a);
}

TEST(as_graphblas_computes) {
    static const char *const names[] = {"stencil7:9x8x7", "cage:8",    "nlpkkt:6",
                                        "brick27:6:3",    "rmat:10:8", "rmat:13:2"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        compare(names[i], NULL, SPG_DOUBLE);
        compare(names[i], NULL, SPG_FLOAT);
    }
    compare("rmat:10:8", "stencil7:16x8x8", SPG_DOUBLE);
    compare("rmat:10:8:1", "rmat:10:8:2", SPG_FLOAT);
}

TEST(as_graphblas_computes_large) {
    compare("atmosmodl", NULL, SPG_DOUBLE);
    compare("nlpkkt80", NULL, SPG_DOUBLE);
    compare("rmat:16:8", NULL, SPG_DOUBLE);
}
#endif

int main(int argc, char **argv) {
#ifndef SPG_HAVE_GRAPHBLAS
    if (wants_large(argc, argv))
        return 77;
#endif
    return run_small_or_large(argc, argv);
}
