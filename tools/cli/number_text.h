/* Numbers for people. */
#ifndef GM_NUMBER_TEXT_H
#define GM_NUMBER_TEXT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* A place for one formatted number; the functions return it, so that they nest into printf arguments. */
struct gm_text {
    char text[32];
};
const char *gm_text_bytes(struct gm_text *room, uint64_t bytes);                  /* "512 B", "1.50 MiB" */
const char *gm_text_time(struct gm_text *room, uint64_t ns);                      /* "830 ns", "12.4 us", "3.21 s" */
const char *gm_text_count(struct gm_text *room, uint64_t count);                  /* "12,345,678" */
const char *gm_text_percent(struct gm_text *room, uint64_t part, uint64_t whole); /* "12.5 %" */

/* A path's last part. */
static inline const char *gm_text_base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Copies a text that a program made up: what a terminal would act on becomes '?'. Returns `out`. */
const char *gm_text_printable(char *out, size_t size, const char *text);

#endif
