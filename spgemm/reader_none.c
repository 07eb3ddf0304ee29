/* Replaces reader.cpp in builds without a C++17 compiler that reads doubles by <charconv>. */
#include "spgemm/reader.h"

bool spg_read_matrix_text(struct spg_csr *m, const char *name, const char *text, size_t size,
                          const struct spg_read_options *options, struct spg_reading *reading,
                          struct spg_error *error) {
    *m = (struct spg_csr){0};
    *reading = (struct spg_reading){0};
    return spg_fail(error, "%s: files need a C++17 compiler with std::from_chars, which this build lacked", name);
}

bool spg_read_matrix(struct spg_csr *m, const char *path, const struct spg_read_options *options,
                     struct spg_reading *reading, struct spg_error *error) {
    return spg_read_matrix_text(m, path, NULL, 0, options, reading, error);
}
