/* The file of loans: places, questions and answers of processes that live, ended or were killed. */
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/test.h"

#include "shim/base/events.h"
#include "shim/accounts/group.h"
#include "shim/accounts/limit.h"
#include "shim/accounts/loans.h"

enum { DEVICE = 0, PLACES = 128, BITS = 64 };

static int other; /* another device, of the same bit in the file */

/* No device of this machine. */
static bool find_uuid(int device, unsigned char uuid[16]) {
    memcpy(uuid, "test of loans\0\0\0", 16);
    memcpy(uuid + 12, &device, sizeof device);
    return true;
}

/* A process that lends `released` bytes for each question, or ends at once, when it has a place. */
static pid_t lender(bool ends, uint64_t released) {
    int ready[2];
    char byte;
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    if (!child) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        gm_loans_after_fork();
        if (!gm_loans_join())
            _exit(1);
        if (ends)
            _exit(0);
        gm_loans_lend(DEVICE);
        if (write(ready[1], "x", 1) != 1)
            _exit(1);
        for (;;) {
            gm_loans_sleep(1000000000);
            if (gm_loans_asked())
                gm_loans_answer(released);
        }
    }
    assert_true(child > 0);
    close(ready[1]);
    if (ends) {
        int status = 0;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    } else {
        assert_int_equal(read(ready[0], &byte, 1), 1);
    }
    close(ready[0]);
    return child;
}

static void end(pid_t child) {
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

TEST(nobody_lends) { assert_false(gm_loans_ask(DEVICE)); }

TEST(answers) {
    pid_t first = lender(false, 0);
    assert_false(gm_loans_ask(DEVICE));
    pid_t second = lender(false, 4096);
    assert_true(gm_loans_ask(DEVICE));
    assert_true(gm_loans_ask(DEVICE));
    end(second);
    assert_false(gm_loans_ask(DEVICE));
    end(first);
    assert_false(gm_loans_ask(DEVICE));
}

TEST(other_devices_are_not_lent) {
    pid_t child = lender(false, 4096);
    assert_false(gm_loans_ask(other));
    assert_true(gm_loans_ask(DEVICE));
    end(child);
}

TEST(ended_processes_leave_their_places) {
    for (int i = 0; i < 2 * PLACES; i++)
        (void)lender(true, 0);
    pid_t child = lender(false, 1);
    assert_true(gm_loans_ask(DEVICE));
    end(child);
}

/* The child of a fork has no part in its parent's place. */
TEST(forks) {
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    pid_t parent = fork();
    if (!parent) {
        gm_loans_after_fork();
        bool joined = gm_loans_join();
        gm_loans_lend(DEVICE);
        pid_t child = fork();
        if (!child) {
            gm_loans_after_fork();
            pause();
        }
        if (!joined || write(ready[1], &child, sizeof child) != sizeof child)
            _exit(1);
        _exit(0);
    }
    pid_t child = 0;
    close(ready[1]);
    assert_int_equal(read(ready[0], &child, sizeof child), sizeof child);
    assert_int_equal(waitpid(parent, NULL, 0), parent);
    uint64_t before = gm_now_ns();
    assert_false(gm_loans_ask(DEVICE));
    assert_true(gm_now_ns() - before < GM_LOANS_PATIENCE_NS); /* nobody was waited for */
    kill(child, SIGKILL);
    close(ready[0]);
}

static uint64_t bit_of(int device) {
    unsigned char uuid[16];
    find_uuid(device, uuid);
    return gm_group_hash(uuid) % BITS;
}

int main(void) {
    do
        other++;
    while (bit_of(other) != bit_of(DEVICE));
    gm_events.device_uuid = find_uuid;
    return run_all(NULL, NULL);
}
