/* Reads back the trace of all tests that ran before and checks that it is complete for each of them. */
#include "pipeline_world.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shim/trace/writer.h"
#include "tools/cli/reader.h"

static char trace_file[] = "/tmp/gpumem-pipeline-XXXXXX";

struct reading {
    const char *mark;
    uint64_t last_seq, frees, releases, fails, free_fails, unknown, marks;
};

/* Live blocks according to the trace: address and bytes. */
static struct alive { uint64_t address, bytes; } alive[512];
static unsigned alive_count;

static struct alive *find_alive(uint64_t address) {
    for (unsigned i = 0; i < alive_count; i++)
        if (alive[i].address == address)
            return &alive[i];
    return NULL;
}

static void check_event(const struct gm_event *event, struct reading *reading) {
    struct alive *block = find_alive(event->address);
    switch (event->action) {
    case GM_ACT_ALLOC:
        if (block)
            fail_msg("%s: seq %llu: allocated twice", reading->mark, (unsigned long long)event->seq);
        assert_true(alive_count < 512 && event->bytes > 0);
        alive[alive_count++] = (struct alive){event->address, event->bytes};
        break;
    case GM_ACT_FREE:
    case GM_ACT_RELEASE:
        if (!block)
            fail_msg("%s: seq %llu: freed but not live", reading->mark, (unsigned long long)event->seq);
        assert_true(block->bytes == event->bytes);
        *block = alive[--alive_count];
        reading->frees += event->action == GM_ACT_FREE;
        reading->releases += event->action == GM_ACT_RELEASE;
        break;
    case GM_ACT_ALLOC_FAIL:
        assert_int_not_equal(event->result, 0);
        assert_true(event->address == 0);
        reading->fails++;
        break;
    case GM_ACT_FREE_FAIL:
        assert_int_not_equal(event->result, 0);
        reading->free_fails++;
        reading->unknown += block == NULL;
        break;
    default: break;
    }
}

void test_the_trace_tells_it_all(void **state) {
    char error[320];
    gm_trace_finish();
    struct gm_reader *reader = gm_reader_open(trace_file, error, sizeof error);
    struct reading reading = {.mark = "start"};
    struct gm_event event;
    int thread;
    if (!reader)
        fail_msg("%s", error);
    while (gm_reader_next(reader, &event, &thread)) {
        assert_true(event.seq == reading.last_seq + 1); /* no event is missing */
        reading.last_seq = event.seq;
        if (event.action == GM_ACT_MARK) {
            reading.mark = gm_reader_string(reader, event.site);
            reading.marks++;
            assert_non_null(reading.mark);
            assert_int_equal(alive_count, 0); /* each test frees all its blocks */
        }
        check_event(&event, &reading);
    }
    assert_int_equal(gm_reader_damaged(reader), 0);
    assert_int_equal(gm_reader_header(reader)->dropped, 0);
    assert_int_equal(gm_reader_header(reader)->finished, 1);
    assert_string_equal(gm_reader_header(reader)->policy, "counting");
    gm_reader_close(reader);
    assert_int_equal(reading.marks, 17);
    assert_int_equal(reading.releases, 202); /* 201 with their context, one stale record */
    assert_int_equal(reading.fails, 5);
    assert_int_equal(reading.free_fails, 5);
    assert_int_equal(reading.unknown, 4); /* all except the one whose resource failed */
    assert_true(reading.frees > 2 * THREADS * ROUNDS);
}

int begin_trace(void **state) {
    int fd = mkstemp(trace_file);
    if (fd < 0)
        return -1;
    close(fd);
    unlink(trace_file);
    gm_clock_init();
    gm_trace_setup(trace_file, 1, 0, "counting", "test");
    return 0;
}

int remove_trace(void **state) {
    unlink(trace_file);
    return 0;
}
