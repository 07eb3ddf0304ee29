/* Generated matrices compared with the counts of the collections' files and with closed formulas. */
#include "spgemm_test.h"

#include "spgemm/random.h"

#include <math.h>
#include <stdio.h>

struct counts {
    const char *name;
    int32_t rows;
    int64_t nonzeros, stored;
};

static void check_counts(const struct counts *c) {
    struct spg_csr m = generated(c->name);
    int64_t nonzeros = spg_csr_nonzeros(&m), stored = spg_csr_stored(&m);
    int32_t rows = m.rows, columns = m.columns;
    spg_csr_free(&m);
    if (rows != c->rows || columns != c->rows || nonzeros != c->nonzeros || stored != c->stored)
        fail_msg("%s: %d x %d, %lld nonzeros, %lld stored", c->name, rows, columns, (long long)nonzeros,
                 (long long)stored);
}

TEST(cage_small) {
    static const struct counts rows[] = {
        {"cage:3", 5, 19, 19},
        {"cage:4", 9, 49, 49},
        {"cage:5", 37, 233, 233},
        {"cage:6", 93, 785, 785},
        {"cage:7", 340, 3084, 3084},
        {"cage:8", 1015, 11003, 11003},
        {"cage:9", 3534, 41594, 41594},
        {"cage:10", 11397, 150645, 150645},
        {"cage:11", 39082, 559722, 559722},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        check_counts(&rows[i]);
}

TEST(cage_large) {
    static const struct counts rows[] = {
        {"cage:12", 130228, 2032536, 2032536},
        {"cage:13", 445315, 7479343, 7479343},
        {"cage14", 1505785, 27130349, 27130349},
        {"cage15", 5154859, 99199551, 99199551},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        check_counts(&rows[i]);
}

/* Every move can be reversed. */
TEST(structure_is_symmetric) {
    static const char *const names[] = {"cage:8", "nlpkkt:4", "stencil7:3:4:5", "brick27:4:2", "twin-Hardesty1"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct spg_csr m = generated(names[i]), t;
        struct spg_error error;
        assert_true(spg_csr_transpose(&t, &m, &error));
        if (!same_structure(&m, &t))
            fail_msg("%s is not symmetric", names[i]);
        spg_csr_free(&m);
        spg_csr_free(&t);
    }
}

TEST(diagonal_is_full) {
    struct spg_csr m = generated("cage:7");
    for (int32_t i = 0; i < m.rows; i++) {
        bool found = false;
        for (int32_t k = m.offsets[i]; k < m.offsets[i + 1]; k++)
            found |= m.indices[k] == i;
        assert_true(found);
    }
    spg_csr_free(&m);
}

/* n = 2 N^3 + 6 N^2; A has 27 N^3 - 12 (3 N - 2) - 8 entries, H a diagonal of N^3 + 6 N^2; N^3 zeros are
 * stored. */
TEST(nlpkkt_small) {
    for (int64_t n = 1; n <= 7; n++) {
        char name[32];
        snprintf(name, sizeof name, "nlpkkt:%lld", (long long)n);
        int64_t cube = n * n * n, nonzeros = 2 * (27 * cube - 12 * (3 * n - 2) - 8) + cube + 6 * n * n;
        check_counts(&(struct counts){name, (int32_t)(2 * cube + 6 * n * n), nonzeros, nonzeros + cube});
    }
}

TEST(nlpkkt_zeros_are_the_lower_diagonal) {
    struct spg_csr m = generated("nlpkkt:3");
    int32_t variables = m.rows - 27;
    for (int32_t i = 0; i < m.rows; i++)
        for (int32_t k = m.offsets[i]; k < m.offsets[i + 1]; k++) {
            assert_int_equal(m.values[k] == 0, i >= variables && m.indices[k] == i);
            /* The upper left block is a diagonal, the lower right holds nothing else. */
            assert_true(m.indices[k] == i || (m.indices[k] < variables) != (i < variables));
        }
    spg_csr_free(&m);
}

static int64_t stencil7_entries(int64_t x, int64_t y, int64_t z) { return 7 * x * y * z - 2 * (x * y + y * z + z * x); }

TEST(stencils) {
    const int64_t sizes[][3] = {{1, 1, 1}, {2, 1, 1}, {5, 4, 3}, {1, 9, 2}, {11, 13, 17}};
    char name[64];
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        int64_t x = sizes[i][0], y = sizes[i][1], z = sizes[i][2], entries = stencil7_entries(x, y, z);
        snprintf(name, sizeof name, "stencil7:%lldx%lldx%lld", (long long)x, (long long)y, (long long)z);
        check_counts(&(struct counts){name, (int32_t)(x * y * z), entries, entries});
    }
    for (int64_t n = 1; n <= 6; n++)
        for (int64_t dof = 1; dof <= 3; dof++) {
            int64_t side = 3 * n - 2, entries = side * side * side * dof * dof;
            snprintf(name, sizeof name, "brick27:%lld:%lld", (long long)n, (long long)dof);
            check_counts(&(struct counts){name, (int32_t)(n * n * n * dof), entries, entries});
        }
}

TEST(exact_names) {
    static const struct counts rows[] = {
        {"atmosmodl", 1489752, 10319760, 10319760},
        {"atmosmodm", 1489752, 10319760, 10319760},
        {"nlpkkt80", 1062400, 28192672, 28704672},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        check_counts(&rows[i]);
}

/* Rows and entries within 2 % of the thesis' table 4.1. */
static void near(const char *name, double rows, double stored) {
    struct spg_csr m = generated(name);
    double off_rows = fabs(m.rows / rows - 1), off_stored = fabs((double)spg_csr_stored(&m) / stored - 1);
    spg_csr_free(&m);
    if (off_rows > 0.02 || off_stored > 0.02)
        fail_msg("%s: rows off by %.4f, entries by %.4f", name, off_rows, off_stored);
}

TEST(twins) {
    near("twin-Hardesty1", 938905, 12143314);
    near("twin-pwtk", 217918, 11524432);
    near("twin-BenElechi1", 245874, 13150496);
    near("twin-af_3_k101", 503625, 17550675);
}

TEST(twins_large) {
    near("twin-af_shell10", 1508065, 52259885);
    near("twin-Transport", 1602111, 23487281);
}

TEST(twins_do_not_pass_for_the_originals) {
    static const char *const names[] = {"pwtk", "Hardesty1", "BenElechi1", "af_3_k101", "af_shell10", "Transport"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct spg_error error = {""};
        struct spg_csr m;
        assert_false(spg_generate(&m, names[i], &error));
        assert_non_null(strstr(error.text, "no such matrix"));
        assert_null(m.offsets);
    }
}

/* Reference outputs of splitmix64 from seed 1234567, and what they become as values. */
TEST(values_are_the_same_everywhere) {
    static const uint64_t outputs[] = {6457827717110365317u, 3203168211198807973u, 9817491932198370423u,
                                       4593380528125082431u, 16408922859458223821u};
    struct spg_csr m = generated("stencil7:2:2:2:1234567");
    for (int i = 0; i < 5; i++) {
        assert_true(spg_random_at(1234567, (uint64_t)i) == outputs[i]);
        assert_true(m.values[i] == ldexp((double)((outputs[i] >> 11) + 1), -53));
    }
    spg_csr_free(&m);
}

TEST(seeds_change_values_only) {
    struct spg_csr one = generated("cage:6:1"), again = generated("cage:6"), two = generated("cage:6:2");
    assert_true(same_structure(&one, &again) && same_values(&one, &again));
    assert_true(same_structure(&one, &two) && !same_values(&one, &two));
    for (int64_t k = 0; k < spg_csr_stored(&two); k++)
        assert_true(two.values[k] > 0 && two.values[k] <= 1);
    spg_csr_free(&one);
    spg_csr_free(&again);
    spg_csr_free(&two);
}

TEST(dense_rows_and_columns) {
    struct spg_csr m = generated("dense-rows:50:3:2"), other = generated("dense-columns:50:3:2"), transposed;
    struct spg_error error;
    for (int32_t i = 0; i < 50; i++) {
        int32_t length = m.offsets[i + 1] - m.offsets[i];
        assert_true(i % 25 == 0 ? length == 50 : length >= 1 && length <= 3);
    }
    assert_true(spg_csr_transpose(&transposed, &other, &error));
    assert_true(same_structure(&m, &transposed));
    spg_csr_free(&m);
    spg_csr_free(&other);
    spg_csr_free(&transposed);
    assert_false(spg_generate(&m, "dense-rows:50:3:51", &error));
    assert_non_null(strstr(error.text, "at most 50 rows"));
}

TEST(rmat_is_skewed) {
    struct spg_csr m = generated("rmat:12:8:3"), other = generated("rmat:12:8:4");
    int32_t longest = 0;
    assert_int_equal(m.rows, 4096);
    assert_true(spg_csr_stored(&m) <= 4096 * 8 && spg_csr_stored(&m) > 4096 * 6);
    for (int32_t i = 0; i < m.rows; i++)
        longest = m.offsets[i + 1] - m.offsets[i] > longest ? m.offsets[i + 1] - m.offsets[i] : longest;
    /* Twenty times the mean; a random graph of this size stays below four times. */
    assert_true(longest > 160);
    assert_false(same_structure(&m, &other));
    spg_csr_free(&m);
    spg_csr_free(&other);
}

TEST(bad_names) {
    static const struct {
        const char *text, *says;
    } rows[] = {
        {"", "no such matrix"},
        {"cage16", "no such matrix"},
        {"cage:2", "L '2' is not a number from 3 to 16"},
        {"cage:17", "from 3 to 16"},
        {"cage:", "L ''"},
        {"cage:5:", "SEED ''"},
        {"cage:5:1:1", "too many arguments"},
        {"cage: 5", "L ' 5'"},
        {"cage:5x", "L '5x'"},
        {"cage14:-1", "SEED '-1'"},
        {"stencil7:4x5x6x7", "Z '6x7'"},
        {"stencil7:0:1:1", "X '0'"},
        {"stencil7:2000:2000:2000", "do not fit 32-bit indices"},
        {"brick27:1290:2", "do not fit 32-bit indices"},
        {"rmat:29", "SCALE '29'"},
        {"rmat:28:4096", "do not fit 32-bit offsets"},
        {"rmat:99999999999999999999", "SCALE"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct spg_error error = {""};
        struct spg_csr m;
        if (spg_generate(&m, rows[i].text, &error) || !strstr(error.text, rows[i].says) || m.offsets)
            fail_msg("'%s' says '%s', not '%s'", rows[i].text, error.text, rows[i].says);
    }
}

int main(int argc, char **argv) { return run_small_or_large(argc, argv); }
