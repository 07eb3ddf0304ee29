/* Members that share a card: who is asked to leave, who is served first, and when a wait ends. */
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/test.h"

#include "shim/accounts/group.h"
#include "shim/accounts/share.h"
#include "shim/base/events.h"

enum { DEVICE = 0, OTHER = 1, MEMBERS = 4 };
#define MS ((uint64_t)1000000)

static char name[32];
static struct seen {
    int asked, served; /* in which order, from 1 on */
} * seen;              /* of each member; the children write it */
static int *events;
static pid_t members[MEMBERS];

static bool find_uuid(int device, unsigned char uuid[16]) {
    memcpy(uuid, "test of share\0\0\0", 16);
    uuid[15] = (unsigned char)device;
    return true;
}

struct role {
    int device;
    uint64_t quantum_ns;
    bool idle, asleep, refuses, waits;
};

static void answer(int number, const struct role *role) {
    if (!gm_share_is_asked())
        return;
    gm_share_leaving();
    seen[number].asked = __atomic_add_fetch(events, 1, __ATOMIC_SEQ_CST);
    if (role->refuses)
        usleep(300000);
    else
        gm_share_count(role->device, -100, 100);
    gm_share_answer(role->refuses ? 0 : 100);
}

static void wait_in_row(int number, const struct role *role) {
    struct gm_share_wait wait;
    gm_share_begin(&wait, role->device, false);
    if (gm_share_next(&wait))
        seen[number].served = __atomic_add_fetch(events, 1, __ATOMIC_SEQ_CST);
    gm_share_end(&wait, true);
}

/* A process that holds 100 bytes and answers, or waits. */
static void member(int number, struct role role) {
    int ready[2];
    char byte;
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    if (!child) {
        const char *why;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        gm_fork_zero();
        uint64_t since = gm_now_ns();
        if (!gm_share_join(name, role.quantum_ns, &why))
            _exit(1);
        gm_share_count(role.device, 100, 0);
        if (role.asleep)
            gm_share_asleep();
        if (write(ready[1], "x", 1) != 1)
            _exit(1);
        if (role.waits)
            wait_in_row(number, &role);
        for (;;) {
            gm_share_seen(role.idle ? since : gm_now_ns());
            answer(number, &role);
            gm_share_sleep(5 * MS);
        }
    }
    assert_true(child > 0);
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    members[number] = child;
}

static void end_all(void) {
    for (int i = 0; i < MEMBERS; i++) {
        if (members[i]) {
            kill(members[i], SIGKILL);
            waitpid(members[i], NULL, 0);
        }
        members[i] = 0;
        seen[i] = (struct seen){0};
    }
    *events = 0;
}

/* Asks until so many members have left. */
static void leave(int count) {
    struct gm_share_wait wait;
    gm_share_begin(&wait, DEVICE, true);
    while (__atomic_load_n(events, __ATOMIC_SEQ_CST) < count)
        assert_true(gm_share_next(&wait));
    gm_share_end(&wait, true);
}

TEST(nobody_else) {
    struct gm_share_wait wait;
    uint64_t before = gm_now_ns();
    gm_share_begin(&wait, DEVICE, false);
    assert_true(gm_share_next(&wait)); /* the one attempt */
    assert_false(gm_share_next(&wait));
    gm_share_end(&wait, false);
    assert_false(gm_share_ask(DEVICE));
    assert_true(gm_now_ns() - before < GM_SHARE_PATIENCE_NS);
}

TEST(who_leaves_first) {
    member(0, (struct role){.quantum_ns = MS});
    member(1, (struct role){.quantum_ns = MS});
    member(2, (struct role){.quantum_ns = MS, .idle = true});
    member(3, (struct role){.quantum_ns = 3600000 * MS, .asleep = true});
    usleep(400000); /* the third one counts as idle */
    leave(4);
    assert_int_equal(seen[3].asked, 1); /* whatever its quantum */
    assert_int_equal(seen[2].asked, 2);
    assert_int_equal(seen[0].asked, 3); /* it has the card for longest */
    assert_int_equal(seen[1].asked, 4);
    end_all();
}

TEST(a_member_keeps_its_least_time) {
    member(0, (struct role){.quantum_ns = 700 * MS, .idle = true});
    uint64_t before = gm_now_ns();
    leave(1);
    assert_true(gm_now_ns() - before > 500 * MS);
    end_all();
}

TEST(other_devices_do_not_count) {
    member(0, (struct role){.device = OTHER, .quantum_ns = MS});
    assert_false(gm_share_ask(DEVICE));
    assert_true(gm_share_ask(OTHER));
    assert_int_equal(gm_share_room(OTHER), 0);
    assert_int_equal(gm_share_room(DEVICE), 0);
    end_all();
}

/* The wait ends where nobody can leave. */
TEST(refused) {
    struct gm_share_holder holder;
    member(0, (struct role){.quantum_ns = MS, .refuses = true});
    assert_int_equal(gm_share_room(DEVICE), 100);
    assert_int_equal(gm_share_holders(DEVICE, &holder, 1), 1);
    assert_true(holder.pid == members[0] && holder.holds == 100);
    struct gm_share_wait wait;
    gm_share_begin(&wait, DEVICE, true);
    while (gm_share_next(&wait)) {
    }
    gm_share_end(&wait, false);
    assert_true(seen[0].asked > 0);
    end_all();
}

/* A later one is asked while it waits, and served after the first one. */
TEST(who_waits_longest_is_served_first) {
    struct gm_share_wait wait;
    member(0, (struct role){.quantum_ns = 500 * MS});
    gm_share_begin(&wait, DEVICE, true);
    member(1, (struct role){.quantum_ns = 3600000 * MS, .waits = true});
    usleep(200000);
    assert_int_equal(seen[1].served, 0);
    gm_share_end(&wait, true);
    for (int i = 0; i < 400 && !__atomic_load_n(&seen[1].served, __ATOMIC_SEQ_CST); i++)
        usleep(5000);
    assert_int_equal(seen[1].served, 1);
    end_all();
}

/* One that is killed while it waits is in nobody's way. */
TEST(a_killed_member_leaves_the_row) {
    struct gm_share_wait wait;
    gm_share_begin(&wait, DEVICE, true);
    member(0, (struct role){.quantum_ns = MS, .waits = true});
    usleep(100000);
    gm_share_end(&wait, true);
    end_all();
    gm_share_begin(&wait, DEVICE, false);
    assert_true(gm_share_next(&wait));
    gm_share_end(&wait, true);
}

int main(void) {
    const char *why;
    gm_events.device_uuid = find_uuid;
    gm_format(name, sizeof name, "share-%d", (int)getpid());
    seen = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    events = (int *)(seen + MEMBERS);
    if (seen == MAP_FAILED || !gm_share_join(name, 50 * MS, &why))
        return 1;
    int status = run_all(NULL, NULL);
    struct gm_group_path path;
    if (gm_group_path(&path, GM_GROUP_IN_SHM, geteuid(), name))
        unlink(path.text);
    return status;
}
