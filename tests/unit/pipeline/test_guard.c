/* GPUMEM_GUARD: its values, one of N requests, and the bound. */

#include "tests/test.h"

#include "shim/base/events.h"
#include "shim/accounts/stats.h"
#include "shim/pipeline/guard.h"

TEST(test_values) {
    static const struct {
        const char *text;
        struct gm_guard_choice choice;
    } good[] = {
        {"off", {0, false, false}},
        {"all", {1, false, false}},
        {"1/1", {1, false, false}},
        {"1/1000", {1000, false, false}},
        {"all,begin", {1, true, false}},
        {"1/20,blocking,begin", {20, true, true}},
        {"all,noraces", {.every = 1, .noraces = true}},
        {"all,align=1", {.every = 1, .align = 1}},
        {"1/9,align=16,begin", {.every = 9, .begin = true, .align = 16}},
    };
    static const char *const bad[] = {"",      "on",        "1/0",           "1/",          "2/3",
                                      "1/x",   "all,",      "all,beginning", "all begin",   "1/12345678901",
                                      "begin", "all,align", "all,align=",    "all,align=2", "all,align=16x"};
    char error[160];
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        struct gm_guard_choice choice;
        memset(&choice, 0x55, sizeof choice);
        assert_int_equal(gm_guard_parse(good[i].text, &choice, error, sizeof error), GM_OK);
        assert_int_equal(choice.every, good[i].choice.every);
        assert_int_equal(choice.begin, good[i].choice.begin);
        assert_int_equal(choice.blocking, good[i].choice.blocking);
        assert_int_equal(choice.noraces, good[i].choice.noraces);
        assert_int_equal(choice.align, good[i].choice.align);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct gm_guard_choice choice = {.every = 77};
        assert_int_equal(gm_guard_parse(bad[i], &choice, error, sizeof error), GM_INVALID_VALUE);
        assert_int_equal(choice.every, 77);
        assert_non_null(strstr(error, "write off, all or 1/N"));
    }
}

static uint64_t total;
static uint64_t total_of(int device) { return total; }

static bool ask(size_t size) {
    struct gm_request request = {.call = GM_CALL_ALLOC, .size = size, .context = 1};
    bool takes = gm_guard_takes(&request);
    gm_stats_mine()->allocs[GM_KIND_CACHE]++;
    return takes;
}

TEST(test_one_of_n) {
    gm_events.device_total = NULL;
    for (uint64_t every = 1; every <= 1000; every *= 10) {
        unsigned taken = 0, due = 0;
        gm_guard_every = every;
        for (unsigned i = 0; i < 200 * every; i++) {
            bool expected = gm_guard_is_due();
            bool takes = ask(100);
            assert_int_equal(takes, expected);
            taken += takes;
            due += expected;
        }
        assert_in_range(taken, every == 1 ? 200 : 150, every == 1 ? 200 : 260);
    }
    gm_guard_every = 1;
    struct gm_request capturing = {.call = GM_CALL_ALLOC_ASYNC, .size = 100, .context = 1, .capturing = true};
    assert_false(gm_guard_takes(&capturing));
}

/* A request is as likely to be taken soon after one that was as long after it. */
TEST(test_without_memory) {
    const unsigned every = 100, turns = 20000;
    unsigned taken = 0;
    gm_events.device_total = NULL;
    gm_guard_every = every;
    for (unsigned i = 0; i < turns; i++) {
        gm_stats_mine()->allocs[GM_KIND_CACHE] += every;
        while (gm_guard_is_due())
            ask(100);
        for (unsigned j = 0; j < every / 4; j++)
            taken += ask(100);
    }
    assert_in_range(taken, turns / 4 - turns / 50, turns / 4 + turns / 50);
}

/* Allocations of the fast case are counted only. The next call that takes the whole way is due. */
TEST(test_due_after_the_fast_case) {
    struct gm_shard *shard = (struct gm_shard *)8;
    gm_guard_every = 100;
    ask(100);
    gm_mine.shard = shard;
    gm_guard_look();
    bool at_once = gm_mine.shard == NULL;
    gm_stats_mine()->allocs[GM_KIND_CACHE] += 50 * gm_guard_every;
    gm_guard_look();
    assert_null(gm_mine.shard);
    assert_true(at_once || gm_guard_is_due());
    gm_guard_every = 1;
    gm_mine.shard = shard;
    gm_guard_look();
    assert_ptr_equal(gm_mine.shard, shard);
    gm_mine.shard = NULL;
}

TEST(test_the_share_falls) {
    const uint64_t granule = (uint64_t)2 << 20, most = 1000 * granule;
    uint64_t refused = gm_stats->guard_refused;
    unsigned taken = 0;
    gm_events.device_total = total_of;
    total = 4 * most;
    gm_guard_every = 1;
    gm_stats->slack_bytes[GM_KIND_GUARD] = most / 2;
    for (unsigned i = 0; i < 100; i++)
        taken += ask(1);
    assert_int_equal(taken, 100);
    gm_stats->slack_bytes[GM_KIND_GUARD] = most / 4 * 3;
    for (unsigned i = taken = 0; i < 1000; i++)
        taken += ask(1);
    assert_in_range(taken, 480, 520);
    gm_stats->slack_bytes[GM_KIND_GUARD] = most;
    assert_false(ask(1));
    assert_true(ask(granule) == false); /* it needs nothing more, but the share is 0 */
    gm_stats->slack_bytes[GM_KIND_GUARD] = 0;
    assert_true(ask(1));
    assert_in_range(gm_stats->guard_refused - refused, 480, 522);
}

TEST(test_pause_after_out_of_memory) {
    unsigned paused[3] = {0};
    gm_events.device_total = NULL;
    for (unsigned i = 0; i < 3; i++) {
        assert_true(ask(100));
        gm_guard_served(i == 3);
        while (!ask(100))
            paused[i]++;
    }
    assert_true(paused[0] && paused[1] == 2 * paused[0] && paused[2] == 4 * paused[0]);
    gm_guard_served(true);
    gm_guard_served(false);
    unsigned again = 0;
    while (!ask(100))
        again++;
    assert_int_equal(again, paused[0]);
}

int main(void) { return run_all(NULL, NULL); }
