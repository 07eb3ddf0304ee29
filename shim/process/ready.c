/* The start of the hooks in a process: which thread starts them, and what other threads do meanwhile.
 *
 * A call of the loader waits for the loader's lock. A thread that holds that lock, in a constructor of a library,
 * may make the process's first CUDA call and wait for the thread that starts. So each thread first makes all calls
 * of the loader that the start needs, without a lock or flag; the start itself never calls the loader. Other threads
 * wait for the start, because a call that bypassed it (a capture begun, peer access) would be missing later. */
#include <sys/mman.h>

#include "shim/base/file.h"
#include "shim/base/options.h"
#include "shim/base/real_dl.h"
#include "shim/hook/entry_points.h"
#include "shim/hook/hook.h"
#include "shim/process/process.h"

static __thread __attribute__((tls_model("initial-exec"))) bool starting;

static bool query_loader(struct gm_found **found) {
    *found = NULL;
    if (!gm_driver_ready(false) || !(*found = gm_pages(sizeof **found)))
        return false;
    gm_entry_points_find(*found);
    gm_thread_find();
    gm_registry_shared();
    gm_process_prepare();
    return true;
}

enum { IDLE = 0, STARTED = -1, GAVE_UP = -2 }; /* else: id of the process whose thread starts */
static int start_state;

/* Waits until the start has ended. Nothing in the start waits for another thread, so it ends within milliseconds.
 * The time limit is for unforeseen cases such as a file system that does not answer. In the child of a fork the
 * starting thread does not exist. In both cases gpumem gives up for the life of the process, before anything was
 * hooked. */
static bool wait_for_start(void) {
    enum { NAP_NS = 50000, MOST_NAPS = 100000 }; /* 5 s and more */
    int now = __atomic_load_n(&start_state, __ATOMIC_ACQUIRE);
    for (int naps = 0; now > 0; naps++) {
        bool forked = now != getpid();
        if ((forked || naps == MOST_NAPS) &&
            __atomic_compare_exchange_n(&start_state, &now, GAVE_UP, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
            gm_log(GM_LOG_ERROR, "the start %s: stepping aside", forked ? "was cut off by a fork" : "does not end");
            return false;
        }
        gm_sleep(NAP_NS);
        now = __atomic_load_n(&start_state, __ATOMIC_ACQUIRE);
    }
    return now == STARTED;
}

/* One thread starts the process. False: gpumem gave up, and calls go to the driver. */
static bool start_process(const struct gm_found *found) {
    int idle = IDLE, self = getpid();
    if (gm_options_are_ignored()) {
        __atomic_store_n(&start_state, GAVE_UP, __ATOMIC_RELEASE);
        return false;
    }
    if (!__atomic_compare_exchange_n(&start_state, &idle, self, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        return wait_for_start();
    gm_process_start();
    gm_entry_points_report(found);
    return __atomic_compare_exchange_n(&start_state, &self, STARTED, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

/* Finds the driver's functions and starts the pipeline of the process. False while no driver is loaded, during the
 * start, and after gpumem gave up. */
bool gm_hooks_ready(void) {
    struct gm_found *found;

    if (GM_LIKELY(__atomic_load_n(&gm_hooks_active, __ATOMIC_ACQUIRE)))
        return true;
    if (starting || __atomic_load_n(&start_state, __ATOMIC_ACQUIRE) == GAVE_UP)
        return false;
    starting = true;
    bool ready = query_loader(&found) && start_process(found);
    if (found)
        munmap(found, sizeof *found);
    if (ready) {
        __atomic_store_n(&gm_hooks_active, true, __ATOMIC_RELEASE);
        gm_watch_set(GM_WATCH_CLOSED, false);
        gm_process_started();
    }
    starting = false;
    return ready;
}
