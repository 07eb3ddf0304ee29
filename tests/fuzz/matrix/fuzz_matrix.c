/* Fuzz target: any bytes as a Matrix Market file. A successful read must give a valid matrix; a failed one must give an
 * error of one line. With -fsanitize=fuzzer this is a libFuzzer target; otherwise main() replays files. */
#include "spgemm/reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

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

#ifndef GM_LIBFUZZER
int main(int argc, char **argv) {
    static unsigned char data[1 << 20];
    for (int i = 1; i < argc; i++) {
        FILE *file = fopen(argv[i], "rb");
        if (!file) {
            perror(argv[i]);
            return 1;
        }
        LLVMFuzzerTestOneInput(data, fread(data, 1, sizeof data, file));
        fclose(file);
    }
    return argc < 2;
}
#endif
