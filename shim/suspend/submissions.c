/* Counts in slots that few threads share (submissions.h). A call raises its slot before it looks whether the entries
 * are closed, and whoever closes them looks at the slots afterwards: one of the two sees the other. */
#include "shim/suspend/submissions.h"

#include "shim/base/file.h"

enum { SLOTS = 64, POLL_NS = 20000 };

static struct slot {
    int64_t inside;
    uint64_t begun;
} __attribute__((aligned(64))) slots[SLOTS];
static bool closed;
GM_ZERO_IN_CHILD(slots);
GM_ZERO_IN_CHILD(closed);

__thread struct gm_submissions_mine gm_submissions_mine __attribute__((tls_model("initial-exec")));

static struct slot *my_slot(void) {
    if (GM_UNLIKELY(!gm_submissions_mine.slot))
        gm_submissions_mine.slot = (uint16_t)(1 + (unsigned)gm_thread_id() % SLOTS);
    return &slots[gm_submissions_mine.slot - 1];
}

bool gm_submission_try(void) {
    struct slot *slot = my_slot();
    if (gm_submissions_mine.inside) {
        gm_submissions_mine.inside++;
        return true;
    }
    __atomic_fetch_add(&slot->inside, 1, __ATOMIC_SEQ_CST);
    if (GM_UNLIKELY(__atomic_load_n(&closed, __ATOMIC_SEQ_CST))) {
        __atomic_fetch_sub(&slot->inside, 1, __ATOMIC_SEQ_CST);
        return false;
    }
    gm_submissions_mine.inside = 1;
    __atomic_store_n(&slot->begun, slot->begun + 1, __ATOMIC_RELAXED); /* a lost count is of no harm */
    return true;
}

/* In the child of a fork a call that the parent began ends. */
void gm_submission_end(void) {
    struct slot *slot = my_slot();
    if (!gm_submissions_mine.inside || --gm_submissions_mine.inside)
        return;
    __atomic_fetch_sub(&slot->inside, 1, __ATOMIC_RELEASE);
}

void gm_submissions_close(void) { __atomic_store_n(&closed, true, __ATOMIC_SEQ_CST); }
void gm_submissions_open(void) { __atomic_store_n(&closed, false, __ATOMIC_SEQ_CST); }
bool gm_submissions_are_closed(void) { return __atomic_load_n(&closed, __ATOMIC_ACQUIRE); }

bool gm_submissions_wait(uint64_t until_ns) {
    for (unsigned i = 0; i < SLOTS; i++)
        while (__atomic_load_n(&slots[i].inside, __ATOMIC_SEQ_CST) > 0) {
            if (gm_now_ns() >= until_ns)
                return false;
            gm_sleep(POLL_NS);
        }
    return true;
}

uint64_t gm_submissions_idle_since(void) {
    static uint64_t seen, since;
    uint64_t begun = 0;
    int64_t inside = 0;
    for (unsigned i = 0; i < SLOTS; i++) {
        begun += __atomic_load_n(&slots[i].begun, __ATOMIC_RELAXED);
        inside += __atomic_load_n(&slots[i].inside, __ATOMIC_RELAXED);
    }
    if (begun != seen || inside || !since) {
        seen = begun;
        since = gm_now_ns();
    }
    return since;
}
