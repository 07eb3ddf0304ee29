/* What host and device share of the fast accumulator and of the growing loop: bins, tables, places in pieces.
 */
#include "spgemm_test.h"

#include "spgemm/pieces.h"

static void bins_hold_their_rows(void **state) {
    int before = 0;
    for (int64_t entries = 1; entries < 20000; entries++) {
        int bin = gm_bin_of(entries);
        assert_true(bin >= before && bin <= before + 1);
        if (bin < GM_TABLES)
            assert_true(entries <= gm_bin_entries(bin) && gm_bin_entries(bin) < GM_SLOTS_LEAST << bin);
        if (bin > 0)
            assert_true(entries > gm_bin_entries(bin - 1));
        before = bin;
    }
    assert_int_equal(before, GM_BIN_RANGES);
    assert_int_equal(gm_bin_of(INT32_MAX), GM_BIN_RANGES);
}

static void rows_are_expected_within_their_bound(void **state) {
    assert_int_equal(gm_entries_expected(50, 1000, 1), 50);
    assert_int_equal(gm_entries_expected(5000, 1000, 1), 1000);
    assert_int_equal(gm_entries_expected(1000, 5000, 0.1f), 156);
    assert_int_equal(gm_entries_expected(10, 5000, 0.1f), 10);
    assert_int_equal(gm_entries_expected(INT32_MAX, INT32_MAX - 1, 0.999f), INT32_MAX - 1);
    assert_true(gm_entries_expected(1, 1, 0.001f) == 1);
}

/* Each column keeps one slot, until the table is full of others. */
static void tables_fill_up(void **state) {
    for (int log2_slots = 6; log2_slots <= 13; log2_slots++) {
        int slots = 1 << log2_slots;
        int32_t *table = malloc((size_t)slots * sizeof *table),
                *column = malloc((size_t)slots * sizeof *column);
        int32_t *slot = malloc((size_t)slots * sizeof *slot);
        memset(table, 0xff, (size_t)slots * sizeof *table);
        for (int i = 0; i < slots; i++) {
            column[i] = i % 2 ? i : INT32_MAX - 1 - 64 * i;
            slot[i] = gm_table_find(table, log2_slots, column[i]);
            assert_true(slot[i] >= 0 && slot[i] < slots && table[slot[i]] == column[i]);
        }
        for (int i = 0; i < slots; i++)
            assert_int_equal(gm_table_find(table, log2_slots, column[i]), slot[i]);
        assert_int_equal(gm_table_find(table, log2_slots, 1000000), -1);
        free(table);
        free(column);
        free(slot);
    }
}

/* Rows of 0, 1, 4, 5, 12, 2 entries, pieces of 4: what the loop would list, and no two entries on one place.
 */
static void pieces_have_places_of_their_own(void **state) {
    static const int32_t size[] = {0, 1, 4, 5, 12, 2}, owner[] = {0, 1, 2, 3, 4, 5, 3, 4, 4};
    static const int64_t first[] = {0, 6, 8, 9};
    struct gm_pieces pieces = {4, 3, owner, first};
    bool taken[9 * 4] = {false};
    for (int32_t row = 0; row < 6; row++) {
        for (int32_t rank = 0; rank < size[row]; rank++) {
            int64_t place = gm_piece_place(&pieces, row, rank);
            assert_true(place >= 0 && place < 36 && !taken[place]);
            taken[place] = true;
            assert_int_equal(owner[place / 4], row);
            assert_int_equal(gm_piece_round(&pieces, place / 4), rank / 4);
            assert_int_equal(place % 4, rank % 4);
        }
    }
    for (int64_t piece = 0; piece < 9; piece++)
        assert_int_equal(gm_piece_of(&pieces, owner[piece], gm_piece_round(&pieces, piece)), piece);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bins_hold_their_rows),
        cmocka_unit_test(rows_are_expected_within_their_bound),
        cmocka_unit_test(tables_fill_up),
        cmocka_unit_test(pieces_have_places_of_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
