/* Fuzz entry: any bytes as a file of suppressions, matched against a stack that has all kinds of frames. */
#include "tools/cli/suppressions.h"

#include "tests/fuzz/replay.h"

#include <string.h>

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
    bool covered = gm_suppressions_cover(s, GM_SUPPRESSED_LEAK, frames, sizeof frames / sizeof *frames, 3, 300);
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
