/* Helpers of all tests of spgemm. */
#ifndef SPG_TEST_H
#define SPG_TEST_H

#include <stdbool.h>

#include "tests/test.h"

#include "spgemm/generators.h"

/* Makes the named matrix and checks it. The test fails if that fails. */
static inline struct spg_csr generated(const char *text) {
    struct spg_error error = {""};
    struct spg_csr m;
    if (!spg_generate(&m, text, &error) || !spg_csr_valid(&m, &error))
        fail_msg("%s: %s", text, error.text);
    return m;
}

/* Makes a matrix of the nonzeros of a dense array of rows x columns. */
static inline struct spg_csr from_dense(int rows, int columns, const double *dense) {
    struct spg_error error = {""};
    struct spg_csr m;
    int stored = 0;
    for (int i = 0; i < rows * columns; i++)
        stored += dense[i] != 0;
    if (!spg_csr_make(&m, rows, columns, stored, &error))
        fail_msg("%s", error.text);
    stored = 0;
    for (int i = 0; i < rows; i++) {
        for (int j = 0; j < columns; j++) {
            if (dense[i * columns + j] != 0) {
                m.indices[stored] = j;
                m.values[stored++] = dense[i * columns + j];
            }
        }
        m.offsets[i + 1] = stored;
    }
    return m;
}

static inline bool same_structure(const struct spg_csr *a, const struct spg_csr *b) {
    return a->rows == b->rows && a->columns == b->columns &&
           !memcmp(a->offsets, b->offsets, ((size_t)a->rows + 1) * sizeof *a->offsets) &&
           !memcmp(a->indices, b->indices, (size_t)spg_csr_stored(a) * sizeof *a->indices);
}

static inline bool same_values(const struct spg_csr *a, const struct spg_csr *b) {
    return spg_csr_stored(a) == spg_csr_stored(b) &&
           !memcmp(a->values, b->values, (size_t)spg_csr_stored(a) * sizeof *a->values);
}

static inline bool wants_large(int argc, char **argv) { return argc > 1 && !strcmp(argv[1], "large"); }

/* Runs the tests with large matrices, whose names end in _large, if the argument is "large", else all others. */
static inline int run_small_or_large(int argc, char **argv) {
    if (wants_large(argc, argv))
        cmocka_set_test_filter("*_large");
    else
        cmocka_set_skip_filter("*_large");
    return run_all(NULL, NULL);
}

#endif
