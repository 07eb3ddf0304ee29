#include "tools/cli/progress.h"
#include "tools/cli/number_text.h"
#include "tools/cli/shown.h"

#include <stdbool.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define FIRST_NS   UINT64_C(2000000000)
#define REFRESH_NS UINT64_C(200000000)
#define CLEAR_LINE "\r\033[K"

static struct {
    unsigned traces; /* being read now */
    uint64_t units, done;
    char path[60]; /* of the latest trace; its end, if it is long */
    uint64_t next_ns;
    bool shown;
} progress;

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void erase(void) {
    if (progress.shown)
        fputs(CLEAR_LINE, stderr);
    progress.shown = false;
}

void gm_progress_begin(const char *path, uint64_t units) {
    if (!progress.next_ns)
        progress.next_ns = now_ns() + FIRST_NS;
    progress.traces++;
    progress.units += units;
    gm_shown(progress.path, sizeof progress.path, gm_text_base_name(path));
}

void gm_progress_add(uint64_t units) {
    uint64_t now = now_ns();
    progress.done += units;
    if (now < progress.next_ns || !isatty(STDERR_FILENO))
        return;
    unsigned percent = progress.units ? (unsigned)(100.0 * (double)progress.done / (double)progress.units) : 0;
    progress.next_ns = now + REFRESH_NS;
    progress.shown = true;
    /* The cursor returns to the start of the line, so that a message overwrites it. */
    if (progress.traces > 1)
        fprintf(stderr, CLEAR_LINE "gpumem: reading %u traces, %u %%\r", progress.traces,
                percent < 100 ? percent : 100);
    else
        fprintf(stderr, CLEAR_LINE "gpumem: reading %s, %u %%\r", progress.path, percent < 100 ? percent : 100);
}

void gm_progress_end(uint64_t units, uint64_t done) {
    erase();
    progress.units -= units;
    progress.done -= done;
    progress.traces--;
}
