/* Formats numbers with units for text output. */
#ifndef GM_NUMBER_TEXT_H
#define GM_NUMBER_TEXT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Storage for one formatted number. The functions return its text, so that calls can be printf arguments. */
struct gm_text {
    char text[32];
};
const char *gm_text_bytes(struct gm_text *room, uint64_t bytes);  /* "512 B", "1.50 MiB" */
const char *gm_text_memory(struct gm_text *room, uint64_t value); /* of gm_memory_of: bytes, or "12.5 %" */
const char *gm_text_time(struct gm_text *room, uint64_t ns);      /* "830 ns", "12.4 us", "3.21 s" */
const char *gm_text_count(struct gm_text *room, uint64_t count);  /* "12,345,678" */
const char *gm_text_percent(struct gm_text *room, uint64_t part, uint64_t whole); /* "12.5 %" */

/* The last component of a path. */
static inline const char *gm_text_base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

#endif
