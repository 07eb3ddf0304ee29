#include "tools/cli/trace_lines.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool gm_trace_lines_open(struct gm_trace_lines *l, const struct gm_trace_input *file) {
    *l = (struct gm_trace_lines){.file = file, .text = malloc(GM_TRACE_LINE + 1)};
    return l->text != NULL;
}

void gm_trace_lines_close(struct gm_trace_lines *l) { free(l->text); }

/* Reads on behind what is left. False at the end of the file. *hole: a part of the file that is none was skipped. */
static bool read_more(struct gm_trace_lines *l, bool *hole) {
    uint64_t data = gm_trace_input_data(l->file, l->at);
    ssize_t got;
    *hole = data > l->at;
    l->at = data;
    memmove(l->text, l->text + l->begin, l->end - l->begin);
    l->end -= l->begin;
    l->begin = 0;
    do
        got = pread(l->file->fd, l->text + l->end, GM_TRACE_LINE - l->end, (off_t)l->at);
    while (got < 0 && errno == EINTR);
    if (got <= 0)
        return false;
    l->end += (size_t)got;
    l->at += (uint64_t)got;
    return true;
}

enum gm_trace_line gm_trace_lines_next(struct gm_trace_lines *l, char **text, size_t *length) {
    bool lost = false, hole = false, more = true;
    char *newline;
    size_t searched = 0;
    while (!(newline = memchr(l->text + l->begin + searched, '\n', l->end - l->begin - searched)) && more) {
        searched = l->end - l->begin;
        lost |= searched == GM_TRACE_LINE;
        if (lost) {
            l->begin = l->end;
            searched = 0;
        }
        more = read_more(l, &hole);
        lost |= hole;
    }
    *text = l->text + l->begin;
    *length = (size_t)((newline ? newline : l->text + l->end) - *text);
    if (!newline && !*length)
        return lost ? GM_LINE_LOST : GM_LINE_END;
    (*text)[*length] = '\0';
    l->begin += *length + (newline != NULL);
    return lost ? GM_LINE_LOST : newline ? GM_LINE_WHOLE : GM_LINE_CUT;
}
