/* Replaces reader.cpp in builds without fast_matrix_market. */
#include "spgemm/reader.h"

bool spg_read_matrix_text(struct spg_csr *m, const char *name, const char *text, size_t size,
                          enum spg_precision precision, struct spg_reading *reading, struct spg_error *error) {
    *m = (struct spg_csr){0};
    return spg_fail(error, "%s: files need fast_matrix_market, which this build lacks", name);
}

bool spg_read_matrix(struct spg_csr *m, const char *path, enum spg_precision precision, struct spg_reading *reading,
                     struct spg_error *error) {
    return spg_read_matrix_text(m, path, NULL, 0, precision, reading, error);
}
