/* The trace writer: events are read back completely and in one order, from one thread and from many. */
#include "writer_world.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

TEST_OF_BOTH(check_all) {
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
    assert_string_equal(gm_reader_string(r, 5), "a,b\\x0a\\c \"d\" e"); /* as it is shown */
    assert_true(gm_reader_module(r, 0x2fff, &module));
    assert_false(gm_reader_module(r, 0x3000, &module));
    assert_string_equal(module.path, "/x/y z.o");
    assert_int_equal(module.build_id_bytes, 3);
    assert_int_equal(module.build_id[1], 0xcd);
    gm_reader_close(r);
}

CSV_TEST(a_csv_file_begins_with_the_header_line) {
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

/* The call that opens the trace takes long, and began before it. */
static void write_what_began_before(void) {
    gm_trace_setup(path, AUTO, 0, "auto", "1");
    struct gm_event e = {.seq = gm_trace_sequence(),
                         .time_ns = gm_now_ns() - 1000000,
                         .duration_ns = 1000500,
                         .address = 0x1000,
                         .action = GM_ACT_ALLOC};
    gm_trace_event(&e);
    gm_trace_finish();
}

TEST_OF_BOTH(a_call_that_began_before_counts_from_the_start) {
    char error[512];
    struct gm_event e;
    int thread;
    assert_int_equal(in_child(write_what_began_before), 0);
    struct gm_reader *r = gm_reader_open(path, error, sizeof error);
    assert_true(gm_reader_next(r, &e, &thread));
    assert_int_equal(e.time_ns, 0);
    assert_in_range(e.duration_ns, 0, 500);
    gm_reader_close(r);
}

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

TEST_OF_BOTH(threads_merge_in_one_order) {
    assert_int_equal(in_child(eight_threads), 0);
    assert_int_equal(read_back(path, NULL, NULL), 8 * 20000);
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

TEST_OF_BOTH(nested_events_merge_in_one_order) {
    assert_int_equal(in_child(nesting_threads), 0);
    assert_int_equal(read_back(path, NULL, NULL), 23988);
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

BINARY_TEST(short_lived_threads_cost_a_page_each) {
    assert_int_equal(in_child(many_short_threads), 0);
    assert_int_equal(read_back(path, NULL, NULL), 3000);
    assert_in_range(file_size(path), 1000 * 4096, 1001 * 4096 + 4096);
}

/* Full buffers go to the flusher: as many threads as fill them faster than it packs them. */
static void threads_with_full_buffers(void) {
    pthread_t threads[6];
    gm_trace_setup(path, AUTO, 60000000000u, "auto", "1");
    for (int i = 0; i < 6; i++)
        pthread_create(&threads[i], NULL, thread_writes, (void *)(intptr_t)100000);
    for (int i = 0; i < 6; i++)
        pthread_join(threads[i], NULL);
    let_it_flush(6 * 100000);
    raise(SIGKILL);
}

BINARY_TEST(full_buffers_are_packed_and_written_at_once) {
    assert_int_equal(WTERMSIG(in_child(threads_with_full_buffers)), SIGKILL);
    assert_int_equal(read_back(path, NULL, NULL), 6 * 100000);
    assert_in_range(file_size(path), 6 * 100000, 6 * 100000 * 12);
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

TEST_OF_BOTH(the_end_is_safe_while_threads_write) {
    for (int round = 0; round < 5; round++) {
        assert_int_equal(in_child(finishing_while_others_write), 0);
        uint32_t finished;
        read_back(path, &finished, NULL);
        assert_int_equal(finished, 1);
    }
}

static void write_and_close_everything(void) {
    gm_trace_setup(path, AUTO, 0, "auto", "1");
    write_events(0x1000, 10);
    for (int fd = 3; fd < 1024; fd++)
        close(fd);
    write_events(0x2000, 20000);
    gm_trace_finish();
}

TEST_OF_BOTH(a_program_that_closes_all_descriptors_keeps_its_trace) {
    assert_int_equal(in_child(write_and_close_everything), 0);
    assert_int_equal(read_back(path, NULL, NULL), 20010);
}

static void close_everything_while_others_write(void) {
    pthread_t threads[4];
    gm_trace_setup(path, AUTO, 1000000, "auto", "1");
    write_events(0x1, 10);
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, thread_writes, (void *)(intptr_t)20000);
    for (int round = 0; round < 20; round++) {
        for (int fd = 3; fd < 1024; fd++)
            close(fd);
        usleep(1000);
    }
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    gm_trace_finish();
}

/* A write between a check and a close may be lost. */
BINARY_TEST(the_trace_survives_closed_descriptors_while_threads_write) {
    uint32_t finished;
    assert_int_equal(in_child(close_everything_while_others_write), 0);
    assert_in_range(read_back(path, &finished, NULL), 10, 80010);
    assert_int_equal(finished, 1);
}

int main(void) { return run_all(make_folder, remove_folder); }
