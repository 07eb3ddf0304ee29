/* The trace writer: events are read back completely and in order, whatever happens to the process or to the file. A
 * process has one writer, so each case writes in a child. */
#include "shim/base/base.h"
#include "shim/trace/writer.h"
#include "tools/cli/reader.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { AUTO, BINARY, CSV };

static char folder[] = "/tmp/gpumem-trace-XXXXXX";
static char path[256];

static void write_event(uint64_t sequence, uint64_t address, uint64_t bytes) {
    struct gm_event e = {.seq = sequence,
                         .time_ns = gm_now_ns(),
                         .address = address,
                         .bytes = bytes,
                         .slack = 28,
                         .call = GM_CALL_ALLOC,
                         .action = GM_ACT_ALLOC,
                         .site = 1};
    gm_trace_event(&e);
}

static void write_events(uint64_t first_address, int count) {
    for (int i = 0; i < count; i++)
        write_event(gm_trace_sequence(), first_address + (uint64_t)i, 100 + (uint64_t)i);
}

/* Runs `body` in a child and returns its wait status. */
static int in_child(void (*body)(void)) {
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        body();
        _exit(0);
    }
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

/* Reads the trace, checks that seqs rise, and returns how many events it holds. */
static int read_back(const char *name, uint32_t *finished, uint64_t *dropped) {
    char error[512] = "";
    struct gm_reader *r = gm_reader_open(name, error, sizeof error);
    struct gm_event e;
    uint64_t last = 0;
    int thread, count = 0;
    if (!r)
        fail_msg("%s", error);
    while (gm_reader_next(r, &e, &thread)) {
        assert_true(e.seq > last);
        assert_true(thread > 0);
        assert_int_equal(e.action, GM_ACT_ALLOC);
        last = e.seq;
        count++;
    }
    assert_int_equal(gm_reader_damaged(r), 0);
    if (finished)
        *finished = gm_reader_header(r)->finished;
    if (dropped)
        *dropped = gm_reader_header(r)->dropped;
    gm_reader_close(r);
    return count;
}

static off_t file_size(const char *name) {
    struct stat st;
    return stat(name, &st) ? -1 : st.st_size;
}

static int files_in_folder(void) {
    int count = 0;
    DIR *d = opendir(folder);
    for (struct dirent *e; (e = readdir(d));)
        count += e->d_name[0] != '.';
    closedir(d);
    return count;
}

static int clear(void **state) {
    DIR *d = opendir(folder);
    for (struct dirent *e; (e = readdir(d));)
        unlinkat(dirfd(d), e->d_name, 0);
    closedir(d);
    snprintf(path, sizeof path, "%s/t.trace", folder);
    return 0;
}

static int clear_csv(void **state) {
    clear(state);
    snprintf(path, sizeof path, "%s/t.csv", folder);
    return 0;
}

/* ---- round trip */

static void write_all(void) {
    struct {
        struct gm_record_site site;
        uint64_t frames[2];
    } site = {{{sizeof site, GM_RECORD_SITE, 0}, 1, 2, 1}, {0x1111, 0x2222}};
    struct {
        struct gm_record_string head;
        char text[16];
    } string = {{{sizeof string, GM_RECORD_STRING, 0}, 5, 12}, "a,b\n\\c \"d\" e"};
    struct {
        struct gm_record_module head;
        unsigned char id[8];
        char path[8];
    } module = {{{sizeof module, GM_RECORD_MODULE, 0}, 0x1000, 0x1000, 0x3000, 3, 8}, {0xab, 0xcd, 0x01}, "/x/y z.o"};
    gm_trace_setup(path, AUTO, 0, "auto", "9.9");
    gm_trace_record(&site.site.head);
    gm_trace_record(&string.head.head);
    gm_trace_record(&module.head.head);
    write_events(0x1000, 10000);
    gm_trace_finish();
    write_events(0, 5);
}

static void check_all(void **state) {
    char error[512];
    struct gm_site site;
    struct gm_module module;
    struct gm_event e;
    int thread;
    assert_int_equal(in_child(write_all), 0);
    uint32_t finished;
    uint64_t dropped;
    assert_int_equal(read_back(path, &finished, &dropped), 10000);
    assert_int_equal(finished, 1);
    assert_int_equal(dropped, 0);
    struct gm_reader *r = gm_reader_open(path, error, sizeof error);
    assert_int_equal(gm_reader_header(r)->file_bytes, strstr(path, ".csv") ? 0 : file_size(path));
    assert_true(gm_reader_next(r, &e, &thread));
    assert_int_equal(e.address, 0x1000);
    assert_int_equal(e.bytes, 100);
    assert_int_equal(e.slack, 28);
    assert_true(e.time_ns < 60000000000u);
    while (gm_reader_next(r, &e, &thread))
        ;
    assert_string_equal(gm_reader_header(r)->policy, "auto");
    assert_string_equal(gm_reader_header(r)->library, "9.9");
    assert_true(gm_reader_site(r, 1, &site));
    assert_int_equal(site.frames, 2);
    assert_int_equal(site.outside, 1);
    assert_int_equal(site.addresses[1], 0x2222);
    assert_string_equal(gm_reader_string(r, 5), "a,b\n\\c \"d\" e");
    assert_true(gm_reader_module(r, 0x2fff, &module));
    assert_false(gm_reader_module(r, 0x3000, &module));
    assert_string_equal(module.path, "/x/y z.o");
    assert_int_equal(module.build_id_bytes, 3);
    assert_int_equal(module.build_id[1], 0xcd);
    gm_reader_close(r);
}

static void a_csv_file_begins_with_the_header_line(void **state) {
    char line[512];
    assert_int_equal(in_child(write_all), 0);
    FILE *f = fopen(path, "r");
    assert_non_null(fgets(line, sizeof line, f));
    assert_string_equal(line, gm_trace_csv_header);
    while (fgets(line, sizeof line, f))
        ;
    assert_string_equal(line, "# end dropped 0\n");
    fclose(f);
}

/* ---- threads */

static void *thread_writes(void *count) {
    write_events(0x100000, (int)(intptr_t)count);
    return NULL;
}

static void eight_threads(void) {
    pthread_t threads[8];
    gm_trace_setup(path, AUTO, 1000000, "auto", "1");
    for (int i = 0; i < 8; i++)
        pthread_create(&threads[i], NULL, thread_writes, (void *)(intptr_t)20000);
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    gm_trace_finish();
}

/* Calls that take their number first and write other events before their own, as a free does that finds lost captures.
 */
static void *thread_nests(void *unused) {
    for (int i = 0; i < 3000; i++) {
        uint64_t own = gm_trace_sequence();
        for (int nested = 0; nested < i % 7; nested++)
            write_event(gm_trace_sequence(), 0x1000, 1);
        write_event(own, 0x2000, 1);
    }
    return NULL;
}

static void nesting_threads(void) {
    pthread_t threads[2];
    gm_trace_setup(path, AUTO, 1000000, "auto", "1");
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, thread_nests, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    gm_trace_finish();
}

static void nested_events_merge_in_one_order(void **state) {
    assert_int_equal(in_child(nesting_threads), 0);
    assert_int_equal(read_back(path, NULL, NULL), 23988);
}

static void threads_merge_in_one_order(void **state) {
    assert_int_equal(in_child(eight_threads), 0);
    assert_int_equal(read_back(path, NULL, NULL), 8 * 20000);
}

static void many_short_threads(void) {
    gm_trace_setup(path, AUTO, 0, "auto", "1");
    for (int i = 0; i < 1000; i++) {
        pthread_t thread;
        pthread_create(&thread, NULL, thread_writes, (void *)(intptr_t)3);
        pthread_join(thread, NULL);
    }
    gm_trace_finish();
}

static void short_lived_threads_cost_a_page_each(void **state) {
    assert_int_equal(in_child(many_short_threads), 0);
    assert_int_equal(read_back(path, NULL, NULL), 3000);
    assert_in_range(file_size(path), 3000 * 64, 1001 * 4096 + 4096);
}

static void finishing_while_others_write(void) {
    pthread_t threads[4];
    gm_trace_setup(path, AUTO, 1000000, "auto", "1");
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, thread_writes, (void *)(intptr_t)300000);
    write_events(0x1, 10);
    gm_trace_finish();
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
}

static void the_end_is_safe_while_threads_write(void **state) {
    for (int round = 0; round < 5; round++) {
        assert_int_equal(in_child(finishing_while_others_write), 0);
        uint32_t finished;
        read_back(path, &finished, NULL);
        assert_int_equal(finished, 1);
    }
}

/* ---- the process dies */

static void write_and_kill(void) {
    gm_trace_setup(path, AUTO, 0, "auto", "1");
    write_events(0x1000, 5000);
    raise(SIGKILL);
}

static void sigkill_loses_nothing(void **state) {
    uint32_t finished;
    assert_int_equal(WTERMSIG(in_child(write_and_kill)), SIGKILL);
    assert_int_equal(read_back(path, &finished, NULL), 5000);
    assert_int_equal(finished, 0);
}

static int events_in_file(void) {
    char error[512];
    struct gm_event e;
    int thread, count = 0;
    struct gm_reader *r = gm_reader_open(path, error, sizeof error);
    while (r && gm_reader_next(r, &e, &thread))
        count++;
    if (r)
        gm_reader_close(r);
    return count;
}

/* Waits for the thread that flushes every 10 ms, at most 20 s. */
static void let_it_flush(int events) {
    for (int naps = 0; naps < 10000 && events_in_file() < events; naps++)
        nanosleep(&(struct timespec){0, 2000000}, NULL);
}

static void write_wait_and_kill(void) {
    gm_trace_setup(path, AUTO, 10000000, "auto", "1");
    write_events(0x1000, 50);
    let_it_flush(50);
    raise(SIGKILL);
}

static void an_event_waits_no_longer_than_the_interval(void **state) {
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

static void idle_threads_lose_nothing_either(void **state) {
    assert_int_equal(WTERMSIG(in_child(others_write_and_kill)), SIGKILL);
    assert_int_equal(read_back(path, NULL, NULL), 6000);
}

static void fail_and_abort(void) {
    gm_trace_setup(path, AUTO, 60000000000u, "auto", "1");
    write_events(0x1000, 500);
    struct gm_event e = {.seq = gm_trace_sequence(), .action = GM_ACT_ALLOC_FAIL, .call = GM_CALL_ALLOC};
    gm_trace_event(&e);
    raise(SIGKILL);
}

static void what_led_to_a_failed_allocation_is_there(void **state) {
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

/* ---- fork */

static void fork_and_write(void) {
    gm_trace_setup(path, AUTO, 1000000, "auto", "1");
    write_events(0x1000, 10);
    pid_t pid = fork();
    if (pid == 0) {
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

static void a_forked_child_gets_its_own_file(void **state) {
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

static void a_bare_clone_does_not_write_into_the_parent(void **state) {
    assert_int_equal(in_child(clone_and_write), 0);
    assert_int_equal(files_in_folder(), 2);
}

/* ---- the disk is full */

static void write_beyond_the_limit(void) {
    struct rlimit limit = {1 << 20, 1 << 20};
    setrlimit(RLIMIT_FSIZE, &limit);
    gm_trace_setup(path, AUTO, 0, "auto", "1");
    write_events(0x1000, 40000);
    gm_trace_finish();
}

static int log_lines(void (*body)(void), const char *text) {
    char log[300], line[512];
    int lines = 0;
    snprintf(log, sizeof log, "%s/log", folder);
    int saved = dup(2), fd = open(log, O_CREAT | O_WRONLY | O_TRUNC, 0600);
    dup2(fd, 2);
    int status = in_child(body);
    dup2(saved, 2);
    close(fd);
    close(saved);
    assert_int_equal(status, 0);
    FILE *f = fopen(log, "r");
    while (fgets(line, sizeof line, f)) {
        assert_non_null(strstr(line, text));
        lines++;
    }
    fclose(f);
    return lines;
}

/* ---- somebody cuts the file */

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

static void a_file_cut_by_others_harms_nobody(void **state) {
    uint64_t dropped;
    uint32_t finished;
    assert_int_equal(log_lines(write_while_the_file_is_cut, "was cut by another program"), 1);
    int count = read_back(path, &finished, &dropped);
    assert_int_equal(finished, 1);
    assert_in_range(count, 5000, 10000);
    assert_in_range(dropped, 15000, 20000); /* what is still in memory is written again */
}

static void a_full_disk_is_logged_once_and_counted(void **state) {
    uint64_t dropped;
    assert_int_equal(log_lines(write_beyond_the_limit, "loses events: file size limit reached"), 1);
    int count = read_back(path, NULL, &dropped);
    assert_in_range(count, 1000, 39999);
    /* In a text file the line that states the number did not fit either. */
    if (!strstr(path, ".csv"))
        assert_int_equal((uint64_t)count + dropped, 40000);
}

static void write_to_missing_folder(void) {
    gm_trace_setup("/nonexistent/folder/t.trace", AUTO, 0, "auto", "1");
    write_events(0x1000, 100);
    gm_trace_finish();
}

static void a_missing_folder_is_logged_once(void **state) {
    assert_int_equal(log_lines(write_to_missing_folder, "cannot open trace file"), 1);
}

/* ---- existing files */

static void write_three(void) {
    gm_trace_setup(path, AUTO, 0, "auto", "1");
    write_events(0x1000, 3);
    gm_trace_finish();
}

static void an_older_trace_is_replaced(void **state) {
    assert_int_equal(in_child(write_all), 0);
    struct timespec old[2] = {{1000, 0}, {1000, 0}};
    assert_int_equal(utimensat(AT_FDCWD, path, old, 0), 0);
    assert_int_equal(in_child(write_three), 0);
    assert_int_equal(read_back(path, NULL, NULL), 3);
    assert_int_equal(files_in_folder(), 1);
}

static void a_trace_newer_than_the_process_stays(void **state) {
    assert_int_equal(in_child(write_three), 0);
    struct timespec future[2] = {{0, UTIME_NOW}, {0, UTIME_NOW}};
    future[1] = (struct timespec){time(NULL) + 100, 0};
    assert_int_equal(utimensat(AT_FDCWD, path, future, 0), 0);
    assert_int_equal(in_child(write_all), 0);
    assert_int_equal(read_back(path, NULL, NULL), 3);
    assert_int_equal(files_in_folder(), 2);
}

static void a_locked_trace_stays(void **state) {
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

static void a_foreign_file_is_never_touched(void **state) {
    FILE *f = fopen(path, "w");
    fputs("my thesis", f);
    fclose(f);
    struct timespec old[2] = {{1000, 0}, {1000, 0}};
    utimensat(AT_FDCWD, path, old, 0);
    assert_int_equal(log_lines(write_three, "is not a gpumem trace"), 1);
    assert_int_equal(file_size(path), 9);
}

/* ---- files that are not regular */

static void write_to_stdout(void) {
    gm_trace_setup("/dev/stdout", AUTO, 0, "auto", "1");
    write_events(0x1000, 500);
    gm_trace_finish();
}

static void a_pipe_gets_text(void **state) {
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

static void a_closed_pipe_does_not_kill(void **state) {
    assert_int_equal(log_lines(write_to_closed_pipe, "trace '/dev/stdout' lo"),
                     2); /* one when it happens, one with the number at the end */
}

static void write_to_unread_pipe(void) {
    alarm(60);
    gm_trace_setup(path, CSV, 10000000, "auto", "1");
    write_events(0x1000, 100000);
    gm_trace_finish();
}

static void a_pipe_without_a_reader_holds_nobody_up(void **state) {
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

static void a_slow_reader_costs_lines_and_no_time(void **state) {
    assert_int_equal(mkfifo(path, 0600), 0);
    lines_read = mmap(NULL, sizeof *lines_read, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(lines_read, MAP_FAILED);
    assert_int_equal(log_lines(read_late, "' lo"), 2); /* "loses events", and "lost ... lines" at the end */
    /* A reader that pauses for a second costs further lines. The lines of a piece being written count twice. */
    assert_in_range(*lines_read + lines_lost(), 200010, 200010 + 4096 / 40);
    munmap(lines_read, sizeof *lines_read);
}

static void write_and_close_everything(void) {
    gm_trace_setup(path, AUTO, 0, "auto", "1");
    write_events(0x1000, 10);
    for (int fd = 3; fd < 1024; fd++)
        close(fd);
    write_events(0x2000, 20000);
    gm_trace_finish();
}

static void a_program_that_closes_all_descriptors_keeps_its_trace(void **state) {
    assert_int_equal(in_child(write_and_close_everything), 0);
    assert_int_equal(read_back(path, NULL, NULL), 20010);
}

static int make_folder(void **state) { return mkdtemp(folder) ? 0 : -1; }

static int remove_folder(void **state) {
    clear(state);
    return rmdir(folder);
}

#define BINARY_CASE(f) \
    { #f " (binary)", f, clear, NULL, NULL }
#define CSV_CASE(f) \
    { #f " (csv)", f, clear_csv, NULL, NULL }
#define BOTH(f) BINARY_CASE(f), CSV_CASE(f)

int main(void) {
    const struct CMUnitTest tests[] = {
        BOTH(check_all),
        CSV_CASE(a_csv_file_begins_with_the_header_line),
        BOTH(threads_merge_in_one_order),
        BOTH(nested_events_merge_in_one_order),
        BINARY_CASE(short_lived_threads_cost_a_page_each),
        BOTH(the_end_is_safe_while_threads_write),
        BOTH(sigkill_loses_nothing),
        BOTH(an_event_waits_no_longer_than_the_interval),
        BOTH(idle_threads_lose_nothing_either),
        BOTH(what_led_to_a_failed_allocation_is_there),
        BINARY_CASE(a_file_cut_by_others_harms_nobody),
        BOTH(a_forked_child_gets_its_own_file),
        BOTH(a_bare_clone_does_not_write_into_the_parent),
        BOTH(a_full_disk_is_logged_once_and_counted),
        BINARY_CASE(a_missing_folder_is_logged_once),
        BOTH(an_older_trace_is_replaced),
        BOTH(a_trace_newer_than_the_process_stays),
        BOTH(a_locked_trace_stays),
        BOTH(a_foreign_file_is_never_touched),
        BINARY_CASE(a_pipe_gets_text),
        BINARY_CASE(a_closed_pipe_does_not_kill),
        CSV_CASE(a_pipe_without_a_reader_holds_nobody_up),
        CSV_CASE(a_slow_reader_costs_lines_and_no_time),
        BOTH(a_program_that_closes_all_descriptors_keeps_its_trace),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
