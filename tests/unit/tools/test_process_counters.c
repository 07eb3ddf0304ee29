/* Counters of a running process, found and judged from outside: pages that are none, torn ones, those of other
 * versions, of other processes; and what two readings say. */
#include "shim/base/base.h"
#include "tools/cli/top.h"
#include "tools/cli/process_counters.h"

#include "tests/test.h"
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define SECOND 1000000000ull

TEST(test_judge) {
    struct gm_stats page = {.magic = GM_STATS_MAGIC, .pid = 7};
    assert_int_equal(gm_process_counters_judge(&page, sizeof page, 7), GM_COUNTERS_OK);
    assert_int_equal(gm_process_counters_judge(&page, sizeof page, 8), GM_COUNTERS_NO_COUNTERS);
    assert_int_equal(gm_process_counters_judge(&page, 12, 7), GM_COUNTERS_NO_COUNTERS);
    assert_int_equal(gm_process_counters_judge(&page, 7, 7), GM_COUNTERS_NO_COUNTERS);
    assert_int_equal(gm_process_counters_judge(&page, 0, 7), GM_COUNTERS_NO_COUNTERS);
    page.magic ^= 1ull << 56;
    assert_int_equal(gm_process_counters_judge(&page, sizeof page, 7), GM_COUNTERS_OTHER_VERSION);
    page.magic = GM_STATS_MAGIC ^ 1;
    assert_int_equal(gm_process_counters_judge(&page, sizeof page, 7), GM_COUNTERS_NO_COUNTERS);
}

/* What a viewer finds in a process that holds such a page. */
static enum gm_counters_status found(const struct gm_stats *page, size_t length, struct gm_stats *read) {
    struct gm_process_counters *counters;
    struct gm_stats copy;
    int fd = memfd_create(GM_STATS_NAME, 0);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, page, length), length);
    enum gm_counters_status status = gm_process_counters_open(getpid(), &counters);
    if (!status) {
        assert_int_equal(gm_process_counters_pid(counters), getpid());
        assert_int_equal(gm_process_counters_read(counters, &copy), GM_COUNTERS_OK);
        *read = copy;
        assert_int_equal(ftruncate(fd, (off_t)length / 2), 0); /* cut while it is read: no fault, no half a page */
        memset(&copy, 0, sizeof copy);
        assert_int_equal(gm_process_counters_read(counters, &copy), GM_COUNTERS_ENDED);
        assert_int_equal(copy.magic, 0);
        assert_false(gm_process_counters_time_calls(counters, 1)); /* not sealed: a store could be a bus error */
    } else {
        assert_null(counters);
    }
    gm_process_counters_close(counters);
    close(fd);
    return status;
}

TEST(test_fake_pages) {
    struct gm_stats page = {.magic = GM_STATS_MAGIC, .pid = (int32_t)getpid(), .program = "fake", .live_bytes = {1234}},
                    read;
    assert_int_equal(found(&page, sizeof page, &read), GM_COUNTERS_OK);
    assert_memory_equal(&page, &read, sizeof page);
    assert_int_equal(found(&page, sizeof page - 1, &read), GM_COUNTERS_NO_COUNTERS);
    assert_int_equal(found(&page, 8, &read), GM_COUNTERS_NO_COUNTERS);
    assert_int_equal(found(&page, 0, &read), GM_COUNTERS_NO_COUNTERS);
    page.pid++;
    assert_int_equal(found(&page, sizeof page, &read), GM_COUNTERS_NO_COUNTERS);
    page.magic = 0x3954534154534d47ull;
    assert_int_equal(found(&page, sizeof page, &read), GM_COUNTERS_NO_COUNTERS);
    memcpy(&page.magic, "GMSTATS0", 8);
    assert_int_equal(found(&page, sizeof page, &read), GM_COUNTERS_OTHER_VERSION);
}

static pid_t child_with_counters(void (*act)(void)) {
    int seen[2];
    char byte;
    assert_int_equal(pipe(seen), 0);
    pid_t pid = fork();
    if (!pid) {
        gm_stats_open("");
        gm_stats_mine()->allocs[GM_KIND_NATIVE] += 3;
        gm_stats_cached(GM_KIND_CACHE, 4096);
        if (act)
            act();
        if (write(seen[1], "", 1) == 1)
            pause();
        _exit(1);
    }
    assert_int_equal(read(seen[0], &byte, 1), 1);
    close(seen[0]);
    close(seen[1]);
    return pid;
}

static void close_all(void) {
    for (int fd = 100; fd < 1024; fd++)
        close(fd);
}

TEST(test_a_process) {
    struct gm_stats page;
    struct gm_process_counters *counters, *other;
    pid_t pid = child_with_counters(NULL), closed = child_with_counters(close_all);
    assert_int_equal(gm_process_counters_open(pid, &counters), GM_COUNTERS_OK);
    assert_int_equal(gm_process_counters_read(counters, &page), GM_COUNTERS_OK);
    assert_int_equal(page.pid, pid);
    assert_int_equal(gm_stats_total(&page).allocs[GM_KIND_NATIVE], 3);
    assert_string_equal(page.program, "test_tools_process_counters");
    assert_int_equal(page.watched_until, 0);

    assert_true(gm_process_counters_time_calls(counters, 10 * SECOND));
    assert_int_equal(gm_process_counters_read(counters, &page), GM_COUNTERS_OK);
    uint64_t until = page.watched_until, now = gm_now_ns();
    assert_true(until > now && until < now + 11 * SECOND);
    assert_true(gm_process_counters_time_calls(counters, SECOND)); /* another viewer's longer time stays */
    assert_int_equal(gm_process_counters_read(counters, &page), GM_COUNTERS_OK);
    assert_int_equal(page.watched_until, until);

    enum gm_counters_status status = gm_process_counters_open(closed, &other);
    assert_true(status == GM_COUNTERS_OK || status == GM_COUNTERS_NO_READ); /* as the kernel grants it */
    if (other) {
        assert_int_equal(gm_process_counters_read(other, &page), GM_COUNTERS_OK);
        assert_int_equal(page.pid, closed);
        assert_false(gm_process_counters_time_calls(other, SECOND));
    }

    kill(pid, SIGKILL);
    kill(closed, SIGKILL);
    waitpid(pid, NULL, 0);
    waitpid(closed, NULL, 0);
    memset(&page, 0, sizeof page);
    assert_int_equal(gm_process_counters_read(counters, &page), GM_COUNTERS_ENDED);
    assert_int_equal(gm_stats_total(&page).allocs[GM_KIND_NATIVE], 3); /* its last words */
    if (other)
        assert_int_equal(gm_process_counters_read(other, &page), GM_COUNTERS_ENDED);
    gm_process_counters_close(counters);
    gm_process_counters_close(other);
    assert_int_equal(gm_process_counters_open(pid, &counters), GM_COUNTERS_NO_PROCESS);
    assert_null(counters);
}

/* Makes `folder` the root of a file system of this process alone. There a plain file has the name that /proc shows for
 * a memory file. */
static bool enter_own_root(const char *folder) {
    return !unshare(CLONE_NEWNS) && !mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) &&
           !mount(folder, folder, NULL, MS_BIND, NULL) && !chdir(folder) && !mkdir("old", 0700) &&
           !syscall(SYS_pivot_root, ".", "old") && !umount2("/old", MNT_DETACH);
}

/* Holds a page in a plain file, and cuts the file when a byte comes. */
static void hold_plain_file(const char *folder, int in, int out) {
    static struct gm_stats page = {.magic = GM_STATS_MAGIC};
    char byte = 0;
    page.pid = (int32_t)getpid();
    bool entered = enter_own_root(folder);
    int fd = entered ? open("/memfd:" GM_STATS_NAME, O_CREAT | O_EXCL | O_RDWR, 0600) : -1;
    if (fd < 0 || write(fd, &page, sizeof page) != sizeof page || unlink("/memfd:" GM_STATS_NAME))
        _exit(1);
    for (int i = 0; i < 2 && write(out, &byte, 1) == 1; i++)
        if (read(in, &byte, 1) != 1 || ftruncate(fd, 0))
            break;
    _exit(0);
}

/* Its owner can cut it while it is mapped, so it is read and never mapped. */
TEST(test_a_plain_file_with_the_name) {
    char folder[] = "gpumem-counters-XXXXXX", byte = 0, path[64];
    int to[2], from[2];
    struct gm_process_counters *counters = NULL;
    assert_non_null(mkdtemp(folder));
    assert_int_equal(pipe(to) || pipe(from), 0);
    pid_t pid = fork();
    if (!pid) {
        close(from[0]);
        close(to[1]);
        hold_plain_file(folder, to[0], from[1]);
    }
    close(from[1]);
    bool held = read(from[0], &byte, 1) == 1;
    if (held) {
        assert_int_equal(gm_process_counters_open(pid, &counters), GM_COUNTERS_OK);
        assert_int_equal(write(to[1], &byte, 1), 1);
        assert_int_equal(read(from[0], &byte, 1), 1); /* it is cut */
        assert_false(gm_process_counters_time_calls(counters, SECOND));
        assert_false(gm_process_counters_limit(counters, 1));
        gm_process_counters_close(counters);
    }
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    snprintf(path, sizeof path, "%s/old", folder);
    rmdir(path);
    assert_int_equal(rmdir(folder), 0);
    if (!held) {
        print_message("skipped: needs the right to make a mount namespace\n");
        skip();
    }
}

TEST(test_own_counters) {
    struct gm_process_counters *counters;
    pid_t pid = fork();
    if (!pid) { /* nobody else's descriptors and threads */
        gm_stats_open(NULL);
        uint64_t now = gm_now_ns();
        bool right = !gm_stats_watched() && gm_stats->pid == getpid() && !gm_stats->timed &&
                     !gm_process_counters_open(getpid(), &counters) &&
                     gm_process_counters_time_calls(counters, SECOND) && gm_stats_watched();
        gm_stats_watch_ends(now);
        right = right && gm_stats_watched();
        gm_stats_watch_ends(now + 100 * SECOND);
        _exit(right && !gm_stats_watched() ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

TEST(test_rates) {
    static struct gm_stats page;
    struct gm_counter_sample first, second;
    page = (struct gm_stats){.pid = 1, .program = "p", .policy = "cache"};
    struct gm_stats_shard *a = &page.shards[0], *b = &page.shards[63];
    a->allocs[GM_KIND_CACHE] = 10;
    a->hits[GM_KIND_CACHE] = 4;
    a->allocs[GM_KIND_NATIVE] = 100;
    a->frees[GM_KIND_CACHE] = 5;
    a->cached_in[GM_KIND_CACHE] = 5000;
    b->cached_out[GM_KIND_CACHE] = 4000;
    page.live_bytes[GM_KIND_CACHE] = 700;
    page.reserved_bytes[GM_KIND_CACHE] = 1730;
    page.live_bytes[GM_KIND_HOST] = 1 << 20;
    gm_counter_sample_take(&first, &page, 42, 5 * SECOND);
    assert_int_equal(first.pid, 42);
    assert_int_equal(first.allocs, 110);
    assert_int_equal(first.reusable, 10);
    assert_int_equal(first.cached[GM_KIND_CACHE], 1000);
    assert_int_equal(first.reserved[GM_KIND_CACHE], 1730);
    assert_int_equal(first.reserved_all, 1730); /* host memory is not the device's */
    assert_int_equal(first.blocks[GM_KIND_CACHE], 5);
    struct gm_rates rates = gm_counter_sample_rates(NULL, &first, true);
    assert_true(rates.allocs < 0 && rates.hits < 0 && rates.time < 0 && rates.seconds < 0);
    assert_true(rates.hits_in_all == 4.0 / 110); /* of all allocations, as in the closing lines and in reports */

    b->allocs[GM_KIND_CACHE] = 20;
    b->hits[GM_KIND_CACHE] = 15;
    b->frees[GM_KIND_CACHE] = 40; /* read before the other shard's allocations: more gone than came */
    a->time_ns = SECOND / 2;
    b->fence_waits = 4;
    b->cached_out[GM_KIND_CACHE] = 5001;
    gm_counter_sample_take(&second, &page, 42, 7 * SECOND);
    rates = gm_counter_sample_rates(&first, &second, true);
    assert_true(rates.seconds == 2 && rates.allocs == 10 && rates.frees == 20 && rates.fence_waits == 2);
    assert_true(rates.hits == 0.75 && rates.time == 0.25);
    assert_int_equal(second.blocks[GM_KIND_CACHE], 0);
    assert_int_equal(second.cached[GM_KIND_CACHE], 0);
    assert_true(gm_counter_sample_rates(&first, &second, false).time < 0);
    assert_true(gm_counter_sample_rates(&second, &first, true).seconds < 0);
}

/* A name of any bytes neither moves the cursor nor widens a line. */
TEST(test_text) {
    static struct gm_stats page;
    struct gm_counter_sample sample;
    char text[4096];
    page = (struct gm_stats){.pid = 1, .policy = "cache"};
    memset(page.program, 0x1b, sizeof page.program);
    memset(page.policy, '\n', sizeof page.policy);
    for (int kind = 0; kind < GM_KIND_COUNT; kind++) {
        page.peak_bytes[kind] = page.live_bytes[kind] = UINT64_MAX / 4;
        page.shards[1].allocs[kind] = UINT64_MAX / 64;
    }
    page.suspended = (struct gm_stats_suspended){.on = 1, .asleep = 1, .stayed = {{"exported", 5}, {"arrays", 4}}};
    gm_counter_sample_take(&sample, &page, 4194304, 1);
    struct gm_rates rates = {1, 1e12, 1e12, 1e12, 1, 1, 64};
    for (unsigned width = 1; width <= 80; width += 79) {
        FILE *out = fmemopen(text, sizeof text, "w");
        unsigned lines = gm_top_detail(out, &sample, &rates, width, "\n"), seen = 0, stayed = 0;
        gm_top_head(out, false, width, "\n");
        gm_top_rows(out, NULL, &sample, &rates, "", -1, width, "\n");
        fclose(out);
        for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"), seen++) {
            assert_true(strlen(line) <= width);
            assert_null(strchr(line, 0x1b));
            stayed += strstr(line, "5 B exported") || strstr(line, "4 B arrays");
        }
        if (width > 1) {
            assert_int_equal(seen, lines + 2);
            assert_int_equal(stayed, 2);
        }
    }
}

int main(void) { return run_all(NULL, NULL); }
