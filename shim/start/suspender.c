/* Looks for a request every 20 ms (suspender.h). */
#include "shim/start/suspender.h"

#include <stdlib.h>
#include <string.h>

#include "shim/base/events.h"
#include "shim/base/file.h"
#include "shim/base/options.h"
#include "shim/base/real_dl.h"
#include "shim/accounts/share.h"
#include "shim/accounts/stats.h"
#include "shim/suspend/suspend.h"

#define TICK_NS 20000000ull
#define MOST_NS 10000000000ull /* that the end of the process waits for a suspend or resume */

static enum { NO_THREAD, WATCHES, ENDED } state;
static bool inside; /* in a suspend or resume */

static void answer(uint32_t number, const char *text, bool failed) {
    struct gm_stats_recording *r = &gm_stats->recording;
    gm_format(r->text, sizeof r->text, "%s", text);
    r->failed = failed;
    __atomic_store_n(&r->answered, number, __ATOMIC_RELEASE);
}

enum { LINES = 3 };

/* The request, and its lines. 0: there is none. */
static uint32_t read_request(struct gm_stats_recording *out, const char *lines[LINES]) {
    const struct gm_stats_recording *r = &gm_stats->recording;
    uint32_t number = __atomic_load_n(&r->request, __ATOMIC_ACQUIRE);
    if (number & 1 || number == __atomic_load_n(&r->answered, __ATOMIC_RELAXED))
        return 0;
    memcpy(out, r, sizeof *out);
    out->name[sizeof out->name - 1] = '\0';
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    if (__atomic_load_n(&r->request, __ATOMIC_RELAXED) != number ||
        (out->wanted != GM_STATS_SUSPEND && out->wanted != GM_STATS_RESUME))
        return 0;
    char *at = out->name;
    for (unsigned i = 0; i < LINES; i++) {
        char *end = at + strcspn(at, "\n");
        lines[i] = at;
        at = *end ? end + 1 : end;
        *end = '\0';
    }
    return number;
}

/* The devices' accounts of now, for who asked. */
static void take_accounts(void) {
    struct gm_context context;
    CUcontext popped;
    for (int device = 0; device < GM_STATS_DEVICES; device++) {
        int hold = gm_context_on(device, &context) ? gm_context_hold(context.handle, context.id) : -1;
        if (hold < 0)
            continue;
        if (!gm_drv.ctx_push(context.handle)) {
            GM_PUBLISH(account_due, device, GM_MOMENT_MOVED);
            gm_drv.ctx_pop(&popped);
        }
        gm_context_let_go(hold);
    }
}

static void serve_request(void) {
    static struct gm_stats_recording request; /* of this thread, whose stack may be small */
    const char *lines[LINES];
    char why[GM_SUSPEND_WHY] = "", text[GM_SUSPEND_WHY + 100];
    uint32_t number = read_request(&request, lines);
    uint64_t bytes = 0;
    if (!number)
        return;
    bool leaves = request.wanted == GM_STATS_SUSPEND;
    const struct gm_suspend_wish wish = {
        .keep = lines[0], .drop = lines[1], .to = lines[2], .wait = request.stacks != GM_STATS_WAKES};
    bool whole = leaves && request.stacks == GM_STATS_WHOLE;
    gm_status status = leaves ? gm_suspend(&wish, &bytes, why) : gm_resume(lines[0], &bytes, why);
    take_accounts();
    const struct gm_stats_suspended *seen = &gm_stats->suspended;
    if (status)
        gm_format(text, sizeof text, "%s", why);
    else
        __atomic_store_n(&gm_stats->suspended.context, whole, __ATOMIC_RELAXED);
    if (!status)
        gm_format(text, sizeof text, "%llu MiB %s the device in %llu ms", (unsigned long long)bytes >> 20,
                  leaves ? "left" : "came back to",
                  (unsigned long long)(bytes ? leaves ? seen->out_ns : seen->in_ns : 0) / 1000000);
    answer(number, text, status != GM_OK);
}

static void suspend_idle(void) {
    static int once;
    uint64_t idle_ns = gm_option_number(GM_OPT_SUSPEND_IDLE);
    const struct gm_suspend_wish wish = {0};
    char why[GM_SUSPEND_WHY];
    uint64_t now = gm_now_ns(), since = gm_suspend_idle_since();
    if (!idle_ns || gm_suspend_is_asleep() || now < since + idle_ns)
        return;
    if (gm_suspend(&wish, NULL, why))
        gm_log_once(&once, GM_LOG_WARN, "GPUMEM_SUSPEND_IDLE: the process cannot be suspended now: %s", why);
}

/* Another process waits for the card. What the user has put to sleep until a resume stays so. */
static void leave_card(void) {
    static int once;
    const struct gm_suspend_wish wish = {.wait = gm_suspend_waits()};
    char why[GM_SUSPEND_WHY];
    uint64_t bytes = 0;
    gm_share_seen(gm_suspend_idle_since());
    if (!gm_share_is_asked())
        return;
    gm_share_leaving();
    if (gm_suspend(&wish, &bytes, why))
        gm_log_once(&once, GM_LOG_WARN, "GPUMEM_SHARE: the process cannot leave the card now: %s", why);
    gm_share_answer(bytes);
}

static void *run(void *unused) {
    bool more = false;
    gm_mine.depth = 1;
    (void)gm_capture_relax();
    while (__atomic_load_n(&state, __ATOMIC_RELAXED) == WATCHES) {
        __atomic_store_n(&inside, true, __ATOMIC_SEQ_CST);
        if (__atomic_load_n(&state, __ATOMIC_SEQ_CST) == WATCHES) {
            serve_request();
            suspend_idle();
            leave_card();
            more = gm_suspend_tend();
        }
        __atomic_store_n(&inside, false, __ATOMIC_SEQ_CST);
        if (!more)
            gm_share_sleep(TICK_NS);
    }
    return unused;
}

/* Before the driver ends: it is not called any more. */
static void end(void) {
    uint64_t until = gm_now_ns() + MOST_NS;
    if (__atomic_exchange_n(&state, ENDED, __ATOMIC_SEQ_CST) == WATCHES)
        while (__atomic_load_n(&inside, __ATOMIC_SEQ_CST) && gm_now_ns() < until)
            gm_sleep(TICK_NS / 20);
}

void gm_suspender_begin(void) {
    static bool registered;
    int none = NO_THREAD;
    if (!gm_suspend_is_on() || __atomic_load_n(&state, __ATOMIC_RELAXED) != NO_THREAD)
        return;
    gm_suspend_share();
    if (!__atomic_exchange_n(&registered, true, __ATOMIC_RELAXED) && atexit(end))
        __atomic_store_n(&state, ENDED, __ATOMIC_RELAXED);
    if (__atomic_compare_exchange_n((int *)&state, &none, WATCHES, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED) &&
        gm_thread_start(run, NULL))
        __atomic_store_n(&state, ENDED, __ATOMIC_RELAXED);
}

void gm_suspender_after_fork(void) {
    inside = false;
    if (state == WATCHES)
        state = NO_THREAD;
}
