/* Stream observers: each is an entry in entry.S that notes the use of a per-thread default stream and jumps to the
 * function. */
#include "shim/hook/stream_observer.h"

#include "shim/driver/driver.h"
#include "shim/driver/free_sync.h"
#include "shim/driver/linked.h"
#include "shim/driver/streams.h"
#include "shim/grow/grow.h"
#include "shim/hook/observer_rows.h"

#define OBSERVER(symbol, ...)                    \
    GM_INTERNAL void gm_observer_##symbol(void); \
    GM_INTERNAL void *gm_observed_##symbol;      \
    void *gm_observed_##symbol;
GM_OBSERVER_ROWS(OBSERVER, OBSERVER, OBSERVER)
#undef OBSERVER

_Static_assert(offsetof(CUlaunchConfig, hStream) == 32, "the observer of cuLaunchKernelEx reads the stream there");

static const struct {
    const char *symbol;
    void (*observer)(void);
    void **function;
} rows[] = {
#define OBSERVER(symbol, ...) {#symbol, gm_observer_##symbol, &gm_observed_##symbol},
    GM_OBSERVER_ROWS(OBSERVER, OBSERVER, OBSERVER)
#undef OBSERVER
};
enum { ROWS = sizeof rows / sizeof *rows };

static bool active;

void gm_observer_find(void) {
    for (unsigned i = 0; i < ROWS; i++)
        __atomic_store_n(rows[i].function, gm_driver_symbol(rows[i].symbol), __ATOMIC_RELAXED);
}

void gm_observer_start(bool all_known) {
    if (gm_grow_mode >= GM_GROW_MOVE) /* trampolines take the place of the observers */
        gm_free_sync_note(GM_SYNC_LINKED);
    if (gm_drv.ctx_record_event && !gm_free_sync_observes())
        return;
    active = true;
    gm_streams_observe(gm_driver_linked);
    if (all_known)
        return;
    gm_streams_doubt(GM_STREAMS_LINKED);
    gm_free_sync_note(GM_SYNC_LINKED);
}

void *gm_observer_route(void *function) {
    for (unsigned i = 0; active && i < ROWS; i++)
        if (__atomic_load_n(rows[i].function, __ATOMIC_RELAXED) == function)
            return (void *)rows[i].observer;
    return function;
}
