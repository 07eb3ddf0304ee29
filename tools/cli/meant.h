/* Finds the name that somebody meant who typed another one: "did you mean ...?" */
#ifndef GM_MEANT_H
#define GM_MEANT_H

#include <stddef.h>

struct gm_meant {
    const char *word, *prefix, *best;
    size_t length, best_length, least;
};

/* `word` is what was typed, up to `length`; the names are shown with `prefix`, such as "--". */
struct gm_meant gm_meant_begin(const char *word, size_t length, const char *prefix);
void gm_meant_try(struct gm_meant *meant, const char *name, size_t length);
/* Tries each name of a list with one separator between two names, such as "a|b|c". */
void gm_meant_try_list(struct gm_meant *meant, const char *names, char separator);

/* "; did you mean report?", or "" where no name differs by at most two letters. */
struct gm_meant_text {
    char text[96];
};
struct gm_meant_text gm_meant_text(const struct gm_meant *meant);

#endif
