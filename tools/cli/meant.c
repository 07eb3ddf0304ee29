#include "tools/cli/meant.h"
#include "shim/base/options.h"

#include <stdio.h>
#include <string.h>

struct gm_meant gm_meant_begin(const char *word, size_t length, const char *prefix) {
    size_t limit = length < 3 ? length : 3; /* a word of which no letter is right was no typing error */
    return (struct gm_meant){.word = word, .length = length, .prefix = prefix, .least = limit};
}

void gm_meant_try(struct gm_meant *meant, const char *name, size_t length) {
    size_t apart = gm_name_distance(meant->word, meant->length, name, length);
    if (apart >= meant->least)
        return;
    meant->least = apart;
    meant->best = name;
    meant->best_length = length;
}

void gm_meant_try_list(struct gm_meant *meant, const char *names, char separator) {
    const char separators[] = {separator, '\0'};
    for (size_t length; *names; names += length + (names[length] != '\0')) {
        length = strcspn(names, separators);
        gm_meant_try(meant, names, length);
    }
}

struct gm_meant_text gm_meant_text(const struct gm_meant *meant) {
    struct gm_meant_text out = {""};
    if (meant->best)
        snprintf(out.text, sizeof out.text, "; did you mean %s%.*s?", meant->prefix, (int)meant->best_length,
                 meant->best);
    return out;
}
