/* Traces that go to a pipe: they are text, and a slow, closed or missing reader neither ends nor delays the program. */
#include "writer_world.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void write_to_stdout(void) {
    gm_trace_setup("/dev/stdout", AUTO, 0, "auto", "1");
    write_events(0x1000, 500);
    gm_trace_finish();
}

BINARY_TEST(a_pipe_gets_text) {
    int ends[2], saved = dup(1), lines = 0, status;
    char line[512], first[512] = "";
    fflush(stdout);
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(ends[1], 1);
        close(ends[0]);
        close(ends[1]);
        write_to_stdout();
        _exit(0);
    }
    close(ends[1]);
    close(saved);
    FILE *f = fdopen(ends[0], "r");
    while (fgets(line, sizeof line, f)) {
        if (!first[0])
            strcpy(first, line);
        lines += line[0] >= '0' && line[0] <= '9';
    }
    fclose(f);
    waitpid(pid, &status, 0);
    assert_int_equal(status, 0);
    assert_string_equal(first, gm_trace_csv_header);
    assert_int_equal(lines, 500);
}

static void write_to_closed_pipe(void) {
    int ends[2];
    signal(SIGPIPE, SIG_DFL);
    if (pipe(ends))
        _exit(2);
    dup2(ends[1], 1);
    close(ends[0]);
    close(ends[1]);
    write_to_stdout();
}

BINARY_TEST(a_closed_pipe_does_not_kill) {
    assert_int_equal(log_lines(write_to_closed_pipe, "trace '/dev/stdout' lo"),
                     2); /* one when it happens, one with the number at the end */
}

static void write_to_unread_pipe(void) {
    alarm(60);
    gm_trace_setup(path, CSV, 10000000, "auto", "1");
    write_events(0x1000, 100000);
    gm_trace_finish();
}

CSV_TEST(a_pipe_without_a_reader_holds_nobody_up) {
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(log_lines(write_to_unread_pipe, "a pipe that nobody reads"), 1);
}

/* Pipes by which the child says that it has written, and learns that it may continue. */
static int ready[2], go_on[2];

static void write_more_than_a_pipe_holds(void) {
    char byte = 0;
    alarm(60);
    gm_trace_setup(path, CSV, 10000000, "auto", "1");
    write_events(0x1000, 200000);
    if (write(ready[1], &byte, 1) != 1 || read(go_on[0], &byte, 1) != 1)
        _exit(2);
    write_events(0x1000, 10);
    gm_trace_finish();
}

static uint64_t *lines_read; /* shared with the child that reads */

/* Runs the writer. Its pipe is read only after it has written everything; then counts the lines. */
static void read_late(void) {
    char line[512];
    int fd = open(path, O_RDONLY | O_NONBLOCK), status;
    uint64_t lines = 0, gaps = 0, number, total = 0;
    if (fd < 0 || pipe(ready) || pipe(go_on))
        _exit(2);
    pid_t pid = fork();
    if (pid == 0) {
        close(fd);
        write_more_than_a_pipe_holds();
        _exit(0);
    }
    if (read(ready[0], line, 1) != 1)
        _exit(3);
    fcntl(fd, F_SETFL, 0);
    FILE *f = fdopen(fd, "r");
    while (fgets(line, sizeof line, f) && sscanf(line, "# end dropped %lu", &total) != 1) {
        lines += line[0] >= '0' && line[0] <= '9';
        gaps += sscanf(line, "# dropped %lu", &number) == 1 ? number : 0;
        if (lines == 1000 && write(go_on[1], line, 1) != 1)
            _exit(4);
    }
    waitpid(pid, &status, 0);
    *lines_read = lines;
    if (status || !lines || (total && gaps > total))
        _exit(5);
}

/* The number of lost lines that the log states at the end. */
static uint64_t lines_lost(void) {
    char log[300], line[512];
    uint64_t lost = 0;
    snprintf(log, sizeof log, "%s/log", folder);
    FILE *f = fopen(log, "r");
    for (const char *at; fgets(line, sizeof line, f);)
        if ((at = strstr(line, "' lost ")))
            sscanf(at, "' lost %lu lines", &lost);
    fclose(f);
    return lost;
}

CSV_TEST(a_slow_reader_costs_lines_and_no_time) {
    assert_int_equal(mkfifo(path, 0600), 0);
    lines_read = mmap(NULL, sizeof *lines_read, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(lines_read, MAP_FAILED);
    assert_int_equal(log_lines(read_late, "' lo"), 2); /* "loses events", and "lost ... lines" at the end */
    /* A reader that pauses for a second costs further lines. The lines of a piece being written count twice. */
    assert_in_range(*lines_read + lines_lost(), 200010, 200010 + 4096 / 40);
    munmap(lines_read, sizeof *lines_read);
}

int main(void) { return run_all(make_folder, remove_folder); }
