/* The book-keeping of shim/driver/order.c: which streams are reported to rely on a free. Streams are only numbers
 * here. */

#include "tests/test.h"

#include "shim/driver/order.h"

enum {
    CONTEXT = 0x1000,
    OTHER_CONTEXT = 0x2000,
    LEGACY = 1,
    ONE = 0x10,
    TWO,
    THREE,
    BLOCKING = 0x20,
    SECOND_BLOCKING,
    EVENT = 0x100,
    SITE = 5,
    OTHER_SITE,
    LATE_SITE
};

static struct gm_order *order;

static int set_up(void **state) {
    order = calloc(1, sizeof *order);
    return order ? 0 : -1;
}

static int tear_down(void **state) {
    free(order);
    return 0;
}

static unsigned stream_in(uint64_t context, uint64_t handle) {
    enum gm_order_kind kind = handle == LEGACY                       ? GM_ORDER_LEGACY
                              : handle >= BLOCKING && handle < EVENT ? GM_ORDER_BLOCKING
                                                                     : GM_ORDER_NON_BLOCKING;
    return gm_order_stream(order, &(struct gm_order_stream){.context = context, .handle = handle, .kind = kind});
}

static unsigned stream(uint64_t handle) { return stream_in(CONTEXT, handle); }
static void work(uint64_t handle) { gm_order_submit(order, stream(handle), false); }
static void visible_work(uint64_t handle) { gm_order_submit(order, stream(handle), true); }

/* A free that finds every candidate stream busy. */
static void free_at(uint32_t site) {
    struct gm_order_busy streams[GM_ORDER_BUSY];
    unsigned count = gm_order_candidates(order, CONTEXT, streams);
    for (unsigned i = 0; i < count; i++)
        streams[i].busy = true;
    gm_order_free(order, streams, count, site);
}

static uint64_t count_at(uint32_t site) {
    for (unsigned i = 0; i < order->found; i++)
        if (order->findings[i].site == site)
            return order->findings[i].count;
    return 0;
}

static void expect(const char *text) {
    char text_found[256];
    assert_int_equal(order->found, 1);
    gm_order_say(&order->findings[0], text_found, sizeof text_found);
    assert_string_equal(text_found, text);
}

/* ---- streams */

TEST_WITH(another_stream_relies, set_up, tear_down) {
    work(ONE);
    free_at(SITE);
    work(TWO);
    work(TWO); /* is ordered behind it now */
    assert_int_equal(count_at(SITE), 1);
    expect("stream 2 (0x11) may rely on the wait for stream 1 (0x10)");
}

TEST_WITH(one_stream_is_an_order, set_up, tear_down) {
    for (int i = 0; i < 3; i++) {
        work(ONE);
        free_at(SITE);
        work(ONE);
    }
    assert_int_equal(order->found, 0);
    assert_int_equal(order->frees, 3);
}

TEST_WITH(work_before_the_free_does_not_rely, set_up, tear_down) {
    work(ONE);
    work(TWO);
    free_at(SITE);
    assert_int_equal(order->found, 0);
}

TEST_WITH(an_event_orders, set_up, tear_down) {
    work(ONE);
    gm_order_record(order, stream(ONE), EVENT);
    free_at(SITE);
    gm_order_wait_event(order, stream(TWO), EVENT);
    work(TWO);
    assert_int_equal(order->found, 0);
    work(THREE); /* does not wait for it */
    assert_int_equal(count_at(SITE), 1);
}

TEST_WITH(an_event_recorded_too_early_does_not, set_up, tear_down) {
    gm_order_record(order, stream(ONE), EVENT);
    work(ONE);
    free_at(SITE);
    gm_order_wait_event(order, stream(TWO), EVENT);
    work(TWO);
    assert_int_equal(count_at(SITE), 1);
}

TEST_WITH(order_is_handed_on, set_up, tear_down) {
    work(ONE);
    free_at(SITE);
    gm_order_record(order, stream(ONE), EVENT);
    gm_order_wait_event(order, stream(TWO), EVENT);
    work(TWO);
    gm_order_record(order, stream(TWO), EVENT + 1);
    gm_order_wait_event(order, stream(THREE), EVENT + 1);
    work(THREE);
    assert_int_equal(order->found, 0);
}

TEST_WITH(a_stream_behind_a_relying_one_is_not_named, set_up, tear_down) {
    work(ONE);
    free_at(SITE);
    work(TWO);
    gm_order_record(order, stream(TWO), EVENT);
    gm_order_wait_event(order, stream(THREE), EVENT);
    work(THREE);
    expect("stream 2 (0x11) may rely on the wait for stream 1 (0x10)");
}

TEST_WITH(an_unknown_event_counts_as_an_order, set_up, tear_down) {
    work(ONE);
    free_at(SITE);
    gm_order_wait_event(order, stream(TWO), EVENT);
    work(TWO);
    assert_int_equal(order->found, 0);
}

TEST_WITH(the_host_orders, set_up, tear_down) {
    for (int wait = 0; wait < 4; wait++) {
        work(ONE);
        gm_order_record(order, stream(ONE), EVENT);
        free_at(SITE);
        if (wait == 0)
            gm_order_host_stream(order, stream(ONE));
        else if (wait == 1)
            gm_order_host_event(order, EVENT);
        else if (wait == 2)
            gm_order_host_context(order, CONTEXT);
        else
            gm_order_tells_host(order, stream(ONE));
        work(TWO);
        assert_int_equal(order->found, 0);
        gm_order_host_context(order, CONTEXT);
    }
}

TEST_WITH(a_wait_for_another_stream_is_no_order, set_up, tear_down) {
    work(ONE);
    work(THREE);
    free_at(SITE);
    gm_order_host_stream(order, stream(THREE));
    gm_order_host_context(order, OTHER_CONTEXT);
    work(TWO);
    expect("stream 3 (0x11) may rely on the wait for stream 1 (0x10)");
}

TEST_WITH(a_wait_unseen_counts_as_an_order, set_up, tear_down) {
    work(ONE);
    free_at(SITE);
    gm_order_waits_unseen(order, stream(TWO));
    work(TWO);
    assert_int_equal(order->found, 0);
}

TEST_WITH(the_default_stream_orders_blocking_ones, set_up, tear_down) {
    work(BLOCKING);
    free_at(SITE);
    work(LEGACY);
    work(SECOND_BLOCKING); /* behind the default stream, and so behind the first stream */
    assert_int_equal(order->found, 0);
    work(BLOCKING);
    free_at(SITE);
    work(SECOND_BLOCKING);
    assert_int_equal(count_at(SITE), 1);
}

TEST_WITH(the_default_stream_does_not_order_others, set_up, tear_down) {
    work(ONE);
    free_at(SITE);
    work(LEGACY);
    expect("the default stream may rely on the wait for stream 1 (0x10)");
}

TEST_WITH(default_streams_of_threads_are_distinct, set_up, tear_down) {
    struct gm_order_stream first = {CONTEXT, 2, 71, GM_ORDER_BLOCKING}, second = {CONTEXT, 2, 72, GM_ORDER_BLOCKING};
    gm_order_submit(order, gm_order_stream(order, &first), false);
    free_at(SITE);
    gm_order_submit(order, gm_order_stream(order, &first), false);
    assert_int_equal(order->found, 0);
    gm_order_submit(order, gm_order_stream(order, &second), false);
    expect("the default stream of thread 72 may rely on the wait for the default stream of thread 71");
}

TEST_WITH(a_free_waits_for_its_context, set_up, tear_down) {
    gm_order_submit(order, stream_in(OTHER_CONTEXT, ONE), false);
    free_at(SITE);
    work(TWO);
    assert_int_equal(order->found, 0);
    gm_order_submit(order, stream_in(OTHER_CONTEXT, THREE), false);
    work(TWO);
    free_at(SITE);
    gm_order_submit(order, stream_in(OTHER_CONTEXT, THREE), false); /* work of another context relies on it as well */
    expect("stream 3 (0x12) may rely on the wait for stream 2 (0x11)");
}

/* ---- sites and counts */

TEST_WITH(the_last_free_that_waited_is_named, set_up, tear_down) {
    struct gm_order_busy streams[GM_ORDER_BUSY];
    work(ONE);
    free_at(OTHER_SITE);
    work(ONE);
    free_at(SITE);
    assert_int_equal(gm_order_candidates(order, CONTEXT, streams), 0);
    free_at(LATE_SITE); /* has no work to wait for */
    work(TWO);
    assert_int_equal(count_at(SITE), 1);
    assert_int_equal(order->found, 1);
}

TEST_WITH(an_innocent_site_is_not_named, set_up, tear_down) {
    for (int i = 0; i < 3; i++) {
        work(ONE);
        free_at(OTHER_SITE);
        gm_order_host_stream(order, stream(ONE));
        work(TWO);
        gm_order_host_context(order, CONTEXT);
        work(ONE);
        free_at(SITE);
        work(TWO);
        gm_order_host_context(order, CONTEXT);
    }
    assert_int_equal(count_at(SITE), 3);
    assert_int_equal(count_at(OTHER_SITE), 0);
}

TEST_WITH(idle_streams_are_no_reason, set_up, tear_down) {
    struct gm_order_busy streams[GM_ORDER_BUSY];
    visible_work(ONE);
    unsigned count = gm_order_candidates(order, CONTEXT, streams);
    assert_int_equal(count, 1);
    assert_false(gm_order_free(order, streams, count, SITE));
    work(TWO);
    work(ONE);
    assert_int_equal(order->found, 0);
    assert_int_equal(order->frees, 0);
}

TEST_WITH(a_stream_that_was_waited_for_is_not_queried, set_up, tear_down) {
    struct gm_order_busy streams[GM_ORDER_BUSY];
    work(ONE);
    work(TWO);
    gm_order_host_stream(order, stream(ONE));
    assert_int_equal(gm_order_candidates(order, CONTEXT, streams), 1);
    assert_int_equal(streams[0].stream.handle, TWO);
}

/* Work that was done at one free is no reason at the next. */
TEST_WITH(what_a_free_found_done_is_no_reason, set_up, tear_down) {
    struct gm_order_busy streams[GM_ORDER_BUSY];
    visible_work(ONE);
    gm_order_free(order, streams, gm_order_candidates(order, CONTEXT, streams), OTHER_SITE);
    work(ONE);
    free_at(SITE);
    work(ONE);
    assert_int_equal(order->found, 0);
}

TEST_WITH(a_free_counts_once, set_up, tear_down) {
    work(ONE);
    work(TWO);
    free_at(SITE);
    work(THREE);
    work(ONE);
    assert_int_equal(count_at(SITE), 1);
    expect("stream 3 (0x12) may rely on the wait for stream 1 (0x10), and others");
}

/* Each free is counted once, in whatever order the relying streams come. */
TEST_WITH(frees_are_not_counted_twice, set_up, tear_down) {
    work(ONE);
    work(TWO);
    free_at(SITE);
    work(ONE);
    free_at(SITE); /* waits for the first stream only */
    work(THREE);
    work(BLOCKING);
    assert_int_equal(count_at(SITE), 2);
}

/* A reused handle names another stream. */
TEST_WITH(streams_are_numbered, set_up, tear_down) {
    work(ONE);
    gm_order_destroyed(order, stream(ONE));
    free_at(SITE);
    work(ONE);
    expect("stream 2 (0x10) may rely on the wait for stream 1 (0x10)");
}

TEST_WITH(the_most_frequent_come_first, set_up, tear_down) {
    for (uint32_t site = 1; site <= GM_ORDER_SITES + 2; site++)
        for (uint32_t i = 0; i < (site == 9 ? 3 : 1); i++) {
            work(ONE);
            free_at(site);
            work(TWO);
            gm_order_host_context(order, CONTEXT);
        }
    assert_int_equal(gm_order_sort(order), GM_ORDER_SITES);
    assert_int_equal(order->findings[0].site, 9);
    assert_int_equal(order->findings[0].count, 3);
    assert_int_equal(order->findings[1].site, 1);
    assert_int_equal(order->unlisted, 2);
}

/* ---- the host */

TEST_WITH(the_host_relies, set_up, tear_down) {
    visible_work(ONE);
    free_at(SITE);
    assert_int_equal(order->found, 0);
    work(ONE);
    expect("the host may rely on the wait for stream 1 (0x10)");
    assert_int_equal(count_at(SITE), 1);
}

TEST_WITH(the_host_relies_until_the_end, set_up, tear_down) {
    visible_work(ONE);
    free_at(SITE);
    gm_order_end(order);
    gm_order_end(order);
    assert_int_equal(count_at(SITE), 1);
}

TEST_WITH(a_host_that_waits_does_not_rely, set_up, tear_down) {
    visible_work(ONE);
    free_at(SITE);
    gm_order_host_stream(order, stream(ONE));
    work(ONE);
    visible_work(ONE);
    gm_order_host_context(order, CONTEXT);
    work(ONE);
    free_at(SITE); /* the host has seen all that it may see */
    work(ONE);
    gm_order_end(order);
    assert_int_equal(order->found, 0);
}

TEST_WITH(what_the_host_does_not_see_is_no_reason, set_up, tear_down) {
    work(ONE);
    free_at(SITE);
    work(ONE);
    gm_order_end(order);
    assert_int_equal(order->found, 0);
}

TEST_WITH(a_host_function_informs_streams_only, set_up, tear_down) {
    visible_work(ONE);
    gm_order_tells_host(order, stream(ONE));
    free_at(SITE);
    work(TWO);
    assert_int_equal(order->found, 0);
    work(ONE);
    expect("the host may rely on the wait for stream 1 (0x10)");
}

/* ---- streams that come and go */

TEST_WITH(a_destroyed_stream_may_be_relied_on, set_up, tear_down) {
    struct gm_order_busy streams[GM_ORDER_BUSY];
    work(ONE);
    gm_order_destroyed(order, stream(ONE));
    assert_int_equal(gm_order_candidates(order, CONTEXT, streams), 1);
    assert_false(streams[0].alive);
    free_at(SITE);
    work(ONE); /* a new stream with that handle */
    assert_int_equal(count_at(SITE), 1);
}

TEST_WITH(a_destroyed_context_destroys_its_streams, set_up, tear_down) {
    visible_work(ONE);
    free_at(SITE);
    gm_order_context_destroyed(order, CONTEXT);
    gm_order_submit(order, stream_in(OTHER_CONTEXT, ONE), false);
    gm_order_end(order);
    assert_int_equal(order->found, 0);
}

/* Entries are reused, those of destroyed streams first. For an evicted stream no missing order is reported. */
TEST_WITH(more_streams_than_entries, set_up, tear_down) {
    for (unsigned i = 0; i < GM_ORDER_STREAMS; i++)
        work(EVENT + i);
    gm_order_destroyed(order, stream(EVENT + 7));
    work(ONE);
    assert_int_equal(stream(ONE), 7);
    assert_false(order->lost);
    free_at(SITE);
    work(TWO);
    assert_true(order->lost);
    assert_int_equal(order->found, 0);
    for (unsigned i = 0; i < 3 * GM_ORDER_STREAMS; i++) {
        visible_work(0x1000 + i);
        free_at(SITE);
    }
    assert_int_equal(order->count, GM_ORDER_STREAMS);
}

TEST_WITH(more_events_than_entries, set_up, tear_down) {
    work(ONE);
    for (uint64_t i = 0; i < 4 * GM_ORDER_EVENTS; i++)
        gm_order_record(order, stream(ONE), 0x5000 + i * 0x40);
    free_at(SITE);
    gm_order_wait_event(order, stream(TWO), 0x5000);
    work(TWO);
    gm_order_wait_event(order, stream(THREE), 0x5000 + (4 * GM_ORDER_EVENTS - 1) * 0x40);
    work(THREE);
    assert_int_equal(order->found, 0);
}

int main(void) { return run_all(NULL, NULL); }
