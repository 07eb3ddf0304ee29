/* Hash tables of the fast accumulator, and which table a row of C gets. Rows are put into bins by how many
 * entries they may have; a bin has a table size and a group of threads for a row, so that small rows do not
 * clear large tables and large rows do not wait for few threads (Nagasaka, Nukada, Matsuoka: High-performance
 * and memory-saving sparse general matrix-matrix multiplication for NVIDIA Pascal GPU, ICPP 2017). Rows
 * beyond the largest table are formed by ranges of columns. */
#ifndef SPG_BINS_H
#define SPG_BINS_H

#include "spgemm/both.h"

#include <stdbool.h>
#include <stdint.h>

#define SPG_TABLES      8          /* bin b has tables of 64 << b slots, 8 << b threads for a row */
#define SPG_BIN_RANGES  SPG_TABLES /* the bin of rows that no table holds */
#define SPG_BINS        (SPG_TABLES + 1)
#define SPG_SLOTS_LEAST 64
#define SPG_GROUP_LEAST 8
#define SPG_EMPTY       (-1)
#define SPG_RANGE       8192 /* columns at a time of a row formed by ranges */

/* Entries that a table takes when the number of distinct columns is not known to be less: 13/16 of its slots,
 * beyond which probing gets long. */
static inline SPG_BOTH int64_t spg_bin_entries(int bin) { return (int64_t)(SPG_SLOTS_LEAST << bin) * 13 / 16; }

/* Bin of a row that may have `entries` entries, at least 1. */
static inline SPG_BOTH int spg_bin_of(int64_t entries) {
    int bin = 0;
    while (bin < SPG_TABLES && entries > spg_bin_entries(bin))
        bin++;
    return bin;
}

/* What a row's table is made for: its multiplications (the bound), or the share of them that sampled rows
 * need (spg_table_share; 0 <= share <= 1), and never more than there are columns. Rows whose table it makes
 * too small overflow it and are formed again. */
static inline SPG_BOTH int64_t spg_entries_expected(int32_t bound, int32_t columns, float share) {
    int64_t most = bound < columns ? bound : columns;
    if (share >= 1)
        return most;
    int64_t guess = (int64_t)((float)bound * share) + 1;
    return guess < most ? guess : most;
}

/* What a table is chosen by: twice the entries where each of them is looked for many times, so that it is
 * found at once. */
#define SPG_MANY_TIMES 16
static inline SPG_BOTH int64_t spg_entries_of_table(int64_t entries, int32_t bound) {
    bool many = bound / SPG_MANY_TIMES >= entries && 2 * entries <= spg_bin_entries(SPG_TABLES - 1);
    return many ? 2 * entries : entries;
}

/* First slot to look at: the high bits of a multiplication (Knuth 6.4), which spread runs of columns. */
static inline SPG_BOTH uint32_t spg_table_slot(int32_t column, int log2_slots) {
    return (uint32_t)column * 2654435769u >> (32 - log2_slots);
}

/* Puts `column` into *slot if that is empty; returns what was there. Between threads of a GPU one of them
 * wins. */
static inline SPG_BOTH int32_t spg_table_claim(int32_t *slot, int32_t column) {
#ifdef __CUDA_ARCH__
    return atomicCAS((int *)slot, SPG_EMPTY, column);
#else
    int32_t there = *slot;
    if (there == SPG_EMPTY)
        *slot = column;
    return there;
#endif
}

/* Slot of `column` in a table of 2^log2_slots, entered if it was not there; -1 when the table is full of
 * others. */
static inline SPG_BOTH int32_t spg_table_find(int32_t *table, int log2_slots, int32_t column) {
    uint32_t mask = (1u << log2_slots) - 1, slot = spg_table_slot(column, log2_slots);
    for (uint32_t step = 0; step <= mask; step++) {
        /* Volatile: others enter columns meanwhile. What is read too early is read again by the claim. */
        int32_t there = *(volatile int32_t *)&table[slot];
        if (there == SPG_EMPTY)
            there = spg_table_claim(&table[slot], column);
        if (there == column || there == SPG_EMPTY)
            return (int32_t)slot;
        slot = (slot + 1) & mask;
    }
    return -1;
}

#endif
