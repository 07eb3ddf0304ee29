/* What fuzz targets share. Built with -fsanitize=fuzzer -DGM_LIBFUZZER a target is one of libFuzzer; else main() runs
 * the files of the folders and files named: as they are, cut at every byte, and with every byte replaced. Of a large
 * file so many bytes are taken, evenly, that all of it takes no more than some seconds. Include it once, in the
 * target's source. */
#ifndef FUZZ_REPLAY_H
#define FUZZ_REPLAY_H

#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static inline void must(int condition) {
    if (!condition)
        abort();
}

#ifndef GM_LIBFUZZER
enum { REPLAY_MOST = 1 << 16, REPLAY_BYTES = 1 << 14 }; /* of a file; of all its changed copies with one replacement */

static unsigned replayed;

static void replay_file(const char *path) {
    static const uint8_t replacements[] = "\0\n #<{*09a-%=>;,\x7f\xff";
    static uint8_t data[REPLAY_MOST];
    FILE *file = fopen(path, "rb");
    if (!file)
        return;
    size_t size = fread(data, 1, sizeof data, file), step = 1 + size * size / REPLAY_BYTES;
    fclose(file);
    for (size_t end = size % step; end <= size; end += step)
        LLVMFuzzerTestOneInput(data, end);
    for (size_t i = 0; i < size; i += step) {
        uint8_t kept = data[i];
        for (size_t r = 0; r < sizeof replacements - 1; r++) {
            data[i] = replacements[r];
            LLVMFuzzerTestOneInput(data, size);
        }
        data[i] = kept;
    }
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
    printf("%u seeds\n", replayed);
    return replayed ? 0 : 1;
}
#endif

#endif
