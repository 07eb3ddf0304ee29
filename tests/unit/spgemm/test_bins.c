/* Functions of the fast accumulator and of the growing loop that host and device share: bins, tables, layouts. */
#include "spgemm_test.h"

#include "spgemm/bins.h"
#include "spgemm/chunks.h"
#include "spgemm/spread.h"

TEST(bins_hold_their_rows) {
    int before = 0;
    for (int64_t entries = 1; entries < 20000; entries++) {
        int bin = spg_bin_of(entries);
        assert_true(bin >= before && bin <= before + 1);
        if (bin < SPG_TABLES)
            assert_true(entries <= spg_bin_entries(bin) && spg_bin_entries(bin) < SPG_TABLE_SLOTS_MIN << bin);
        if (bin > 0)
            assert_true(entries > spg_bin_entries(bin - 1));
        before = bin;
    }
    assert_int_equal(before, SPG_BIN_RANGES);
    assert_int_equal(spg_bin_of(INT32_MAX), SPG_BIN_RANGES);
}

TEST(rows_are_expected_within_their_bound) {
    assert_int_equal(spg_entries_expected(50, 1000, 1), 50);
    assert_int_equal(spg_entries_expected(5000, 1000, 1), 1000);
    assert_int_equal(spg_entries_expected(1000, 5000, 0.1f), 101);
    assert_int_equal(spg_entries_expected(10, 5000, 0.999f), 10);
    assert_int_equal(spg_entries_expected(1000000, 5000, 0), 1);
    assert_int_equal(spg_entries_expected(INT32_MAX, INT32_MAX - 1, 0.999f), 2145336193);
    assert_int_equal(spg_entries_expected(INT32_MAX, 1000, 0.999f), 1000);
    assert_true(spg_entries_expected(1, 1, 0.001f) == 1);
}

/* Rows without a table: by ranges when rows of B are long, by sorting when they are short or C is very wide. */
TEST(rows_get_the_method_of_least_work) {
    int32_t million = 1000000;
    assert_int_equal(spg_bin_of_row(100, 10, 200, million), spg_bin_of(100));
    assert_int_equal(spg_bin_of_row(million, 5, million, million), SPG_BIN_RANGES);
    assert_int_equal(spg_bin_of_row(200000, 1000, 300000, 262144), SPG_BIN_RANGES);
    assert_int_equal(spg_bin_of_row(million, million, 5 * million, million), SPG_BIN_SORTED);
    assert_int_equal(spg_bin_of_row(10000, 1000, 20000, 100 * million), SPG_BIN_SORTED);
    /* A dense row of A that meets a dense column of B: few entries, much work. */
    assert_int_equal(spg_bin_of_row(1, million, 5 * million, million), SPG_BIN_SORTED);
    assert_int_equal(spg_bin_of_row(1, 10000, 50000, million), 5);
    assert_int_equal(spg_bin_of_row(1, 10000, INT32_MAX, million), SPG_TABLES - 1);
    /* A sort of so many intermediate products would need too much memory. */
    assert_int_equal(spg_bin_of_row(million, million, SPG_SORT_MAX + 1, million), SPG_BIN_RANGES);
    for (int32_t terms = 1; terms <= million; terms *= 10)
        for (int64_t bound = terms; bound <= SPG_SORT_MAX; bound *= 10) {
            bool sorted = spg_bin_of_row(bound, terms, (int32_t)bound, million) == SPG_BIN_SORTED;
            int64_t work =
                sorted ? spg_work_by_sorting((int32_t)bound) : spg_work_by_ranges(terms, (int32_t)bound, million);
            assert_true(bound <= spg_bin_entries(SPG_TABLES - 1) || work <= 53 * bound);
        }
}

/* Few segments cover the columns: longer rows leave the tables, unless they had to be computed again. */
TEST(long_rows_leave_tables) {
    assert_int_equal(spg_bins_of_tables(SPG_SEGMENT * SPG_FEW_SEGMENTS, true, 8), 6);
    assert_int_equal(spg_bins_of_tables(SPG_SEGMENT * SPG_FEW_SEGMENTS, false, 8), SPG_TABLES);
    assert_int_equal(spg_bins_of_tables(SPG_SEGMENT * SPG_FEW_SEGMENTS + 1, true, 8), SPG_TABLES);
    assert_int_equal(spg_bins_of_tables(SPG_SEGMENT * SPG_FEW_SEGMENTS + 1, true, 16), SPG_TABLES - 1);
}

/* The number of entries doubles while the largest table holds that many, and in the tables of warps. */
TEST(tables_double_for_entries_of_many_products) {
    int64_t most = spg_bin_entries(SPG_TABLES - 1);
    assert_int_equal(spg_entries_of_table(1000, 1000 * SPG_MANY_TIMES - 1), 1000);
    assert_int_equal(spg_entries_of_table(1000, 1000 * SPG_MANY_TIMES), 2000);
    assert_int_equal(spg_entries_of_table(most / 2, INT32_MAX), most / 2 * 2);
    assert_int_equal(spg_entries_of_table(most / 2 + 1, INT32_MAX), most / 2 + 1);
    most = spg_bin_entries(SPG_WARP_BINS - 1);
    assert_int_equal(spg_entries_of_table(spg_bin_entries(0), 100), spg_bin_entries(0));
    assert_int_equal(spg_entries_of_table(spg_bin_entries(0) + 1, 100), 2 * spg_bin_entries(0) + 2);
    assert_int_equal(spg_entries_of_table(most / 2, 1000), most / 2 * 2);
    assert_int_equal(spg_entries_of_table(most / 2 + 1, 1000), most / 2 + 1);
}

/* Each column keeps its table slot, until the table is full of other columns. */
TEST(tables_fill_up) {
    for (int log2_slots = 6; log2_slots <= 13; log2_slots++) {
        int slots = 1 << log2_slots;
        bool again = false;
        int32_t *table = malloc((size_t)slots * sizeof *table), *column = malloc((size_t)slots * sizeof *column);
        int32_t *slot = malloc((size_t)slots * sizeof *slot);
        memset(table, 0xff, (size_t)slots * sizeof *table);
        for (int i = 0; i < slots; i++) {
            column[i] = i % 2 ? i : INT32_MAX - 1 - 64 * i;
            bool claimed = false;
            slot[i] = spg_table_find(table, log2_slots, column[i], &claimed);
            assert_true(claimed && slot[i] >= 0 && slot[i] < slots && table[slot[i]] == column[i]);
        }
        for (int i = 0; i < slots; i++)
            assert_int_equal(spg_table_find(table, log2_slots, column[i], &again), slot[i]);
        assert_int_equal(spg_table_find(table, log2_slots, 1000000, &again), -1);
        assert_false(again);
        free(table);
        free(column);
        free(slot);
    }
}

/* Every row is in one group; a group has equal rows, at most SPG_ALIKE, and does not cross a slab or a span. */
TEST(rows_form_groups) {
    enum { ROWS = 1000 };
    static const int32_t slabs[] = {1, 7, 100, SPG_ALIKE_SPAN, INT32_MAX}, runs[] = {1, 2, 3, 5, 6, ROWS};
    uint8_t alike[ROWS];
    for (size_t r = 0; r < sizeof runs / sizeof runs[0]; r++) {
        for (int32_t row = 0; row < ROWS; row++)
            alike[row] = row % runs[r] != 0;
        for (size_t s = 0; s < sizeof slabs / sizeof slabs[0]; s++) {
            int32_t next = 0;
            for (int32_t row = 0; row < ROWS; row++) {
                assert_int_equal(spg_group_begins(alike, row, slabs[s]), row == next);
                if (row != next)
                    continue;
                next += spg_group_rows(alike, row, ROWS, slabs[s]);
                int32_t last = next - 1;
                assert_true(next - row <= SPG_ALIKE && row / runs[r] == last / runs[r]);
                assert_true(row / slabs[s] == last / slabs[s] && row / SPG_ALIKE_SPAN == last / SPG_ALIKE_SPAN);
            }
            assert_int_equal(next, ROWS);
        }
    }
}

/* Rows of 0, 1, 4, 5, 12 and 2 entries in chunks of 4, two slabs, a gap of 2 chunks: no two entries share a slot, and
 * none lies before its slab. */
TEST(rows_get_slots_of_their_own) {
    static const int32_t size[] = {0, 1, 4, 5, 12, 2};
    int32_t first_extra[] = {0, 0, 0, 7, 8, 0};
    struct spg_chunk_counts chunk_counts = {.shift = {2, 2}};
    struct spg_spread spread = {.size = 4, .slab = 4, .first_extra = first_extra, .chunk_counts = &chunk_counts};
    bool used[12 * 4] = {false};
    chunk_counts.shift[1] = 2 + spg_extra_chunks(5, 4);
    first_extra[3] = 4 + 2;
    first_extra[4] = 6 + 3;
    for (int32_t row = 0; row < 6; row++) {
        int64_t first = spg_first_chunk(&spread, row);
        for (int32_t rank = 0; rank < size[row]; rank++) {
            int64_t slot = spg_spread_slot(&spread, first, first_extra[row], rank);
            assert_true(slot >= 8 && slot < 44 && !used[slot]);
            assert_true((slot >= 28) == (row >= 4));
            used[slot] = true;
        }
    }
    assert_int_equal(spg_extra_chunks(0, 4) + spg_extra_chunks(4, 4), 0);
    assert_int_equal(spg_extra_chunks(5, 4), 1);
    assert_int_equal(spg_extra_chunks(12, 4), 2);
}

TEST(rounds_of_chunks) {
    static const int64_t first[] = {0, 6, 8, 9};
    struct spg_chunks chunks = {4, 3, NULL, first};
    for (int64_t chunk = 0; chunk < 9; chunk++)
        assert_int_equal(spg_chunk_round(&chunks, chunk), chunk < 6 ? 0 : chunk < 8 ? 1 : 2);
}

int main(void) { return run_all(NULL, NULL); }
