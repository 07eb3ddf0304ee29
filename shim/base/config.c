#include "shim/base/config.h"
#include "shim/base/file.h"

#include <errno.h>
#include <string.h>

enum { LINE_SIZE = 4352, FILE_MAX = 1 << 20 };

static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

/* Cuts blanks off both ends of [from, to), ends the text there and returns its start. */
static char *trim(char *from, char *to) {
    while (from < to && is_blank(*from))
        from++;
    while (to > from && is_blank(to[-1]))
        to--;
    *to = '\0';
    return from;
}

/* The end of the line without its comment. */
static size_t without_comment(const char *line, size_t length) {
    for (size_t i = 0; i < length; i++) {
        if (line[i] == '#' && (!i || is_blank(line[i - 1])))
            return i;
    }
    return length;
}

static void parse_line(const char *line, size_t length, unsigned number, gm_config_take *take, void *arg) {
    char text[LINE_SIZE];
    struct gm_config_line parsed = {.number = number};
    length = without_comment(line, length);
    size_t kept = length < LINE_SIZE ? length : LINE_SIZE - 1;
    memcpy(text, line, kept);
    parsed.name = trim(text, text + kept);
    char *equals = memchr(text, '=', kept);
    if (!*parsed.name && !memchr(line, '\0', length))
        return;
    if (kept < length)
        parsed.error = "the line is too long";
    else if (memchr(line, '\0', length))
        parsed.error = "the line has a byte 0";
    else if (!equals)
        parsed.error = "the line is not of the form NAME = VALUE";
    if (!parsed.error) {
        parsed.value = trim(equals + 1, text + length);
        parsed.name = trim(text, equals);
    }
    take(arg, &parsed);
}

void gm_config_parse(const char *text, size_t bytes, gm_config_take *take, void *arg) {
    unsigned number = 1;
    for (size_t at = 0; at < bytes; number++) {
        const char *end = memchr(text + at, '\n', bytes - at);
        size_t length = end ? (size_t)(end - text) - at : bytes - at;
        parse_line(text + at, length, number, take, arg);
        at += length + 1;
    }
}

int gm_config_read(const char *path, gm_config_take *take, void *arg) {
    struct stat status;
    size_t bytes;
    if (!gm_stat(path, &status) && S_ISREG(status.st_mode) && status.st_size > FILE_MAX)
        return EFBIG;
    const char *text = gm_file_map(path, &bytes);
    if (!text)
        return errno;
    gm_config_parse(text, bytes, take, arg);
    gm_file_unmap(text, bytes);
    return 0;
}

const char *gm_config_reason(int error) {
    return error == EFBIG ? "is larger than 1 MiB" : error == EINVAL ? "is not a plain file" : gm_errno_text(error);
}
