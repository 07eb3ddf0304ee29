/* Any bytes as the file of options (GPUMEM_CONFIG): each line is reported at most once, in order, as name and value or
 * as an error. */
#include "shim/base/config.h"

#include "tests/fuzz/replay.h"

#include <string.h>

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
