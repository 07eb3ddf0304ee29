/* What a call writes to standard error: a pipe takes its place between the two functions. It holds 64 KiB, and a call
 * that writes more waits for ever. Also for C++. */
#ifndef GM_SAID_H
#define GM_SAID_H

#include <stdlib.h>
#include <unistd.h>

struct said {
    int from, own; /* the pipe's end to read; standard error */
};

static inline struct said said_begin(void) {
    struct said said;
    int ends[2];
    if (pipe(ends))
        abort();
    said.from = ends[0];
    said.own = dup(STDERR_FILENO);
    dup2(ends[1], STDERR_FILENO);
    close(ends[1]);
    return said;
}

/* Writes what was said, as far as it fits, as a text of at most size - 1 bytes. */
static inline void said_end(struct said said, char *text, size_t size) {
    dup2(said.own, STDERR_FILENO);
    close(said.own);
    ssize_t got = read(said.from, text, size - 1);
    text[got > 0 ? got : 0] = '\0';
    close(said.from);
}

#endif
