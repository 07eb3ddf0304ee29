/* Reads the map byte by byte out of a buffer on the stack (map.h). A line is
 * "from-to rwxp offset major:minor inode    name". */
#include "shim/base/map.h"

#include <fcntl.h>
#include <string.h>

#include "shim/base/file.h"

struct reader {
    int fd;
    size_t at, used;
    char bytes[2048];
};

/* -1: the end. */
static int next(struct reader *reader) {
    if (reader->at == reader->used) {
        ssize_t got = gm_read(reader->fd, reader->bytes, sizeof reader->bytes);
        if (got <= 0)
            return -1;
        reader->used = (size_t)got;
        reader->at = 0;
    }
    return (unsigned char)reader->bytes[reader->at++];
}

static int digit(int c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; }

/* Up to the first byte that is no digit, which it returns. */
static int read_number(struct reader *reader, uint64_t *number) {
    int c;
    for (*number = 0; digit(c = next(reader)) >= 0;)
        *number = *number << 4 | (unsigned)digit(c);
    return c;
}

static int skip_words(struct reader *reader, unsigned count) {
    int c = ' ';
    for (; count && c >= 0 && c != '\n'; count--)
        while ((c = next(reader)) >= 0 && c != ' ' && c != '\n')
            ;
    return c;
}

/* Reads one line. False: there is no more. */
static bool read_line(struct reader *reader, struct gm_map_line *line) {
    size_t length = 0;
    if (read_number(reader, &line->from) != '-' || read_number(reader, &line->to) != ' ')
        return false;
    line->readable = next(reader) == 'r';
    int c = skip_words(reader, 4);
    while (c == ' ')
        c = next(reader);
    for (; c >= 0 && c != '\n'; c = next(reader))
        if (length < sizeof line->name - 1)
            line->name[length++] = (char)c;
    line->name[length] = '\0';
    return true;
}

bool gm_map_find(uint64_t address, struct gm_map_line *line) {
    struct reader reader = {.fd = gm_open("/proc/self/maps", O_RDONLY | O_CLOEXEC)};
    bool found = false;
    if (reader.fd < 0)
        return false;
    while (!found && read_line(&reader, line))
        found = address >= line->from && address < line->to;
    gm_close(reader.fd);
    return found;
}
