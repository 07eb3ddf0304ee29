#include "shim/hook/watch.h"

#include <string.h>

#include "shim/driver/driver.h"
#include "shim/driver/streams.h"
#include "shim/hook/watch_rows.h"

#define WATCHER(symbol, ...)                                                                                 \
    GM_INTERNAL void gm_watch_##symbol(void);                                                                \
    GM_INTERNAL void *gm_watched_##symbol;                                                                   \
    void *gm_watched_##symbol;
GM_WATCH_ROWS(WATCHER, WATCHER, WATCHER)
#undef WATCHER

_Static_assert(offsetof(CUlaunchConfig, hStream) == 32, "the watcher of cuLaunchKernelEx reads the stream there");

static const struct {
    const char *symbol;
    void (*watcher)(void);
    void **function;
} rows[] = {
#define WATCHER(symbol, ...) {#symbol, gm_watch_##symbol, &gm_watched_##symbol},
    GM_WATCH_ROWS(WATCHER, WATCHER, WATCHER)
#undef WATCHER
};
enum { ROWS = sizeof rows / sizeof *rows };

static bool active;

void gm_watch_start(bool all_known) {
    if (gm_drv.ctx_record_event)
        return;
    for (unsigned i = 0; i < ROWS; i++)
        *rows[i].function = gm_driver_symbol(rows[i].symbol);
    active = true;
    gm_streams_watch();
    if (!all_known)
        gm_streams_doubt(GM_STREAMS_LINKED);
}

void *gm_watch_route(void *function) {
    for (unsigned i = 0; active && i < ROWS; i++)
        if (*rows[i].function == function)
            return (void *)rows[i].watcher;
    return function;
}
