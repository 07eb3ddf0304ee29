/* Waits for memory of a card that is shared: the row of those that wait, and who is asked to leave (share.h). */
#include "shim/accounts/share.h"

#include "shim/accounts/share_parts.h"
#include "shim/accounts/stats.h"
#include "shim/base/events.h"
#include "shim/base/file.h"
#include "shim/base/futex.h"

#define TICK_NS    20000000ull    /* between two looks */
#define AGAIN_NS   250000000ull   /* between two attempts without a reason: others free memory, too */
#define IDLE_NS    200000000ull   /* a member that has submitted nothing for so long counts as idle */
#define BEGIN_NS   2000000000ull  /* the longest that a member takes to begin an answer */
#define LEAVING_NS 60000000000ull /* the longest that it may take to leave */
#define SETTLE_NS  1000000000ull  /* the driver gives back what a member had that was killed */
#define GRACE_NS   200000000ull   /* for the attempt of gm_share_ask */
#define QUANTA     8
#define REFUSALS   3

static uint32_t turn; /* one thread of the process waits in the row; others wait for it */
GM_ZERO_IN_CHILD(turn);

/* ---- the row */

static uint32_t devices_of(int device) {
    int number = gm_share_number(device);
    return number < 0 ? UINT32_MAX : 1u << number;
}

static bool is_before(const struct gm_share_place *place, const struct gm_share_place *other) {
    uint64_t since = GM_SHARE_READ(place, waits_since_ns), others = GM_SHARE_READ(other, waits_since_ns);
    return since != others ? since < others : place < other;
}

/* Nobody waits longer for such a device. */
static bool is_first(const struct gm_share_place *mine, int fd, uint64_t now) {
    for (int i = 0; i < GM_SHARE_PLACES; i++) {
        const struct gm_share_place *place = &gm_share_group->sharing[i];
        if (place != mine && GM_SHARE_READ(place, waits_for) & GM_SHARE_READ(mine, waits_for) &&
            gm_share_waits(place, now) && is_before(place, mine) && gm_share_lives(place, fd))
            return false;
    }
    return true;
}

/* ---- who leaves */

static bool is_within(uint64_t since, uint64_t ns, uint64_t now) { return now < since || now - since < ns; }

/* It was asked, and its answer may still come. */
static bool answers(const struct gm_share_place *place, uint64_t now) {
    uint64_t leaving = GM_SHARE_READ(place, leaving_ns);
    if (GM_SHARE_READ(place, asked) == GM_SHARE_READ(place, answered))
        return false;
    return leaving ? is_within(leaving, LEAVING_NS, now) : is_within(GM_SHARE_READ(place, asked_ns), BEGIN_NS, now);
}

/* Who goes first has the lowest rank, and of one rank the lowest time. */
struct order {
    int rank;
    uint64_t time;
};

static struct order order_of(const struct gm_share_place *place, uint64_t now) {
    uint64_t idle_since = GM_SHARE_READ(place, idle_since_ns);
    if (GM_SHARE_READ(place, asleep) || gm_share_waits(place, now))
        return (struct order){0, 0};
    return is_within(idle_since, IDLE_NS, now) ? (struct order){2, GM_SHARE_READ(place, since_ns)}
                                               : (struct order){1, idle_since};
}

static bool goes_before(struct order a, struct order b) { return a.rank != b.rank ? a.rank < b.rank : a.time < b.time; }

struct found {
    struct gm_share_place *victim; /* NULL: nobody can be asked now */
    bool any;                      /* a member holds memory */
    bool changes;                  /* one leaves, or its least time will be over */
};

static struct found find_victim(uint32_t devices, int fd, uint64_t now) {
    struct found found = {NULL};
    struct order best = {0, 0};
    for (int i = 0; i < GM_SHARE_PLACES; i++) {
        struct gm_share_place *place = &gm_share_group->sharing[i];
        uint64_t holds = 0;
        for (int number = 0; number < GM_GROUP_DEVICES; number++)
            holds += devices >> number & 1 ? GM_SHARE_READ(place, holds[number]) : 0;
        if (!holds || !gm_share_lives(place, fd))
            continue;
        struct order order = order_of(place, now);
        found.any = true;
        if (answers(place, now))
            return (struct found){NULL, true, true};
        if (order.rank && is_within(GM_SHARE_READ(place, since_ns), GM_SHARE_READ(place, least_ns), now)) {
            found.changes = true;
            continue;
        }
        bool can = GM_SHARE_READ(place, asked) == GM_SHARE_READ(place, answered) &&
                   now >= GM_SHARE_READ(place, refuses_until_ns);
        if (can && (!found.victim || goes_before(order, best))) {
            found.victim = place;
            best = order;
        }
    }
    return found;
}

static void ask_to_leave(struct gm_share_place *place, uint64_t now) {
    GM_SHARE_WRITE(place, asked_ns, now);
    __atomic_add_fetch(&place->asked, 1, __ATOMIC_SEQ_CST);
    gm_shared_raise(&gm_share_group->changes);
}

/* ---- a wait */

static uint64_t released(void) { return __atomic_load_n(&gm_share_group->released, __ATOMIC_SEQ_CST); }

void gm_share_begin(struct gm_share_wait *wait, int device, bool tried) {
    struct gm_share_place *mine = gm_share_mine();
    *wait = (struct gm_share_wait){.device = device, .tried = tried};
    if (!mine)
        return;
    GM_PUBLISH(memory_awaited, true);
    while (__atomic_exchange_n(&turn, 1, __ATOMIC_ACQUIRE))
        gm_futex_wait(&turn, 1, NULL);
    wait->released = released();
    wait->in_row = true;
    GM_SHARE_WRITE(mine, seen_ns, gm_now_ns());
    GM_SHARE_WRITE(mine, waits_for, devices_of(device));
    GM_SHARE_WRITE(mine, waits_until_ns, UINT64_MAX);
    GM_SHARE_WRITE(mine, waits_since_ns, gm_now_ns());
    __atomic_store_n(&gm_stats->shared.waits_since_ns, gm_now_ns(), __ATOMIC_RELAXED);
}

void gm_share_end(struct gm_share_wait *wait, bool got) {
    struct gm_share_place *mine = gm_share_mine();
    if (!wait->in_row)
        return;
    if (mine && got)
        GM_SHARE_WRITE(mine, since_ns, gm_now_ns());
    if (mine && !wait->keeps)
        GM_SHARE_WRITE(mine, waits_since_ns, 0);
    if (mine)
        gm_shared_raise(&gm_share_group->changes);
    __atomic_add_fetch(&gm_stats->shared.waited_ns, gm_now_ns() - gm_stats->shared.waits_since_ns, __ATOMIC_RELAXED);
    __atomic_store_n(&gm_stats->shared.waits_since_ns, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&turn, 0, __ATOMIC_RELEASE);
    gm_futex_wake(&turn);
    GM_PUBLISH(memory_awaited, false);
}

enum step { LOOK_AGAIN, ATTEMPT, GIVE_UP };

static void note_answer(struct gm_share_wait *wait) {
    if (!wait->asked || GM_SHARE_READ(wait->asked, asked) != GM_SHARE_READ(wait->asked, answered))
        return;
    wait->refusals += released() == wait->released;
    wait->asked = NULL;
}

/* Time that passes now does not count. */
static bool is_patient(const struct gm_share_wait *wait, const struct found *found, uint64_t now) {
    return found->changes && wait->refusals < REFUSALS && is_within(wait->first_ns, GM_SHARE_MOST_NS, now);
}

/* This process is the first of the row. */
static enum step step_of_first(struct gm_share_wait *wait, const struct gm_share_place *mine, int fd, uint64_t now) {
    uint64_t patience = QUANTA * gm_share_quantum_ns + GM_SHARE_PATIENCE_NS, left = released();
    struct found found = find_victim(GM_SHARE_READ(mine, waits_for), fd, now);
    bool was_met = wait->met;
    wait->met |= found.any;
    note_answer(wait);
    if (!wait->first_ns)
        wait->first_ns = now;
    if (!wait->until_ns || is_patient(wait, &found, now))
        wait->until_ns = now + patience;
    if (!wait->tried || left != wait->released) {
        wait->released = left;
        return ATTEMPT;
    }
    if (found.victim) {
        ask_to_leave(found.victim, now);
        wait->asked = found.victim;
    }
    if (!found.any && (!was_met || wait->until_ns > now + SETTLE_NS)) /* the last one has left, or was killed */
        wait->until_ns = was_met ? now + SETTLE_NS : now;
    if (now >= wait->until_ns)
        return GIVE_UP;
    return is_within(wait->attempt_ns, AGAIN_NS, now) ? LOOK_AGAIN : ATTEMPT;
}

bool gm_share_next(struct gm_share_wait *wait) {
    enum step step = LOOK_AGAIN;
    while (step == LOOK_AGAIN) {
        struct gm_share_place *mine = gm_share_mine();
        int fd = mine && wait->in_row ? gm_share_open() : -1;
        uint64_t now = gm_now_ns();
        if (fd < 0)
            break;
        uint32_t seen = __atomic_load_n(&gm_share_group->changes, __ATOMIC_SEQ_CST);
        GM_SHARE_WRITE(mine, waits_for, devices_of(wait->device));
        GM_SHARE_WRITE(mine, seen_ns, now);
        if (is_first(mine, fd, now))
            step = step_of_first(wait, mine, fd, now);
        gm_close(fd);
        if (step == LOOK_AGAIN)
            gm_shared_sleep(&gm_share_group->changes, seen, TICK_NS);
        else
            wait->attempt_ns = now;
    }
    bool once = step == LOOK_AGAIN && !wait->tried; /* there is no group any more */
    wait->tried = true;
    return step == ATTEMPT || once;
}

bool gm_share_ask(int device) {
    struct gm_share_wait wait;
    if (!gm_share_is_on())
        return false;
    gm_share_begin(&wait, device, true);
    uint64_t before = wait.released;
    while (wait.released == before && gm_share_next(&wait)) {
    }
    struct gm_share_place *mine = gm_share_mine();
    wait.keeps = mine && wait.met;
    if (wait.keeps)
        GM_SHARE_WRITE(mine, waits_until_ns, gm_now_ns() + GRACE_NS);
    gm_share_end(&wait, wait.released != before);
    return wait.met;
}
