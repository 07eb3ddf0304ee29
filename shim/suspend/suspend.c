/* One thread at a time moves the process between awake and asleep (suspend.h). */
#include "shim/suspend/suspend.h"

#include <string.h>

#include "shim/base/events.h"
#include "shim/base/file.h"
#include "shim/base/futex.h"
#include "shim/accounts/share.h"
#include "shim/base/options.h"
#include "shim/accounts/stats.h"
#include "shim/driver/internal_stream.h"
#include "shim/driver/transports.h"
#include "shim/explain/account.h"
#include "shim/pipeline/phase.h"
#include "shim/resource/suspendable_memory.h"
#include "shim/suspend/finish.h"
#include "shim/suspend/kept.h"
#include "shim/suspend/moving.h"
#include "shim/suspend/select.h"
#include "shim/suspend/submissions.h"
#include "shim/trace/writer.h"

enum { POLL_NS = 50000 };
#define PATIENCE_NS   10000000000ull
#define AGAIN_NS      250000000 /* between two attempts of a held call */
#define IDLE_NS       1000000ull
#define IDLE_AGAIN_NS 1000000000ull /* between two attempts to find nothing at work */

static bool on;
static uint32_t asleep; /* what held calls sleep on */
static bool waits;      /* they wait for gm_resume */
static uint32_t turn;   /* a thread suspends or resumes */
static bool said;       /* why a resume does not succeed; for this sleep */
GM_ZERO_IN_CHILD(asleep);
GM_ZERO_IN_CHILD(turn);

bool gm_suspend_is_on(void) { return on; }
bool gm_suspend_is_asleep(void) { return __atomic_load_n(&asleep, __ATOMIC_ACQUIRE); }
bool gm_suspend_waits(void) { return gm_suspend_is_asleep() && __atomic_load_n(&waits, __ATOMIC_RELAXED); }
uint64_t gm_suspend_idle_since(void) { return gm_submissions_idle_since(); }

static void take_turn(void) {
    while (__atomic_exchange_n(&turn, 1, __ATOMIC_ACQUIRE))
        gm_futex_wait(&turn, 1, NULL);
}

static void end_turn(void) {
    __atomic_store_n(&turn, 0, __ATOMIC_RELEASE);
    gm_futex_wake(&turn);
}

static gm_status refuse(char *why, gm_status status, const char *text) {
    gm_format(why, GM_SUSPEND_WHY, "%s", text);
    return status;
}

/* For gpumem top. Returns whether anything is away that calls wait for. */
static bool publish(void) {
    struct gm_stats_suspended *shown = &gm_stats->suspended;
    uint64_t stored = 0, kept = 0;
    bool awaited = false;
    for (const struct gm_suspendable_range *range = gm_suspendable_first(); range; range = range->next) {
        awaited |= range->away && !range->aside;
        *(range->away ? &stored : &kept) += range->backing ? gm_backing_stored(range->backing) : 0;
    }
    __atomic_store_n(&shown->stored, stored, __ATOMIC_RELAXED);
    __atomic_store_n(&shown->kept, kept, __ATOMIC_RELAXED);
    return awaited;
}

static void count_move(bool out, uint64_t ns) {
    struct gm_stats_suspended *shown = &gm_stats->suspended;
    __atomic_add_fetch(out ? &shown->suspends : &shown->resumes, 1, __ATOMIC_RELAXED);
    __atomic_store_n(out ? &shown->out_ns : &shown->in_ns, ns, __ATOMIC_RELAXED);
}

/* `begin`: when it was asked for. */
static void record(enum gm_action action, uint64_t begin, uint64_t bytes, gm_status status, const char *why) {
    struct gm_event event;
    uint64_t took = gm_now_ns() - begin;
    if (!gm_trace_is_on())
        return;
    gm_event_fill(&event, gm_trace_sequence(), begin, action, GM_KIND_NATIVE, -1);
    event.bytes = bytes;
    event.duration_ns = took < UINT32_MAX ? (uint32_t)took : UINT32_MAX;
    event.result = (uint16_t)status;
    event.site = status ? gm_phase_written(gm_phase_text(why, strlen(why))) : 0;
    if (action == GM_ACT_SUSPEND && !status) {
        event.stream = gm_moved_dropped();
        for (unsigned i = 0; i < GM_STATS_STAYED; i++)
            event.address += gm_stats->suspended.stayed[i].bytes;
    }
    gm_trace_event(&event);
}

static void set_asleep(bool value) {
    const struct gm_stats_suspended *seen = &gm_stats->suspended;
    if (value)
        gm_share_asleep();
    else if (gm_suspend_is_asleep())
        gm_share_awake(seen->out_ns + seen->in_ns);
    __atomic_store_n(&asleep, value, __ATOMIC_RELEASE);
    __atomic_store_n(&gm_stats->suspended.asleep, value, __ATOMIC_RELAXED);
}

/* The thread need not have a context. */
static bool ask_card(int device, struct gm_card *card) {
    struct gm_context_held held;
    struct gm_context context;
    if (!gm_context_on(device, &context) || gm_context_enter_held(context.handle, context.id, &held))
        return false;
    bool known = GM_ASK(card_asked, &device, true, card) && card->total;
    gm_context_leave_held(&held);
    return known;
}

/* Who has the memory that a resume lacks. */
static void name_holders(int device, char *why) {
    enum { SHOWN = 4 };
    struct gm_share_holder holders[SHOWN];
    struct gm_size_text size[2];
    struct gm_card card = {0};
    unsigned count = gm_share_holders(device, holders, SHOWN);
    uint64_t members = 0;
    int length = gm_format(why, GM_SUSPEND_WHY, "the device has too little free memory");
    bool known = ask_card(device, &card);
    if (known)
        length += gm_format(why + length, GM_SUSPEND_WHY - (size_t)length, ": %s of %s are free",
                            gm_size_text(&size[0], card.free), gm_size_text(&size[1], card.total));
    for (unsigned i = 0; i < count && i < SHOWN && length < GM_SUSPEND_WHY; i++) {
        members += holders[i].holds;
        length += gm_format(why + length, GM_SUSPEND_WHY - (size_t)length, "%s process %d holds %s",
                            known || i ? "," : ":", holders[i].pid, gm_size_text(&size[0], holders[i].holds));
    }
    if (known && card.own && card.total - card.free > card.own + members && length < GM_SUSPEND_WHY)
        gm_format(why + length, GM_SUSPEND_WHY - (size_t)length, ", others %s",
                  gm_size_text(&size[0], card.total - card.free - card.own - members));
}

static void explain_resume(gm_status status, unsigned other, char *why) {
    int error = gm_kept_file_error();
    if (other)
        gm_format(why, GM_SUSPEND_WHY, "%u pages came back with other contents than they left with", other);
    else if (status == CUDA_ERROR_OPERATING_SYSTEM && error)
        gm_format(why, GM_SUSPEND_WHY, "the file with the contents cannot be read: %s", gm_errno_text(error));
    else if (status == GM_OUT_OF_MEMORY)
        name_holders(gm_moved_lacks(), why);
    else
        gm_format(why, GM_SUSPEND_WHY, "the driver answers %d", status);
}

/* It is this thread's turn. */
static gm_status resume_now(const char *glob, bool aside, uint64_t *bytes, char *why) {
    uint64_t begin = gm_now_ns();
    unsigned other;
    gm_suspendable_lock();
    gm_select_back(glob, aside);
    gm_status status = gm_move_back(bytes, &other);
    bool away = publish();
    gm_suspendable_unlock();
    if (status)
        explain_resume(status, other, why);
    else
        count_move(false, gm_now_ns() - begin);
    if (!status || !__atomic_load_n(&said, __ATOMIC_RELAXED)) /* a held call tries it again and again */
        record(GM_ACT_RESUME, begin, *bytes, status, why);
    if (!away && gm_suspend_is_asleep()) {
        set_asleep(false);
        gm_submissions_open();
        gm_futex_wake(&asleep);
    }
    return status;
}

static bool any_away(void) { return __atomic_load_n(&gm_stats->suspended.away, __ATOMIC_RELAXED); }

/* `aside`: what was set aside comes back, too. */
static gm_status resume(const char *glob, bool aside, uint64_t *bytes, char why[GM_SUSPEND_WHY]) {
    uint64_t back = 0;
    gm_status status = GM_OK;
    if (!on)
        return refuse(why, GM_NOT_SUPPORTED, "GPUMEM_SUSPEND is not on");
    take_turn();
    if (gm_suspend_is_asleep() || any_away())
        status = resume_now(glob, aside, &back, why);
    end_turn();
    if (bytes)
        *bytes = back;
    return status;
}

static gm_status resume_in_row(const char *glob, bool aside, uint64_t *bytes, char why[GM_SUSPEND_WHY]) {
    struct gm_share_wait wait;
    gm_status status = GM_OUT_OF_MEMORY;
    if (!gm_share_is_on() || !gm_suspend_is_asleep())
        return resume(glob, aside, bytes, why);
    gm_format(why, GM_SUSPEND_WHY, "the group of GPUMEM_SHARE does not answer");
    gm_share_begin(&wait, -1, false);
    while (status == GM_OUT_OF_MEMORY && gm_share_next(&wait)) {
        status = resume(glob, aside, bytes, why);
        wait.device = gm_moved_lacks();
    }
    gm_share_end(&wait, !status);
    return status;
}

gm_status gm_resume(const char *glob, uint64_t *bytes, char why[GM_SUSPEND_WHY]) {
    return resume(glob, true, bytes, why);
}

gm_status gm_resume_in_row(const char *glob, uint64_t *bytes, char why[GM_SUSPEND_WHY]) {
    return resume_in_row(glob, true, bytes, why);
}

/* A submitting call is held: the first one resumes, unless the suspend says otherwise. */
static void held(void) {
    const struct timespec again = {.tv_nsec = AGAIN_NS};
    char why[GM_SUSPEND_WHY];
    int depth = gm_mine.depth;
    gm_status status = GM_OK;
    gm_mine.depth = 1;
    gm_cancel_hold();
    if (gm_suspend_is_asleep() && !__atomic_load_n(&waits, __ATOMIC_RELAXED) &&
        (status = resume_in_row(NULL, false, NULL, why)) != GM_OK &&
        !__atomic_exchange_n(&said, true, __ATOMIC_RELAXED))
        gm_log(GM_LOG_WARN, "the suspended process cannot resume yet: %s; it tries again four times a second", why);
    if (gm_submissions_are_closed()) {
        if (gm_suspend_is_asleep())
            gm_futex_wait(&asleep, 1, &again);
        else
            gm_sleep(POLL_NS); /* a suspend has begun */
    }
    gm_cancel_release();
    gm_mine.depth = (__typeof__(gm_mine.depth))depth;
}

void gm_submission_begin(void) {
    while (GM_UNLIKELY(!gm_submission_try()))
        held();
}

void gm_submission_awaits_memory(bool begins) {
    struct gm_submissions_mine *self = &gm_submissions_mine;
    uint8_t counted = begins ? self->inside : self->paused;
    self->paused = begins ? counted : 0;
    if (!counted)
        return;
    if (begins) {
        self->inside = 1;
        gm_submission_end();
    } else {
        gm_submission_begin();
        self->inside = counted;
    }
}

/* ---- suspend */

static const char *refusal(void) {
    return !on                          ? "GPUMEM_SUSPEND is not on"
           : gm_submissions_mine.inside ? "it is called from inside a call of the driver"
           : gm_rdma_in_process()       ? "memory of the process may be registered with a network card"
                                        : NULL;
}

gm_status gm_suspend(const struct gm_suspend_wish *wish, uint64_t *bytes, char why[GM_SUSPEND_WHY]) {
    uint64_t left = 0, patience = wish->patience_ns ? wish->patience_ns : PATIENCE_NS;
    const char *refused = refusal();
    if (refused)
        return refuse(why, GM_NOT_SUPPORTED, refused);
    take_turn();
    uint64_t asked = gm_now_ns();
    bool was_asleep = gm_suspend_is_asleep();
    gm_submissions_close();
    gm_status status = gm_finish_work(gm_now_ns() + patience, why);
    if (!status) {
        uint64_t begin = gm_now_ns();
        gm_suspendable_lock();
        status = gm_move_out(wish, &left, why);
        bool sleeps = publish() || (!status && !wish->aside);
        if (!status)
            count_move(true, gm_now_ns() - begin);
        gm_suspendable_unlock();
        if (!status && !wish->aside)
            __atomic_store_n(&waits, wish->wait, __ATOMIC_RELAXED);
        __atomic_store_n(&said, false, __ATOMIC_RELAXED);
        set_asleep(sleeps);
        was_asleep = sleeps;
    }
    record(GM_ACT_SUSPEND, asked, left, status, why);
    if (!was_asleep)
        gm_submissions_open();
    end_turn();
    if (bytes)
        *bytes = left;
    return status;
}

/* ---- memory of the host */

/* Holds calls for a moment, in which nothing runs on the device. False: something does, or the driver can only wait. */
static bool begin_idle(void) {
    char why[GM_SUSPEND_WHY];
    if (!gm_drv.ctx_record_event)
        return gm_suspend_is_asleep();
    gm_submissions_close();
    bool idle = gm_suspend_is_asleep() || !gm_finish_work(gm_now_ns() + IDLE_NS, why);
    if (!idle)
        gm_submissions_open();
    return idle;
}

bool gm_suspend_tend(void) {
    static uint64_t again;
    if (__atomic_exchange_n(&turn, 1, __ATOMIC_ACQUIRE))
        return false;
    bool tries = gm_backing_waits() && gm_now_ns() >= again, idle = tries && begin_idle();
    if (tries && !idle)
        again = gm_now_ns() + IDLE_AGAIN_NS;
    bool more = gm_kept_tend(idle);
    if (idle && !gm_suspend_is_asleep())
        gm_submissions_open();
    end_turn();
    return more;
}

/* ---- life */

void gm_suspend_share(void) {
    const char *name = gm_option_text(GM_OPT_SHARE), *why;
    if (on && *name && !gm_share_is_on() && !gm_share_join(name, gm_option_number(GM_OPT_SHARE_QUANTUM), &why))
        gm_log(GM_LOG_ERROR, "%s=%s: the group %s; this process shares no device", gm_option_label(GM_OPT_SHARE).text,
               name, why);
}

bool gm_suspend_start(bool excluded) {
    if (!gm_option_bool(GM_OPT_SUSPEND) && !*gm_option_text(GM_OPT_SHARE))
        return false;
    if (excluded) {
        gm_log(GM_LOG_WARN,
               "%s: not together with GPUMEM_GUARD, GPUMEM_FILL and GPUMEM_GROW, which work on memory "
               "themselves: it is off",
               gm_option_label(gm_option_bool(GM_OPT_SUSPEND) ? GM_OPT_SUSPEND : GM_OPT_SHARE).text);
        return false;
    }
    on = true;
    gm_stats->suspended.on = 1;
    gm_watch_set(GM_WATCH_SUSPENDS, true);
    gm_suspend_share();
    return true;
}

void gm_suspend_after_fork(void) { said = waits = false; }
