/* Bins and hash tables of the fast accumulator.
 *
 * Rows of C are sorted into bins by an upper bound on their entries. Each bin has a table size and a number of threads
 * for a row: so small rows do not clear large tables, and large rows are not left to few threads. A table lies in
 * shared memory and resolves collisions by open addressing.
 *
 * Rows that may exceed the largest table are computed by ranges of columns (kernels_ranges.cu) or by sorting
 * (kernels_sorted.cu), whichever needs less work. A range visits every entry of A's row. So ranges suit rows of B that
 * reach many columns; sorting suits long rows of A that meet short rows of B, and very wide matrices. The work of
 * either is known from the row's lengths before it starts.
 *
 * Source: Nagasaka, Nukada, Matsuoka: High-performance and memory-saving sparse general matrix-matrix multiplication
 * for NVIDIA Pascal GPU, ICPP 2017. */
#ifndef SPG_BINS_H
#define SPG_BINS_H

#include "spgemm/both.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SPG_TABLES          8                /* bin b: tables of 64 << b table slots, 8 << b threads for a row */
#define SPG_BIN_RANGES      SPG_TABLES       /* the bin of rows that may exceed the largest table */
#define SPG_BIN_SORTED      (SPG_TABLES + 1) /* the bin of rows that are computed by sorting */
#define SPG_BINS            (SPG_TABLES + 2)
#define SPG_TABLE_SLOTS_MIN 64
#define SPG_GROUP_MIN       8
#define SPG_EMPTY           (-1)
#define SPG_SEGMENT         131072 /* columns that a block of threads computes at a time */

/* Short rows: so many entries of A, each with as many of B. */
#define SPG_SHORT         8
#define SPG_SHORT_COLUMNS ((1 << 26) - 1) /* a column and the number of a product fit 32 bits */

/* Largest number of entries that a bin accepts: 13/16 of its table slots. Probing gets long beyond that. */
static inline SPG_BOTH int64_t spg_bin_entries(int bin) { return (int64_t)(SPG_TABLE_SLOTS_MIN << bin) * 13 / 16; }

/* Bin of a row with at most `entries` entries; entries >= 1. */
static inline SPG_BOTH int spg_bin_of(int64_t entries) {
    int bin = 0;
    while (bin < SPG_TABLES && entries > spg_bin_entries(bin))
        bin++;
    return bin;
}

/* Number of entries for which a row's table is chosen: `bound`, its intermediate products, times `share`, which comes
 * from sampled rows (spg_table_share; 0 <= share <= 1), but at most the number of columns. A row with more entries
 * overflows its table and is computed again. */
static inline SPG_BOTH int64_t spg_entries_expected(int32_t bound, int32_t columns, float share) {
    int64_t most = bound < columns ? bound : columns;
    if (share >= 1)
        return most;
    int64_t guess = (int64_t)((float)bound * share) + 1;
    return guess < most ? guess : most;
}

/* The same, doubled where a half-empty table pays, because it finds an entry with fewer probes: when each entry
 * receives SPG_MANY_TIMES intermediate products or more; and for rows that warps compute: the slowest of a warp's
 * threads decides, and takes 5 probes in tables of cage14 that are not doubled, 2.5 in doubled ones. */
#define SPG_MANY_TIMES 16
#define SPG_WARP_BINS  4 /* bins 0 to 3: a warp or a part of one computes a row */
static inline SPG_BOTH int64_t spg_entries_of_table(int64_t entries, int32_t bound) {
    bool many = bound / SPG_MANY_TIMES >= entries && 2 * entries <= spg_bin_entries(SPG_TABLES - 1);
    bool warps = entries > spg_bin_entries(0) && 2 * entries <= spg_bin_entries(SPG_WARP_BINS - 1);
    return many || warps ? 2 * entries : entries;
}

/* Where C has at most so many columns, a row has a sum for each of them (kernels_narrow.cu). The bin follows from its
 * entries of A: a part of a warp computes it, in bin SPG_WARP_BINS a block. */
#define SPG_NARROW    512
#define SPG_MASK_BITS 64 /* of a word of a row's mask, a bit for each column */
static inline SPG_BOTH int spg_mask_words(int32_t columns) { return (columns + SPG_MASK_BITS - 1) / SPG_MASK_BITS; }
static inline SPG_BOTH int spg_bin_of_narrow_row(int32_t terms) {
    return terms <= 8 ? 0 : terms <= 16 ? 1 : terms <= 32 ? 2 : terms <= 128 ? 3 : SPG_WARP_BINS;
}

#define SPG_TABLE_TERMS    16384     /* most entries of A's row for a table: its warps take turns, entry by entry */
#define SPG_TABLE_PRODUCTS 2048      /* most intermediate products for bin 0, which has 8 threads; bin b: << b */
#define SPG_SORT_MAX       (1 << 26) /* most intermediate products of a row that is sorted; limits the memory */

static inline SPG_BOTH int64_t spg_segments(int32_t columns) {
    return ((int64_t)columns + SPG_SEGMENT - 1) / SPG_SEGMENT;
}

/* Bins whose rows use tables. When rows that ranges compute need not be computed again (`final`), and few segments
 * cover the columns, ranges take less time than tables of 4096 slots, whose sort dominates. */
#define SPG_FEW_SEGMENTS 2
static inline int32_t spg_bins_of_tables(int32_t columns, bool final, size_t value_size) {
    int32_t most = value_size > 8 ? SPG_TABLES - 1 : SPG_TABLES; /* shared memory holds no 8192 values of 16 bytes */
    return final && spg_segments(columns) <= SPG_FEW_SEGMENTS ? 6 : most;
}

/* Work for a row with `terms` entries of A and `bound` intermediate products. The unit is about a picosecond of a whole
 * H200: an intermediate product costs 10 by ranges and 53 by sorting, an entry of A 64 in each segment, a segment
 * 20000.
 */
static inline SPG_BOTH int64_t spg_work_by_ranges(int32_t terms, int32_t bound, int32_t columns) {
    return spg_segments(columns) * (64 * (int64_t)terms + 20000) + 10 * (int64_t)bound;
}
static inline SPG_BOTH int64_t spg_work_by_sorting(int32_t bound) { return 53 * (int64_t)bound; }

/* Bin of a row whose table should hold `entries`; entries >= 1. Many intermediate products get more threads than the
 * entries alone ask for. */
static inline SPG_BOTH int spg_bin_of_row(int64_t entries, int32_t terms, int32_t bound, int32_t columns) {
    int bin = spg_bin_of(entries);
    while (bin < SPG_TABLES - 1 && bound > (int64_t)SPG_TABLE_PRODUCTS << bin)
        bin++;
    if (bin < SPG_TABLES && (terms <= SPG_TABLE_TERMS || bound > SPG_SORT_MAX))
        return bin;
    if (bin < SPG_TABLES)
        return SPG_BIN_SORTED;
    bool sorted = bound <= SPG_SORT_MAX && spg_work_by_sorting(bound) < spg_work_by_ranges(terms, bound, columns);
    return sorted ? SPG_BIN_SORTED : SPG_BIN_RANGES;
}

/* Groups of rows. Consecutive rows of A of equal pattern give rows of C of equal pattern, as the unknowns of one node
 * of a finite element do: one table serves up to SPG_ALIKE rows, so each column is probed once for all of them.
 * alike[row]: whether the pattern is that of the row before. Groups do not cross multiples of SPG_ALIKE_SPAN rows, so
 * that a row finds its group by few steps, and not the borders of slabs. */
#define SPG_ALIKE      3
#define SPG_ALIKE_SPAN 192
#define SPG_ALIKE_BINS 5 /* the bins whose tables serve groups: 0 to 4; a warp or a part of one computes a group */

static inline SPG_BOTH bool spg_is_alike(const uint8_t *alike, int32_t row, int32_t slab) {
    return row % SPG_ALIKE_SPAN && row % slab && alike[row];
}

/* Rows of the group that begins with `row`. */
static inline SPG_BOTH int32_t spg_group_rows(const uint8_t *alike, int32_t row, int32_t rows, int32_t slab) {
    int32_t count = 1;
    while (count < SPG_ALIKE && count < rows - row && spg_is_alike(alike, row + count, slab))
        count++;
    return count;
}

static inline SPG_BOTH bool spg_group_begins(const uint8_t *alike, int32_t row, int32_t slab) {
    int32_t first = row;
    while (spg_is_alike(alike, first, slab))
        first--;
    return (row - first) % SPG_ALIKE == 0;
}

/* Table slot where probing begins: multiplicative hashing (Knuth 6.4) by the high bits, which spreads consecutive
 * columns. */
#define SPG_HASH_FACTOR 2654435769u
static inline SPG_BOTH uint32_t spg_table_hash(int32_t column, int log2_slots) {
    return (uint32_t)column * SPG_HASH_FACTOR >> (32 - log2_slots);
}

/* A table is probed in steps of 1, 2, 3, ... slots, which reach every slot: columns lie in runs, and steps of 1 made
 * clusters that took 10 probes where half of the slots were used. Small tables keep steps of 1. */
static inline SPG_BOTH uint32_t spg_table_stretch(int log2_slots) { return log2_slots > 6 ? 1 : 0; }

/* Stores `column` in *slot if the table slot is empty. Returns the old content. Atomic on the device. */
static inline SPG_BOTH int32_t spg_table_claim(int32_t *slot, int32_t column) {
#ifdef __CUDA_ARCH__
    return atomicCAS((int *)slot, SPG_EMPTY, column);
#else
    int32_t found = *slot;
    if (found == SPG_EMPTY)
        *slot = column;
    return found;
#endif
}

/* Table slot of `column` in a table of 2^log2_slots; claims one if the column is missing, and sets *claimed. Returns -1
 * when the table is full of other columns. */
static inline SPG_BOTH int32_t spg_table_find(int32_t *table, int log2_slots, int32_t column, bool *claimed) {
    uint32_t mask = (1u << log2_slots) - 1, slot = spg_table_hash(column, log2_slots), step = 1;
    for (uint32_t probes = 0; probes <= mask; probes++) {
        /* Volatile, because other threads insert columns. A stale "empty" is harmless: the claim reads again. */
        int32_t found = *(volatile int32_t *)&table[slot];
        if (found == SPG_EMPTY) {
            found = spg_table_claim(&table[slot], column);
            *claimed = found == SPG_EMPTY;
        }
        if (found == column || found == SPG_EMPTY)
            return (int32_t)slot;
        slot = (slot + step) & mask;
        step += spg_table_stretch(log2_slots);
    }
    return -1;
}

#endif
