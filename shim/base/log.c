/* Writes each log line by one write(2), so that lines of several threads and processes do not mix. Leaves the
 * program's errno unchanged. */
#include "shim/base/base.h"
#include "shim/base/file.h"

#define LINE 1024

static int threshold = GM_LOG_WARN;

static void write_line(const char *format, va_list args) {
    static const char prefix[] = "gpumem: ";
    const size_t head = sizeof prefix - 1;
    char line[LINE];

    __builtin_memcpy(line, prefix, head);
    int length = gm_vformat(line + head, sizeof line - head - 1, format, args);
    size_t end = head + (size_t)length;
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
