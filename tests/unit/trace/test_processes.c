/* Traces of processes that are killed or that fork: no event is lost, and each process has a file of its own. */
#include "writer_world.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void write_and_kill(void) {
    gm_trace_setup(path, AUTO, 0, "auto", "1");
    write_events(0x1000, 5000);
    raise(SIGKILL);
}

TEST_OF_BOTH(sigkill_loses_nothing) {
    uint32_t finished;
    assert_int_equal(WTERMSIG(in_child(write_and_kill)), SIGKILL);
    assert_int_equal(read_back(path, &finished, NULL), 5000);
    assert_int_equal(finished, 0);
}

static void write_wait_and_kill(void) {
    gm_trace_setup(path, AUTO, 10000000, "auto", "1");
    write_events(0x1000, 50);
    let_it_flush(50);
    raise(SIGKILL);
}

TEST_OF_BOTH(an_event_waits_no_longer_than_the_interval) {
    assert_int_equal(WTERMSIG(in_child(write_wait_and_kill)), SIGKILL);
    assert_int_equal(read_back(path, NULL, NULL), 50);
}

static void *write_hold_and_wait(void *unused) {
    write_events(0x5000, 2000);
    pause();
    return NULL;
}

static void others_write_and_kill(void) {
    pthread_t threads[3];
    gm_trace_setup(path, AUTO, 10000000, "auto", "1");
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, write_hold_and_wait, NULL);
    let_it_flush(6000);
    raise(SIGKILL);
}

TEST_OF_BOTH(idle_threads_lose_nothing_either) {
    assert_int_equal(WTERMSIG(in_child(others_write_and_kill)), SIGKILL);
    assert_int_equal(read_back(path, NULL, NULL), 6000);
}

static void *write_until_killed(void *unused) {
    for (;;)
        write_events(0x5000, 1000);
    return NULL;
}

/* Whatever the threads and the flusher are doing then, the file is sound. */
BINARY_TEST(a_kill_at_any_time_leaves_a_sound_file) {
    int64_t events = 0; /* none in a round that ends before the first flush */
    for (int round = 0; round < 30; round++) {
        clear(state);
        pid_t pid = fork();
        if (pid == 0) {
            pthread_t thread;
            gm_trace_setup(path, AUTO, 1000000, "auto", "1");
            for (int i = 0; i < 3; i++)
                pthread_create(&thread, NULL, write_until_killed, NULL);
            write_until_killed(NULL);
        }
        for (int naps = 0; naps < 10000 && file_size(path) <= 8192; naps++)
            usleep(1000);
        usleep((useconds_t)(round * 373 % 5000));
        kill(pid, SIGKILL);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        events += read_back(path, NULL, NULL);
    }
    assert_true(events > 0);
}

static void fail_and_abort(void) {
    gm_trace_setup(path, AUTO, 60000000000u, "auto", "1");
    write_events(0x1000, 500);
    struct gm_event e = {.seq = gm_trace_sequence(), .action = GM_ACT_ALLOC_FAIL, .call = GM_CALL_ALLOC};
    gm_trace_event(&e);
    raise(SIGKILL);
}

TEST_OF_BOTH(what_led_to_a_failed_allocation_is_there) {
    char error[512];
    struct gm_event e;
    int thread, count = 0, failed = 0;
    assert_int_equal(WTERMSIG(in_child(fail_and_abort)), SIGKILL);
    struct gm_reader *r = gm_reader_open(path, error, sizeof error);
    for (; gm_reader_next(r, &e, &thread); count++)
        failed += e.action == GM_ACT_ALLOC_FAIL;
    gm_reader_close(r);
    assert_int_equal(count, 501);
    assert_int_equal(failed, 1);
}

static void fork_and_write(void) {
    gm_trace_setup(path, AUTO, 1000000, "auto", "1");
    write_events(0x1000, 10);
    pid_t pid = fork();
    if (pid == 0) {
        gm_fork_zero();
        gm_trace_after_fork();
        write_events(0x2000, 20);
        gm_trace_finish();
        _exit(0);
    }
    waitpid(pid, NULL, 0);
    write_events(0x3000, 5);
    gm_trace_finish();
    char name[300];
    const char *dot = strrchr(path, '.');
    if (!strcmp(dot, ".csv"))
        snprintf(name, sizeof name, "%.*s.%d.csv", (int)(dot - path), path, (int)pid);
    else
        snprintf(name, sizeof name, "%s.%d", path, (int)pid);
    if (read_back(path, NULL, NULL) != 15 || read_back(name, NULL, NULL) != 20)
        _exit(1);
}

TEST_OF_BOTH(a_forked_child_gets_its_own_file) {
    assert_int_equal(in_child(fork_and_write), 0);
    assert_int_equal(files_in_folder(), 2);
}

static void clone_and_write(void) {
    gm_trace_setup(path, AUTO, 0, "auto", "1");
    write_events(0x1000, 10);
    pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0); /* runs no fork handlers */
    if (pid == 0) {
        write_events(0x2000, 20);
        gm_trace_finish();
        _exit(0);
    }
    waitpid(pid, NULL, 0);
    gm_trace_finish();
    if (read_back(path, NULL, NULL) != 10)
        _exit(1);
}

TEST_OF_BOTH(a_bare_clone_does_not_write_into_the_parent) {
    assert_int_equal(in_child(clone_and_write), 0);
    assert_int_equal(files_in_folder(), 2);
}

int main(void) { return run_all(make_folder, remove_folder); }
