/* What host and device share of the fast accumulator and of the growing loop: bins, tables, places in pieces.
 */
#include "spgemm_test.h"

#include "spgemm/pieces.h"
#include "spgemm/spread.h"

static void bins_hold_their_rows(void **state) {
    int before = 0;
    for (int64_t entries = 1; entries < 20000; entries++) {
        int bin = spg_bin_of(entries);
        assert_true(bin >= before && bin <= before + 1);
        if (bin < SPG_TABLES)
            assert_true(entries <= spg_bin_entries(bin) && spg_bin_entries(bin) < SPG_SLOTS_LEAST << bin);
        if (bin > 0)
            assert_true(entries > spg_bin_entries(bin - 1));
        before = bin;
    }
    assert_int_equal(before, SPG_BIN_RANGES);
    assert_int_equal(spg_bin_of(INT32_MAX), SPG_BIN_RANGES);
}

static void rows_are_expected_within_their_bound(void **state) {
    assert_int_equal(spg_entries_expected(50, 1000, 1), 50);
    assert_int_equal(spg_entries_expected(5000, 1000, 1), 1000);
    assert_int_equal(spg_entries_expected(1000, 5000, 0.1f), 101);
    assert_int_equal(spg_entries_expected(10, 5000, 0.999f), 10);
    assert_int_equal(spg_entries_expected(1000000, 5000, 0), 1);
    assert_int_equal(spg_entries_expected(INT32_MAX, INT32_MAX - 1, 0.999f), 2145336193);
    assert_int_equal(spg_entries_expected(INT32_MAX, 1000, 0.999f), 1000);
    assert_true(spg_entries_expected(1, 1, 0.001f) == 1);
}

/* As long as a table holds twice the entries. */
static void tables_have_room_for_what_is_looked_for_often(void **state) {
    int64_t most = spg_bin_entries(SPG_TABLES - 1);
    assert_int_equal(spg_entries_of_table(100, 100 * SPG_MANY_TIMES - 1), 100);
    assert_int_equal(spg_entries_of_table(100, 100 * SPG_MANY_TIMES), 200);
    assert_int_equal(spg_entries_of_table(most / 2, INT32_MAX), most / 2 * 2);
    assert_int_equal(spg_entries_of_table(most / 2 + 1, INT32_MAX), most / 2 + 1);
}

/* Each column keeps one slot, until the table is full of others. */
static void tables_fill_up(void **state) {
    for (int log2_slots = 6; log2_slots <= 13; log2_slots++) {
        int slots = 1 << log2_slots;
        int32_t *table = malloc((size_t)slots * sizeof *table), *column = malloc((size_t)slots * sizeof *column);
        int32_t *slot = malloc((size_t)slots * sizeof *slot);
        memset(table, 0xff, (size_t)slots * sizeof *table);
        for (int i = 0; i < slots; i++) {
            column[i] = i % 2 ? i : INT32_MAX - 1 - 64 * i;
            slot[i] = spg_table_find(table, log2_slots, column[i]);
            assert_true(slot[i] >= 0 && slot[i] < slots && table[slot[i]] == column[i]);
        }
        for (int i = 0; i < slots; i++)
            assert_int_equal(spg_table_find(table, log2_slots, column[i]), slot[i]);
        assert_int_equal(spg_table_find(table, log2_slots, 1000000), -1);
        free(table);
        free(column);
        free(slot);
    }
}

/* Rows of 0, 1, 4, 5, 12, 2 entries in pieces of 4, two slabs, a gap of 2 pieces: no two entries on one
 * place, and none before its slab. */
static void rows_spread_over_places_of_their_own(void **state) {
    static const int32_t size[] = {0, 1, 4, 5, 12, 2};
    int32_t more[] = {0, 0, 0, 7, 8, 0};
    struct spg_spill spill = {.shift = {2, 2}};
    struct spg_spread spread = {.size = 4, .slab = 4, .more = more, .spill = &spill};
    bool taken[12 * 4] = {false};
    spill.shift[1] = 2 + spg_further_pieces(5, 4);
    more[3] = 4 + 2;
    more[4] = 6 + 3;
    for (int32_t row = 0; row < 6; row++) {
        int64_t first = spg_first_piece(&spread, row);
        for (int32_t rank = 0; rank < size[row]; rank++) {
            int64_t place = spg_spread_place(&spread, first, more[row], rank);
            assert_true(place >= 8 && place < 44 && !taken[place]);
            assert_true((place >= 28) == (row >= 4));
            taken[place] = true;
        }
    }
    assert_int_equal(spg_further_pieces(0, 4) + spg_further_pieces(4, 4), 0);
    assert_int_equal(spg_further_pieces(5, 4), 1);
    assert_int_equal(spg_further_pieces(12, 4), 2);
}

static void rounds_of_pieces(void **state) {
    static const int64_t first[] = {0, 6, 8, 9};
    struct spg_pieces pieces = {4, 3, NULL, first};
    for (int64_t piece = 0; piece < 9; piece++)
        assert_int_equal(spg_piece_round(&pieces, piece), piece < 6 ? 0 : piece < 8 ? 1 : 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bins_hold_their_rows),
        cmocka_unit_test(rows_are_expected_within_their_bound),
        cmocka_unit_test(tables_have_room_for_what_is_looked_for_often),
        cmocka_unit_test(tables_fill_up),
        cmocka_unit_test(rows_spread_over_places_of_their_own),
        cmocka_unit_test(rounds_of_pieces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
