/* Writes each log line by one write(2), so that lines of several threads and processes do not mix. Leaves the
 * program's errno unchanged. */
#include "shim/base/base.h"
#include "shim/base/file.h"
#include "shim/base/foreign.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#define LINE 1024
static const char prefix[] = "gpumem: ";
enum { HEAD = sizeof prefix - 1, PATH = 4096 };

static int threshold = GM_LOG_WARN;
static char file[PATH]; /* "": standard error */

/* The file is open for one write only: the program may close any descriptor. */
static void say(const char *text, size_t bytes) {
    int saved = errno;
    int fd = *file ? gm_open(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK) : -1;
    if (fd < 0) {
        gm_safe_say(STDERR_FILENO, text, bytes);
    } else {
        gm_safe_write(fd, text, bytes);
        gm_close(fd);
    }
    errno = saved;
}

/* Takes away what a text would do in a terminal. Returns its length, which `size` may cut. */
static GM_APART size_t show(char *text, size_t size) {
    char raw[LINE];
    size_t length = strnlen(text, sizeof raw);
    memcpy(raw, text, length);
    return gm_foreign_text(text, size, raw, length);
}

static size_t format_shown(char *text, size_t size, const char *format, va_list args) {
    size_t length = (size_t)gm_vformat(text, size, format, args);
    return gm_foreign_is_plain(text) ? length : show(text, size);
}

/* The line has a prefix already, of `head` bytes. Returns its length. */
static size_t end_line(char line[LINE], size_t head, const char *format, va_list args) {
    static const char more[] = "...";
    size_t length = format_shown(line + head, LINE - head - 1, format, args), end = head + strlen(line + head);
    if (head + length > end) {
        while (end + sizeof more > LINE - 1 || (line[end] & 0xc0) == 0x80) /* no part of a character is left */
            end--;
        memcpy(line + end, more, sizeof more);
        end += sizeof more - 1;
    }
    line[end++] = '\n';
    return end;
}

void gm_say_line(int fd, const char *format, ...) {
    char line[LINE];
    va_list args;
    va_start(args, format);
    gm_safe_say(fd, line, end_line(line, 0, format, args));
    va_end(args);
}

static void log_line(const char *format, va_list args) {
    char line[LINE];
    memcpy(line, prefix, HEAD);
    say(line, end_line(line, HEAD, format, args));
}

static bool enabled(enum gm_log_level level) {
    return level != GM_LOG_OFF && (int)level <= __atomic_load_n(&threshold, __ATOMIC_RELAXED);
}

#ifdef GM_CHECKED
void gm_assert_failed(const char *text, const char *file, int line) {
    gm_log(GM_LOG_ERROR, "%s:%d: %s does not hold", file, line, text);
    abort();
}
#endif

void gm_log_set(enum gm_log_level level) { __atomic_store_n(&threshold, (int)level, __ATOMIC_RELAXED); }

void gm_log_to(const char *path) {
    char folder[PATH] = "";
    if (*path && *path != '/' && syscall(SYS_getcwd, folder, sizeof folder) < 0)
        return;
    if (!*path || *path == '/')
        gm_format(file, sizeof file, "%s", path);
    else
        gm_format(file, sizeof file, "%s/%s", folder, path);
}

void gm_log(enum gm_log_level level, const char *format, ...) {
    if (!enabled(level))
        return;
    va_list args;
    va_start(args, format);
    log_line(format, args);
    va_end(args);
}

void gm_log_once(int *once, enum gm_log_level level, const char *format, ...) {
    if (!enabled(level) || __atomic_exchange_n(once, 1, __ATOMIC_RELAXED))
        return;
    va_list args;
    va_start(args, format);
    log_line(format, args);
    va_end(args);
}

void gm_log_add(struct gm_log_lines *lines, const char *format, ...) {
    size_t room = lines->size - lines->length;
    char *line = lines->text + lines->length;
    va_list args;
    if (room <= HEAD + 1)
        return;
    va_start(args, format);
    size_t length = format_shown(line + HEAD, room - HEAD, format, args);
    va_end(args);
    if (length >= room - HEAD)
        return;
    memcpy(line, prefix, HEAD);
    line[HEAD + length] = '\n'; /* in place of the terminator */
    lines->length += HEAD + length + 1;
}

void gm_log_lines(enum gm_log_level level, const struct gm_log_lines *lines) {
    if (enabled(level) && lines->length)
        say(lines->text, lines->length);
}
