#include "tools/cli/shown.h"

#include "shim/base/foreign.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

const char *gm_shown(char *room, size_t size, const char *text) {
    gm_foreign_text(room, size, text, SIZE_MAX);
    return room;
}

void gm_vcomplain(const char *format, va_list args) {
    int saved = errno;
    char *text = NULL, *line = NULL;
    if (vasprintf(&text, format, args) >= 0) {
        size_t size = gm_foreign_text(NULL, 0, text, SIZE_MAX) + 1;
        if ((line = malloc(size)))
            gm_shown(line, size, text);
    }
    fprintf(stderr, "gpumem: %s\n", line ? line : "out of memory");
    free(line);
    free(text);
    errno = saved;
}

void gm_complain(const char *format, ...) {
    va_list args;
    va_start(args, format);
    gm_vcomplain(format, args);
    va_end(args);
}
