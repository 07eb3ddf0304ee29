/* Fuzz entry: any bytes as a file of suppressions, matched against a stack that has all kinds of frames. Built
 * with -fsanitize=fuzzer it is a libFuzzer target; else main() replays files and every beginning of them. */
#include "tools/cli/suppressions.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static const struct gm_frame_name frames[] = {
    {.text = "make(int) at make.c:12 (app)",
     .function = "make(int)",
     .file = "/src/make.c",
     .module = "/opt/app",
     .line = 12,
     .offset = 0x100},
    {.text = "libfoo.so+0x200", .module = "/opt/libfoo.so", .offset = 0x200},
    {.text = "0x1234"},
    {.text = "main (app+0x300)", .function = "main", .module = "/opt/app", .offset = 0x300},
};

/* A file is either understood, or refused with a line that names it; never both. */
static void try_bytes(const unsigned char *data, size_t size) {
    char error[512] = "";
    struct gm_suppression_use use;
    uint64_t blocks = 0;
    struct gm_suppressions *s = gm_suppressions_new();
    FILE *file = size ? fmemopen((void *)data, size, "r") : fopen("/dev/null", "r");
    if (!s || !file)
        abort();
    bool understood = gm_suppressions_parse(s, file, "name", error, sizeof error);
    if (understood != !*error || (!understood && strncmp(error, "name:", 5)))
        abort();
    bool covered = gm_suppressions_cover(s, frames, sizeof frames / sizeof *frames, 3, 300);
    for (size_t i = 0; gm_suppressions_use(s, i, &use); i++)
        blocks += use.blocks;
    if (blocks != (covered ? 3 : 0))
        abort();
    gm_suppressions_free(s);
    fclose(file);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
    try_bytes(data, size);
    return 0;
}

#ifndef GM_LIBFUZZER
int main(int argc, char **argv) {
    static unsigned char data[65536];
    for (int i = 1; i < argc; i++) {
        FILE *file = fopen(argv[i], "rb");
        if (!file)
            return 1;
        size_t size = fread(data, 1, sizeof data, file);
        fclose(file);
        for (size_t cut = 0; cut <= size; cut++)
            try_bytes(data, cut);
        for (size_t at = 0; at < size; at++) {
            data[at] ^= 0x15;
            try_bytes(data, size);
            data[at] ^= 0x15;
        }
    }
    return 0;
}
#endif
