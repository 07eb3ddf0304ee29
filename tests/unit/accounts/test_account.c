/* The list of what a card's memory is: it adds up whatever was found out, and survives the way through a trace. */
#include "tests/test.h"

#include "shim/accounts/account.h"

#define GIB ((uint64_t)1 << 30)

static struct gm_account settled(const struct gm_account_facts *facts) {
    struct gm_account account = {.taken_ns = 1};
    gm_account_settle(&account, facts);
    assert_true(gm_account_is_known(&account));
    return account;
}

static const struct gm_account_facts usual = {.total = 80 * GIB,
                                              .free = 20 * GIB,
                                              .own = 50 * GIB,
                                              .reserved = 40 * GIB,
                                              .live = 30 * GIB,
                                              .slack = 1 * GIB,
                                              .page_waste = 1 * GIB,
                                              .handles = 2 * GIB,
                                              .pools = 5 * GIB,
                                              .in_pools = 2 * GIB};

TEST(rows) {
    const struct gm_account account = settled(&usual);
    const uint64_t expected[GM_ACCOUNT_ROWS] = {30 * GIB, 2 * GIB, 7 * GIB,  3 * GIB,
                                                2 * GIB,  6 * GIB, 10 * GIB, 20 * GIB};
    assert_memory_equal(account.rows, expected, sizeof expected);
    assert_int_equal(account.elsewhere, 0);
    assert_int_equal(gm_account_used(&account), 50 * GIB);
    assert_string_equal(gm_account_label(&account, GM_ACCOUNT_CONTEXTS), "contexts");
}

/* What a suspend moved away is not taken for memory that left by itself, nor does it hide the contexts. */
TEST(suspended) {
    struct gm_account_facts facts = usual;
    facts.own = 20 * GIB;
    facts.free = 50 * GIB;
    facts.suspended = 29 * GIB;
    const struct gm_account account = settled(&facts);
    assert_int_equal(account.suspended, 29 * GIB);
    assert_int_equal(account.elsewhere, 0);
    assert_int_equal(account.rows[GM_ACCOUNT_LIVE], 30 * GIB);
    assert_int_equal(account.rows[GM_ACCOUNT_CONTEXTS], 5 * GIB);
    assert_string_equal(gm_account_reason(&account, 66 * GIB), "other processes");
}

/* Contexts and other processes are one row, under a name that says so. */
TEST(card_that_does_not_say_what_is_whose) {
    struct gm_account_facts facts = usual;
    facts.own = 0;
    const struct gm_account account = settled(&facts);
    assert_true(account.shared);
    assert_int_equal(account.rows[GM_ACCOUNT_CONTEXTS], 16 * GIB);
    assert_int_equal(account.rows[GM_ACCOUNT_OTHERS], 0);
    assert_string_equal(gm_account_label(&account, GM_ACCOUNT_CONTEXTS), "rest");
    assert_string_equal(gm_account_name(GM_ACCOUNT_CONTEXTS), "contexts");
    assert_non_null(strstr(gm_account_meaning(&account, GM_ACCOUNT_CONTEXTS), "other processes"));
}

/* Facts of different moments, managed memory that has left the card, nonsense: the sum is the card all the same. */
TEST(any_facts) {
    uint64_t seed = 1;
    for (int i = 0; i < 100000; i++) {
        uint64_t words[sizeof(struct gm_account_facts) / sizeof(uint64_t)];
        for (size_t w = 0; w < sizeof words / sizeof *words; w++) {
            seed = seed * 6364136223846793005ull + 1442695040888963407ull;
            words[w] = seed >> 24 & 7 ? seed >> 30 : 0;
        }
        struct gm_account_facts facts;
        memcpy(&facts, words, sizeof facts);
        facts.total += !facts.total;
        settled(&facts);
    }
}

struct trip {
    struct gm_account account;
    unsigned items;
    bool total; /* was the latest item */
};

static void carry(unsigned item, uint64_t value, const struct gm_account_pool *pool, void *arg) {
    struct trip *trip = arg;
    assert_false(trip->total);
    gm_account_add(&trip->account, item, value, pool);
    trip->items++;
    trip->total = item == GM_ACCOUNT_ITEM_TOTAL;
}

TEST(through_a_trace) {
    struct gm_account_facts facts = usual;
    facts.suspended = 4 * GIB;
    struct gm_account account = settled(&facts);
    account.mapped = 3;
    account.pooled = 2 * GIB;
    account.graphs = 5;
    account.given = 7;
    account.pool_count = 2;
    account.pools[0] = (struct gm_account_pool){0x1234, 3 * GIB, 1 * GIB};
    account.pools[1] = (struct gm_account_pool){0, 2 * GIB, 1 * GIB};
    struct trip trip = {.account = {.taken_ns = 1}};
    gm_account_each(&account, carry, &trip);
    assert_true(trip.total);
    assert_memory_equal(&trip.account, &account, sizeof account);
    gm_account_add(&trip.account, 31, 1, &account.pools[0]); /* of a later version, or damaged */
    gm_account_add(&trip.account, 1000, 1, &account.pools[0]);
    for (int i = 0; i < 20; i++)
        gm_account_add(&trip.account, GM_ACCOUNT_ITEM_POOL, 1, &account.pools[0]);
    assert_true(gm_account_is_known(&trip.account));
}

static void expect_reason(struct gm_account_facts facts, uint64_t requested, uint64_t given, const char *words) {
    struct gm_account account = settled(&facts);
    account.given = given;
    assert_string_equal(gm_account_reason(&account, requested), words);
}

TEST(reasons) {
    struct gm_account_facts facts = usual;
    expect_reason(facts, 81 * GIB, 0, "larger than the device's memory");
    expect_reason(facts, 19 * GIB, 0, "more was free than requested: fragmentation, rounding, or a limit of the stack");
    expect_reason(facts, 60 * GIB, 0, "this process holds too much");
    expect_reason(facts, 26 * GIB, 0, "kept memory");
    expect_reason(facts, 26 * GIB, 7 * GIB,
                  "more was free than requested: fragmentation, rounding, or a limit of the stack");
    expect_reason(facts, 29 * GIB, 7 * GIB, "unused memory of the program's pools");
    expect_reason(facts, 40 * GIB, 7 * GIB, "other processes");
    facts.own = 59 * GIB;
    expect_reason(facts, 40 * GIB, 7 * GIB, "contexts, modules and graphs");
    facts.own = 0;
    expect_reason(facts, 40 * GIB, 7 * GIB, "contexts, modules, graphs or other processes");
}

int main(void) { return run_all(NULL, NULL); }
