/* Fuzz target: any bytes as a Matrix Market file. A successful read must give a valid matrix; a failed one must give an
 * error of one line. */
#include "spgemm/reader.h"

#include "tests/fuzz/replay.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
    struct spg_error error = {""};
    struct spg_reading reading;
    struct spg_read_options options = {.precision = SPG_DOUBLE};
    struct spg_csr m;
    /* The copy has exactly `size` bytes, so that a read beyond the end is found. */
    char *text = malloc(size + !size);
    if (!text)
        abort();
    memcpy(text, data, size);
    bool read = spg_read_matrix_text(&m, "input", text, size, &options, &reading, &error);
    if (read ? !spg_csr_valid(&m, &error) : !*error.text || strchr(error.text, '\n') || m.offsets)
        abort();
    spg_csr_free(&m);
    free(text);
    return 0;
}
