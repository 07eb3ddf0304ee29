/* Any bytes as the file of options (GPUMEM_CONFIG): each line is reported at most once, in order, as name and value or
 * as an error.
 *
 * Built with -fsanitize=fuzzer -DGM_LIBFUZZER this is a libFuzzer target; else main() runs the files of the folders and
 * files named. */
#include "shim/base/config.h"

#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int condition) {
    if (!condition)
        abort();
}

struct seen {
    unsigned last, lines;
};

static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

static void must_be_trimmed(const char *text) {
    size_t length = strlen(text);
    must(!strchr(text, '\n'));
    must(!length || (!is_blank(text[0]) && !is_blank(text[length - 1])));
}

static void take(void *arg, const struct gm_config_line *line) {
    struct seen *seen = arg;
    must(line->number > seen->last && line->number <= seen->lines);
    seen->last = line->number;
    must(line->name != NULL);
    must((line->error != NULL) != (line->value != NULL));
    if (line->error)
        return;
    must_be_trimmed(line->name);
    must_be_trimmed(line->value);
    must(line->name[0] != '#' && !strchr(line->name, '='));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct seen seen = {0, 1};
    char *text = malloc(size + !size); /* not terminated, so that a sanitizer sees a read behind it */
    must(text != NULL);
    if (size)
        memcpy(text, data, size);
    for (size_t i = 0; i < size; i++)
        seen.lines += text[i] == '\n';
    gm_config_parse(text, size, take, &seen);
    free(text);
    return 0;
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
