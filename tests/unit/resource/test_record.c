/* The states of blocks: what the table of transitions allows, and that a record goes its ways. */
#include <string.h>

#include "tests/test.h"

#include "shim/resource/record.h"
#include "shim/resource/registry.h"

enum {
    STATES = 0
#define X(enumerator, name, what) +1
    GM_BLOCK_STATES(X)
#undef X
};

#define X(from, to, when) {GM_BLOCK_##from, GM_BLOCK_##to},
static const unsigned rows[][2] = {GM_BLOCK_TRANSITIONS(X)};
#undef X
enum { ROWS = sizeof rows / sizeof *rows };

TEST(the_table_is_what_is_allowed) {
    unsigned allowed = 0;
    for (unsigned from = 0; from < STATES; from++)
        for (unsigned to = 0; to < STATES; to++)
            allowed += gm_block_may_become(from, to);
    assert_int_equal(allowed, ROWS);
    for (unsigned row = 0; row < ROWS; row++)
        assert_true(gm_block_may_become(rows[row][0], rows[row][1]));
}

/* A lock-free look finds live blocks, so only a claim leads there and away; a list holds what is free. */
TEST(who_may_change_what) {
    for (unsigned from = 0; from < STATES; from++) {
        assert_int_equal(gm_block_may_become(from, GM_BLOCK_LIVE), from == GM_BLOCK_CLAIMED);
        assert_false(gm_block_may_become(from, from));
        bool free = from == GM_BLOCK_PENDING || from == GM_BLOCK_READY || from == GM_BLOCK_RELEASING;
        assert_false(free && gm_block_may_become(from, GM_BLOCK_GONE));
    }
}

static uint64_t reachable(unsigned from) {
    uint64_t seen = 1ull << from, before = 0;
    while (seen != before) {
        before = seen;
        for (unsigned row = 0; row < ROWS; row++)
            if (before >> rows[row][0] & 1)
                seen |= 1ull << rows[row][1];
    }
    return seen;
}

TEST(every_state_is_entered_and_left) {
    for (unsigned from = 0; from < STATES; from++)
        assert_int_equal(reachable(from), (1ull << STATES) - 1);
}

TEST(a_record_says_its_state) {
    const uint64_t address = 0x7d0000000000ull;
    struct gm_registry *registry = gm_registry_new();
    struct gm_block block = {.address = address, .size = 512, .reserved = 512, .context_id = 1}, out;
    struct gm_block_record *record = gm_registry_add_held(registry, &block, NULL);
    assert_int_equal(record->block.state, GM_BLOCK_CLAIMED);
    gm_record_revive(record, address);
    assert_int_equal(record->block.state, GM_BLOCK_LIVE);
    assert_true(gm_registry_take(registry, address, &out));
    assert_int_equal(record->block.state, GM_BLOCK_GONE);
    record = gm_registry_add_held(registry, &block, NULL);
    gm_record_revive(record, address);
    assert_true(gm_record_claim(record, address));
    assert_int_equal(record->block.state, GM_BLOCK_CLAIMED);
    gm_registry_remove(registry, record);
    assert_int_equal(record->block.state, GM_BLOCK_GONE);
    gm_registry_discard(registry);
}

int main(void) { return run_all(NULL, NULL); }
