#include "shim/start/untracked.h"

#include <stdlib.h>

#include "shim/accounts/stats.h"
#include "shim/explain/account.h"
#include "shim/pipeline/pipeline.h"
#include "shim/pipeline/sample.h"
#include "shim/start/card.h"

#define LEAST_STEP  ((uint64_t)32 << 20) /* growth of the peak between two measurements */
#define LEAST_NS    100000000u           /* time between two measurements */
#define LEAST_OF_NS 10000000u            /* the same when memory ran out, or at the end */
#define LEAST_TIMES 20u                  /* and so many times what the one before took */

static int busy;

/* ---- into the trace */

static void write_item(unsigned item, uint64_t value, const struct gm_account_pool *pool, void *device) {
    struct gm_event event;
    gm_event_fill(&event, gm_trace_sequence(), gm_now_ns(), GM_ACT_ACCOUNT, GM_KIND_NATIVE, *(const int *)device);
    event.site = item;
    event.bytes = value;
    event.address = pool->handle;
    event.stream = pool->used;
    gm_trace_event(&event);
}

/* `used`: bytes in use on the card. `flags`: of the event. */
static void note_untracked(int device, uint64_t bytes, uint64_t used, unsigned flags) {
    struct gm_stats_untracked *untracked = &gm_stats->untracked[device];
    __atomic_store_n(&untracked->bytes, bytes, __ATOMIC_RELAXED);
    gm_stats_raise(&untracked->peak, bytes);
    if (!gm_trace_is_on())
        return;
    struct gm_event event;
    gm_event_fill(&event, gm_trace_sequence(), gm_now_ns(), GM_ACT_UNTRACKED, GM_KIND_NATIVE, device);
    event.address = used;
    event.bytes = bytes;
    event.flags = (uint8_t)flags;
    gm_trace_event(&event);
}

static void publish(struct gm_account *shared, const struct gm_account *account) {
    __atomic_store_n(&shared->taken_ns, 0, __ATOMIC_RELAXED); /* a reader sees that it is not whole */
    __atomic_thread_fence(__ATOMIC_RELEASE);
    for (size_t i = 1; i < sizeof *account / sizeof(uint64_t); i++)
        __atomic_store_n((uint64_t *)shared + i, ((const uint64_t *)account)[i], __ATOMIC_RELAXED);
    __atomic_store_n(&shared->taken_ns, account->taken_ns, __ATOMIC_RELEASE);
}

static void note_account(const struct gm_account *account, int device, bool failed) {
    struct gm_stats_accounts *shared = &gm_stats->accounts[device];
    publish(&shared->latest, account);
    if (gm_account_is_fuller(account, failed, &shared->fullest, shared->failed))
        publish(&shared->fullest, account);
    if (failed)
        __atomic_store_n(&shared->failed, 1, __ATOMIC_RELAXED);
    const unsigned flags = (account->shared ? GM_EVENT_SHARED : 0u) | (failed ? GM_EVENT_LACK : 0u);
    note_untracked(device, account->rows[GM_ACCOUNT_CONTEXTS], account->total - account->rows[GM_ACCOUNT_FREE], flags);
    if (gm_trace_is_on())
        gm_account_each(account, write_item, &device);
}

/* ---- measurements */

static void note_held(int device, uint64_t in_pools) {
    uint64_t held[GM_REASON_COUNT] = {[GM_REASON_THRESHOLD] = in_pools};
    gm_pipeline_held(device, held);
    for (int why = 0; why < GM_REASON_COUNT; why++)
        if (held[why])
            gm_trace_amount(GM_ACT_HELD, GM_KIND_NATIVE, device, held[why], (enum gm_reason)why);
}

/* When the program exits. The driver may be gone, so only the management library is queried. */
static void measure_at_end(void) {
    if (__atomic_exchange_n(&busy, 1, __ATOMIC_ACQUIRE))
        return;
    for (int device = 0; device < GM_STATS_DEVICES; device++) {
        uint64_t own = gm_card_own_at_end(device);
        uint64_t seen = __atomic_load_n(&gm_stats->reserved_on[device], __ATOMIC_RELAXED) -
                        __atomic_load_n(&gm_stats->suspended.away_on[device], __ATOMIC_RELAXED) +
                        gm_stats->accounts[device].latest.rows[GM_ACCOUNT_POOLS];
        if (own)
            note_untracked(device, own > seen ? own - seen : 0, 0, 0);
    }
    __atomic_store_n(&busy, 0, __ATOMIC_RELEASE);
}

static void measure(int device, enum gm_moment moment) {
    static bool registered;
    struct gm_account account;
    bool failed = moment == GM_MOMENT_FAILED;
    if (!(failed ? gm_account_of_failure(device, &account) : gm_account_take(device, &account)))
        return;
    if (!account.shared && !registered)
        registered = !atexit(measure_at_end);
    note_account(&account, device, failed);
    note_held(device, account.rows[GM_ACCOUNT_POOLS]);
}

/* A viewer watches, or a trace or gpumem run will show it. */
static bool is_wanted(enum gm_moment moment, uint64_t *from) {
    *from = __atomic_load_n(&gm_pipeline_sample_from, __ATOMIC_RELAXED);
    return *from != UINT64_MAX || moment == GM_MOMENT_WATCHED || moment == GM_MOMENT_MOVED;
}

void gm_untracked_sample(int device, enum gm_moment moment) {
    static uint64_t latest, took, latest_peak;
    uint64_t from, now = gm_now_ns(), before = __atomic_load_n(&latest, __ATOMIC_RELAXED);
    uint64_t least = moment == GM_MOMENT_FAILED || moment == GM_MOMENT_ENDING ? LEAST_OF_NS : LEAST_NS;
    uint64_t busy_ns = __atomic_load_n(&took, __ATOMIC_RELAXED) * LEAST_TIMES;
    uint64_t peak = __atomic_load_n(&gm_stats->peak_reserved, __ATOMIC_RELAXED);
    /* What is explained must agree; and a program that grows fast has its largest size measured, within a half. */
    bool soon = moment == GM_MOMENT_MOVED || (moment == GM_MOMENT_FAILED && gm_account_is_awaited(device)) ||
                peak / 2 >= __atomic_load_n(&latest_peak, __ATOMIC_RELAXED);
    if (!is_wanted(moment, &from) || !gm_stats_knows(device) ||
        (before && !soon && now - before < (busy_ns > least ? busy_ns : least)) ||
        __atomic_exchange_n(&busy, 1, __ATOMIC_ACQUIRE))
        return;
    __atomic_store_n(&latest, now, __ATOMIC_RELAXED);
    __atomic_store_n(&latest_peak, peak, __ATOMIC_RELAXED);
    uint64_t step = peak / 8 > LEAST_STEP ? peak / 8 : LEAST_STEP;
    if (from == UINT64_MAX || __atomic_compare_exchange_n(&gm_pipeline_sample_from, &from, peak + step, false,
                                                          __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        measure(device, moment); /* not when the recording ended meanwhile */
    if (before)                  /* the first one loads the card's management library */
        __atomic_store_n(&took, gm_now_ns() - now, __ATOMIC_RELAXED);
    __atomic_store_n(&busy, 0, __ATOMIC_RELEASE);
}

void gm_untracked_setup(void) {
    if (gm_trace_is_on() || gm_pipeline_timed) /* a small program need not pay for the library's start */
        __atomic_store_n(&gm_pipeline_sample_from, LEAST_STEP, __ATOMIC_RELEASE);
}
