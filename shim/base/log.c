/* Writes each log line by one write(2), so that lines of several threads and processes do not mix. Leaves the
 * program's errno unchanged. */
#include "shim/base/base.h"
#include "shim/base/file.h"

#define LINE 1024
static const char prefix[] = "gpumem: ";
enum { HEAD = sizeof prefix - 1 };

static int threshold = GM_LOG_WARN;

static void write_line(const char *format, va_list args) {
    char line[LINE];

    __builtin_memcpy(line, prefix, HEAD);
    int length = gm_vformat(line + HEAD, sizeof line - HEAD - 1, format, args);
    size_t end = HEAD + (size_t)length;
    if (end > sizeof line - 2) {
        end = sizeof line - 2;
        __builtin_memcpy(line + end - 3, "...", 3);
    }
    line[end++] = '\n';
    gm_safe_say(STDERR_FILENO, line, end);
}

static bool enabled(enum gm_log_level level) {
    return level != GM_LOG_OFF && (int)level <= __atomic_load_n(&threshold, __ATOMIC_RELAXED);
}

void gm_log_set(enum gm_log_level level) { __atomic_store_n(&threshold, (int)level, __ATOMIC_RELAXED); }

void gm_log(enum gm_log_level level, const char *format, ...) {
    if (!enabled(level))
        return;
    va_list args;
    va_start(args, format);
    write_line(format, args);
    va_end(args);
}

void gm_log_once(int *once, enum gm_log_level level, const char *format, ...) {
    if (!enabled(level) || __atomic_exchange_n(once, 1, __ATOMIC_RELAXED))
        return;
    va_list args;
    va_start(args, format);
    write_line(format, args);
    va_end(args);
}

void gm_log_add(struct gm_log_lines *lines, const char *format, ...) {
    size_t room = lines->size - lines->length;
    char *line = lines->text + lines->length;
    va_list args;
    if (room <= HEAD + 1)
        return;
    va_start(args, format);
    size_t length = (size_t)gm_vformat(line + HEAD, room - HEAD, format, args);
    va_end(args);
    if (length >= room - HEAD)
        return;
    __builtin_memcpy(line, prefix, HEAD);
    line[HEAD + length] = '\n'; /* in place of the terminator */
    lines->length += HEAD + length + 1;
}

void gm_log_lines(enum gm_log_level level, const struct gm_log_lines *lines) {
    if (enabled(level) && lines->length)
        gm_safe_say(STDERR_FILENO, lines->text, lines->length);
}
