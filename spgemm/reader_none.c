/* In place of reader.cpp where fast_matrix_market is not there. */
#include "spgemm/reader.h"

bool gm_reader_there(void) { return false; }

bool gm_read_matrix_text(struct gm_csr *m, const char *name, const char *text, size_t size, enum gm_precision precision,
                         struct gm_reading *reading, struct gm_spgemm_error *error) {
    *m = (struct gm_csr){0};
    return gm_spgemm_fail(error, "%s: files need fast_matrix_market, which this build lacks", name);
}

bool gm_read_matrix(struct gm_csr *m, const char *path, enum gm_precision precision, struct gm_reading *reading,
                    struct gm_spgemm_error *error) {
    return gm_read_matrix_text(m, path, NULL, 0, precision, reading, error);
}
