/* What fuzz targets share. Built with -fsanitize=fuzzer -DGM_LIBFUZZER a target is one of libFuzzer; else main() runs
 * the files of the folders and files named. Include it once, in the target's source. */
#ifndef FUZZ_REPLAY_H
#define FUZZ_REPLAY_H

#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int condition) {
    if (!condition)
        abort();
}

#ifndef GM_LIBFUZZER
static unsigned replayed;

static void replay_file(const char *path) {
    static uint8_t data[1 << 16];
    FILE *file = fopen(path, "rb");
    if (!file)
        return;
    size_t size = fread(data, 1, sizeof data, file);
    fclose(file);
    LLVMFuzzerTestOneInput(data, size);
    replayed++;
}

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        DIR *folder = opendir(argv[i]);
        if (!folder) {
            replay_file(argv[i]);
            continue;
        }
        for (struct dirent *entry; (entry = readdir(folder));) {
            char path[4096];
            if (entry->d_name[0] == '.')
                continue;
            snprintf(path, sizeof path, "%s/%s", argv[i], entry->d_name);
            replay_file(path);
        }
        closedir(folder);
    }
    printf("%u inputs\n", replayed);
    return replayed ? 0 : 1;
}
#endif

#endif
