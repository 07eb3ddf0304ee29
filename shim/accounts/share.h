/* A card that several processes share (GPUMEM_SHARE): each of them may use all of it, and where it is too small for
 * all, the memory of some is away (shim/suspend/suspend.h). They are members of a group (group.h) and have places in
 * its file. There is no daemon.
 *
 * A member that finds no memory waits in a row. Who waits longest is served first, and asks one other member at a time
 * to leave the card:
 *     1. one that is asleep and still holds memory, or waits itself
 *     2. the one that has submitted no work for longest
 *     3. the one that has the card for longest
 * Members of 2 and 3 keep the card for a least time after they came: GPUMEM_SHARE_QUANTUM, and four times what it took
 * to come. So two busy members alternate, and do so less often where their memory takes long to move. A thread of the
 * member answers (shim/start/suspender.h). It waits for no thread that waits here.
 *
 * No wait is without an end. Whoever is served first and finds nothing for eight quanta and GM_SHARE_PATIENCE_NS gives
 * up. Time in which a member leaves, or keeps its least time, does not count, up to GM_SHARE_MOST_NS and to the third
 * answer that releases nothing. A member that was killed or stopped is waited for no longer.
 *
 * Any thread may call these functions, with no lock held. They do nothing while the process is in no group. */
#ifndef GM_ACCOUNTS_SHARE_H
#define GM_ACCOUNTS_SHARE_H

#include "shim/accounts/group_file.h"

#define GM_SHARE_PATIENCE_NS 2000000000ull
#define GM_SHARE_MOST_NS     600000000000ull

/* ---- a member: this process */

/* False: *why is the reason. The child of a fork is in no group. */
GM_INTERNAL bool gm_share_join(const char *name, uint64_t quantum_ns, const char **why);
GM_INTERNAL bool gm_share_is_on(void);

/* Bytes of a device that can leave, and that have left, change by so many. */
GM_INTERNAL void gm_share_count(int device, int64_t holds, int64_t away);
/* The member is there, and has submitted no work since then. */
GM_INTERNAL void gm_share_seen(uint64_t idle_since_ns);
/* All has left, or all is back; the latter after so many nanoseconds of moving. */
GM_INTERNAL void gm_share_asleep(void);
GM_INTERNAL void gm_share_awake(uint64_t moved_ns);

/* Another member waits, and has asked this one to leave. */
GM_INTERNAL bool gm_share_is_asked(void);
/* Around the work for an answer. */
GM_INTERNAL void gm_share_leaving(void);
GM_INTERNAL void gm_share_answer(uint64_t released);
/* Sleeps until something changes in the group, or `ns` have passed. */
GM_INTERNAL void gm_share_sleep(uint64_t ns);

/* ---- what is shown */

/* Bytes of the device that other members can give up, less those of this process that are away: what the process sees
 * as free beside the free memory of the card. */
GM_INTERNAL int64_t gm_share_room(int device);
struct gm_share_holder {
    int pid;
    uint64_t holds;
    bool waits;
};
/* The other members that hold memory of the device which can leave. Returns how many there are; `out` has the first
 * `room`. */
GM_INTERNAL unsigned gm_share_holders(int device, struct gm_share_holder *out, unsigned room);

/* ---- waits for memory: between begin and end, each true of next is one attempt to get it. Other threads of the
 * process that wait come after this one. */

struct gm_share_wait {
    int device;                   /* -1: not known yet; the caller may set it after an attempt */
    bool tried;                   /* an attempt has failed */
    bool met;                     /* a member held memory of the device */
    bool in_row, keeps;           /* the process waits in the row, and keeps its place for some time after the end */
    uint64_t released;            /* by members of the group, as of the latest attempt */
    uint64_t first_ns;            /* since when it is the first of the row; 0 = it is not */
    struct gm_share_place *asked; /* to leave; NULL: nobody, or it has answered */
    unsigned refusals;            /* answers that released nothing */
    uint64_t until_ns;            /* nothing else helps: gives up then; 0 = another one is served first */
    uint64_t attempt_ns;          /* of the latest attempt */
};
GM_INTERNAL void gm_share_begin(struct gm_share_wait *wait, int device, bool tried);
GM_INTERNAL bool gm_share_next(struct gm_share_wait *wait);
/* `got`: this process has the card now. */
GM_INTERNAL void gm_share_end(struct gm_share_wait *wait, bool got);

/* Waits until a member has left the card. The caller keeps its place in the row for some time, to make one attempt.
 * False: nothing would help. */
GM_INTERNAL bool gm_share_ask(int device);

#endif
