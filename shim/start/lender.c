/* The thread that lends (lender.h). */
#include "shim/start/lender.h"

#include <stdlib.h>

#include "shim/base/file.h"
#include "shim/accounts/loans.h"
#include "shim/base/options.h"
#include "shim/base/real_dl.h"
#include "shim/accounts/stats.h"
#include "shim/driver/driver.h"
#include "shim/pipeline/pipeline.h"

#define TICK_NS   50000000ull
#define REST_NS   1000000000ull /* a tick while little is kept */
#define IDLE_NS   100000000ull
#define ANSWER_NS 300000000ull /* the longest that an asker waits for a busy context */
#define NAP_NS    1000000ull
#define KEPT_PART 64

static enum { NO_LENDER, LENDS, ENDED } state;
static bool inside;      /* in the driver */
static uint64_t devices; /* where the process keeps memory, or did: bits by number */
static size_t totals[GM_STATS_DEVICES];

/* ---- what is kept */

static uint64_t kept_on(int device) { return gm_stats_unused_on(gm_stats, device); }

/* Kept bytes beyond what every process may keep. Calls no driver, which may have ended. */
static uint64_t much_kept(void) {
    uint64_t much = 0;
    for (int device = 0; device < GM_STATS_DEVICES; device++) {
        size_t total = __atomic_load_n(&totals[device], __ATOMIC_RELAXED);
        uint64_t kept = total ? kept_on(device) : 0;
        if (kept > total / KEPT_PART)
            much += kept - total / KEPT_PART;
    }
    return much;
}

/* Rises with each call that a hook serves. Those of the fast case are the blocks that it reuses and keeps. */
static uint64_t calls_made(void) {
    const struct gm_stats_shard total = gm_stats_total(gm_stats);
    return total.calls + total.allocs[GM_KIND_CACHE] + total.frees[GM_KIND_CACHE];
}

/* ---- the thread */

static size_t lend(size_t bytes, enum gm_reason reason) {
    size_t released = 0;
    __atomic_store_n(&inside, true, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&state, __ATOMIC_SEQ_CST) == LENDS)
        released = gm_pipeline_lend(bytes, reason);
    __atomic_store_n(&inside, false, __ATOMIC_SEQ_CST);
    return released;
}

static void answer(void) {
    uint64_t until = gm_now_ns() + ANSWER_NS;
    size_t released = 0;
    while (!(released = lend(SIZE_MAX, GM_REASON_OUT_OF_MEMORY)) && much_kept() && gm_now_ns() < until)
        gm_sleep(NAP_NS);
    gm_loans_answer(released);
}

static void *run(void *unused) {
    uint64_t calls = calls_made(), since = gm_now_ns();
    gm_mine.depth = 1;
    (void)gm_capture_relax();
    while (__atomic_load_n(&state, __ATOMIC_RELAXED) == LENDS) {
        uint64_t much = much_kept(), now_made = calls_made();
        if (now_made != calls) {
            calls = now_made;
            since = gm_now_ns();
        } else if (much && gm_option_number(GM_OPT_CACHE_IDLE) && gm_now_ns() - since >= IDLE_NS) {
            gm_stats_unkept(GM_UNKEPT_IDLE, lend(much, GM_REASON_IDLE), true);
        }
        gm_loans_sleep(much ? TICK_NS : REST_NS);
        if (gm_loans_asked())
            answer();
    }
    gm_loans_leave();
    return NULL;
}

/* Before the driver ends: it is not called any more. */
static void end(void) {
    const uint64_t most_ns = 1000000000;
    uint64_t until = gm_now_ns() + most_ns;
    if (__atomic_exchange_n(&state, ENDED, __ATOMIC_SEQ_CST) != LENDS)
        return;
    while (__atomic_load_n(&inside, __ATOMIC_SEQ_CST) && gm_now_ns() < until)
        gm_sleep(NAP_NS);
    gm_loans_leave();
}

static void lend_on(int device) {
    size_t total = 0;
    uint64_t number = device >= 0 && device < GM_STATS_DEVICES ? 1ull << device : 0;
    if ((__atomic_load_n(&devices, __ATOMIC_RELAXED) & number) == number)
        return;
    if (gm_drv.device_total_mem(&total, device) == CUDA_SUCCESS)
        __atomic_store_n(&totals[device], total, __ATOMIC_RELAXED);
    __atomic_or_fetch(&devices, number, __ATOMIC_SEQ_CST);
    gm_loans_lend(device);
}

void gm_lender_begin(int device) {
    static bool registered;
    int none = NO_LENDER;
    lend_on(device);
    if (__atomic_load_n(&state, __ATOMIC_RELAXED) != NO_LENDER)
        return;
    if (!__atomic_exchange_n(&registered, true, __ATOMIC_RELAXED) && atexit(end))
        __atomic_store_n(&state, ENDED, __ATOMIC_RELAXED);
    if (!__atomic_compare_exchange_n((int *)&state, &none, LENDS, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
        return;
    for (int i = 0, joined = gm_loans_join(); joined && i < GM_STATS_DEVICES; i++)
        if (__atomic_load_n(&devices, __ATOMIC_SEQ_CST) >> i & 1)
            gm_loans_lend(i);
    if (gm_thread_start(run, NULL))
        end();
}

void gm_lender_after_fork(void) {
    gm_loans_after_fork();
    inside = false;
    if (state == LENDS)
        state = NO_LENDER; /* the driver does not work in the child, unless it executes another program */
}
