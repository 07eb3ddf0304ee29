/* The lines of a trace that is text. A line has a bounded length, and holes of the file cost nothing. */
#ifndef GM_TRACE_LINES_H
#define GM_TRACE_LINES_H

#include "tools/cli/trace_input.h"

struct gm_trace_lines {
    const struct gm_trace_input *file;
    char *text;        /* what was read, of GM_TRACE_LINE bytes and a terminator */
    size_t begin, end; /* of what was not returned yet */
    uint64_t at;       /* in the file: behind `end` */
};

/* More than the longest record has when every byte of it is escaped. */
#define GM_TRACE_LINE (1u << 19)

enum gm_trace_line {
    GM_LINE_END,   /* of the file */
    GM_LINE_WHOLE, /* ended by a newline, which is no longer there */
    GM_LINE_CUT,   /* the last line, without a newline */
    GM_LINE_LOST   /* too long, or with a hole in it; there is no text */
};

/* False = no memory. The file is the caller's, and must outlive the lines. */
bool gm_trace_lines_open(struct gm_trace_lines *lines, const struct gm_trace_input *file);
/* The text is terminated, and valid until the next call. */
enum gm_trace_line gm_trace_lines_next(struct gm_trace_lines *lines, char **text, size_t *length);
void gm_trace_lines_close(struct gm_trace_lines *lines);

#endif
