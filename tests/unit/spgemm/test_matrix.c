/* Building, transposing and checking compressed rows. */
#include "spgemm_test.h"

TEST(triplets_are_sorted_and_added) {
    /* Position (1, 2) three times; the order of adding is that given: 1e16 + 1 - 1e16 is 0, not 1. */
    const int64_t row[] = {2, 1, 0, 1, 1, 2}, column[] = {0, 2, 1, 2, 2, 3};
    const double value[] = {5, 1e16, 3, 1, -1e16, 7};
    struct spg_error error;
    struct spg_csr m;
    int64_t merged = -1;
    assert_true(spg_csr_from_triplets(&m, 3, 4, 6, row, column, value, &merged, &error));
    assert_true(spg_csr_valid(&m, &error));
    assert_int_equal(merged, 2);
    const int32_t offsets[] = {0, 1, 2, 4}, indices[] = {1, 2, 0, 3};
    const double values[] = {3, 0, 5, 7};
    assert_memory_equal(m.offsets, offsets, sizeof offsets);
    assert_memory_equal(m.indices, indices, sizeof indices);
    assert_memory_equal(m.values, values, sizeof values);
    assert_int_equal(spg_csr_nonzeros(&m), 3);
    spg_csr_free(&m);
}

TEST(long_rows_are_sorted) {
    enum { COUNT = 10007 };
    static int64_t row[COUNT], column[COUNT];
    static double value[COUNT];
    struct spg_error error;
    struct spg_csr m;
    int64_t merged;
    for (int i = 0; i < COUNT; i++) {
        column[i] = (int64_t)i * 7919 % COUNT; /* a permutation */
        value[i] = (double)column[i];
    }
    assert_true(spg_csr_from_triplets(&m, 1, COUNT, COUNT, row, column, value, &merged, &error));
    assert_int_equal(merged, 0);
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(m.indices[i], i);
        assert_true(m.values[i] == i);
    }
    spg_csr_free(&m);
}

TEST(empty_matrices) {
    struct spg_error error;
    struct spg_csr m, t;
    int64_t merged;
    assert_true(spg_csr_from_triplets(&m, 0, 5, 0, NULL, NULL, NULL, &merged, &error));
    assert_true(spg_csr_valid(&m, &error));
    assert_true(spg_csr_transpose(&t, &m, &error));
    assert_int_equal(t.rows, 5);
    assert_int_equal(spg_csr_stored(&t), 0);
    spg_csr_free(&m);
    spg_csr_free(&t);
    spg_csr_free(&t);
}

TEST(transposed) {
    const double dense[] = {1, 0, 2, 0, 0, 0, 0, 3, 4}, turned[] = {1, 0, 0, 0, 0, 3, 2, 0, 4};
    struct spg_csr m = from_dense(3, 3, dense), expected = from_dense(3, 3, turned), t, back;
    struct spg_error error;
    assert_true(spg_csr_transpose(&t, &m, &error));
    assert_true(same_structure(&t, &expected) && same_values(&t, &expected));
    spg_csr_free(&t);
    spg_csr_free(&m);
    spg_csr_free(&expected);
    m = generated("rmat:8:4");
    assert_true(spg_csr_transpose(&t, &m, &error) && spg_csr_transpose(&back, &t, &error));
    assert_false(same_structure(&t, &m));
    assert_true(same_structure(&back, &m) && same_values(&back, &m));
    spg_csr_free(&m);
    spg_csr_free(&t);
    spg_csr_free(&back);
}

TEST(wrong_matrices_are_named) {
    struct spg_csr m = generated("stencil7:3:3:3");
    struct spg_error error = {""};
    int32_t kept = m.indices[5];
    m.indices[5] = m.indices[4];
    assert_false(spg_csr_valid(&m, &error));
    assert_non_null(strstr(error.text, "row 1"));
    m.indices[5] = m.columns;
    assert_false(spg_csr_valid(&m, &error));
    m.indices[5] = -1;
    assert_false(spg_csr_valid(&m, &error));
    m.indices[5] = kept;
    assert_true(spg_csr_valid(&m, &error));
    m.offsets[3] = m.offsets[2] - 1;
    assert_false(spg_csr_valid(&m, &error));
    assert_non_null(strstr(error.text, "row 2"));
    spg_csr_free(&m);
}

TEST(entries_over_32_bits_are_refused) {
    struct spg_error error = {""};
    struct spg_csr m;
    assert_false(spg_csr_make(&m, 10, 10, (int64_t)INT32_MAX + 1, &error));
    assert_non_null(strstr(error.text, "2147483648"));
    assert_null(m.offsets);
}

TEST(rounded_to_float) {
    const double dense[] = {0.1, 1};
    struct spg_csr m = from_dense(1, 2, dense);
    spg_csr_round_to_float(&m);
    assert_true(m.values[0] == (double)0.1f && m.values[0] != 0.1 && m.values[1] == 1);
    spg_csr_free(&m);
}

int main(void) { return run_all(NULL, NULL); }
