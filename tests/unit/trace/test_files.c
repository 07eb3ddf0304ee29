/* Trace files that are full, cut by others, in no folder, or there already. */
#include "writer_world.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static void write_beyond_the_limit(uint64_t interval_ns) {
    struct rlimit limit = {100 << 10, 100 << 10};
    setrlimit(RLIMIT_FSIZE, &limit);
    gm_trace_setup(path, AUTO, interval_ns, "auto", "1");
    write_events(0x1000, 40000);
    gm_trace_finish();
}

static void write_each_beyond_the_limit(void) { write_beyond_the_limit(0); }
static void leave_what_is_beyond_the_limit(void) { write_beyond_the_limit(60000000000u); } /* to the flusher */

TEST_OF_BOTH(a_full_disk_is_logged_once_and_counted) {
    uint64_t dropped;
    assert_int_equal(log_lines(write_each_beyond_the_limit, "loses events: file size limit reached"), 1);
    int count = read_back(path, NULL, &dropped);
    assert_in_range(count, 500, 39999);
    /* In a text file the line that states the number did not fit either. */
    if (!strstr(path, ".csv"))
        assert_int_equal((uint64_t)count + dropped, 40000);
}

BINARY_TEST(a_full_disk_counts_what_was_left_to_the_flusher) {
    uint64_t dropped;
    assert_int_equal(log_lines(leave_what_is_beyond_the_limit, "loses events: file size limit reached"), 1);
    int count = read_back(path, NULL, &dropped);
    assert_in_range(count, 500, 39999);
    assert_int_equal((uint64_t)count + dropped, 40000);
}

static rlim_t limit_bytes;
static uint64_t interval;

static void write_to_the_limit(void) {
    struct rlimit limit = {limit_bytes, limit_bytes};
    setrlimit(RLIMIT_FSIZE, &limit);
    gm_log_set(GM_LOG_OFF);
    gm_trace_setup(path, AUTO, interval, "auto", "1");
    write_events(0x1000, 5000);
    gm_trace_finish();
}

/* The disk is full within each write in turn: of the header, of an event, of the count that makes it valid. */
BINARY_TEST(no_event_is_lost_without_being_counted) {
    static const uint64_t intervals[] = {0, 60000000000u};
    for (int i = 0; i < 2; i++)
        for (limit_bytes = 4096; limit_bytes < 48 << 10; limit_bytes += limit_bytes < 4400 ? 7 : 1361) {
            uint64_t dropped;
            interval = intervals[i];
            clear(state);
            assert_int_equal(in_child(write_to_the_limit), 0);
            int count = read_back(path, NULL, &dropped);
            assert_int_equal((uint64_t)count + dropped, 5000);
        }
}

static void write_while_the_file_is_cut(void) {
    gm_trace_setup(path, AUTO, 10000000, "auto", "1");
    write_events(0x1000, 20000);
    let_it_flush(20000);
    if (truncate(path, 0))
        _exit(2);
    write_events(0x100000, 5000);
    let_it_flush(5000);
    if (truncate(path, 2000))
        _exit(2);
    write_events(0x200000, 5000);
    gm_trace_finish();
}

BINARY_TEST(a_file_cut_by_others_harms_nobody) {
    uint64_t dropped;
    uint32_t finished;
    assert_int_equal(log_lines(write_while_the_file_is_cut, "was cut by another program"), 1);
    int count = read_back(path, &finished, &dropped);
    assert_int_equal(finished, 1);
    assert_in_range(count, 5000, 10000);
    assert_in_range(dropped, 15000, 20000); /* what is still in memory is written again */
}

static void write_to_missing_folder(void) {
    gm_trace_setup("/nonexistent/folder/t.trace", AUTO, 0, "auto", "1");
    write_events(0x1000, 100);
    gm_trace_finish();
}

BINARY_TEST(a_missing_folder_is_logged_once) {
    assert_int_equal(log_lines(write_to_missing_folder, "cannot open trace file"), 1);
}

static void write_three(void) {
    gm_trace_setup(path, AUTO, 0, "auto", "1");
    write_events(0x1000, 3);
    gm_trace_finish();
}

TEST_OF_BOTH(an_older_trace_is_replaced) {
    assert_int_equal(in_child(write_all), 0);
    struct timespec old[2] = {{1000, 0}, {1000, 0}};
    assert_int_equal(utimensat(AT_FDCWD, path, old, 0), 0);
    assert_int_equal(in_child(write_three), 0);
    assert_int_equal(read_back(path, NULL, NULL), 3);
    assert_int_equal(files_in_folder(), 1);
}

TEST_OF_BOTH(a_trace_newer_than_the_process_stays) {
    assert_int_equal(in_child(write_three), 0);
    struct timespec future[2] = {{0, UTIME_NOW}, {0, UTIME_NOW}};
    future[1] = (struct timespec){time(NULL) + 100, 0};
    assert_int_equal(utimensat(AT_FDCWD, path, future, 0), 0);
    assert_int_equal(in_child(write_all), 0);
    assert_int_equal(read_back(path, NULL, NULL), 3);
    assert_int_equal(files_in_folder(), 2);
}

TEST_OF_BOTH(a_locked_trace_stays) {
    assert_int_equal(in_child(write_three), 0);
    struct timespec old[2] = {{1000, 0}, {1000, 0}};
    utimensat(AT_FDCWD, path, old, 0);
    int fd = open(path, O_RDWR);
    assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0);
    assert_int_equal(in_child(write_all), 0);
    close(fd);
    assert_int_equal(read_back(path, NULL, NULL), 3);
    assert_int_equal(files_in_folder(), 2);
}

TEST_OF_BOTH(a_foreign_file_is_never_touched) {
    FILE *f = fopen(path, "w");
    fputs("my thesis", f);
    fclose(f);
    struct timespec old[2] = {{1000, 0}, {1000, 0}};
    utimensat(AT_FDCWD, path, old, 0);
    assert_int_equal(log_lines(write_three, "is not a gpumem trace"), 1);
    assert_int_equal(file_size(path), 9);
}

int main(void) { return run_all(make_folder, remove_folder); }
