#include "spgemm/matrix.h"
#include "spgemm/random.h"

#include <stdlib.h>
#include <string.h>

/* Some rows are expensive, so each is computed once. Blocks of rows hold the columns until their total is known. */
#define BLOCK_ROWS 4096

static int32_t *fill_block(int32_t first, int32_t end, int32_t widest, spg_row_function *function, const void *context,
                           int32_t *offsets) {
    int64_t used = 0, capacity = 0;
    int32_t *columns = NULL;
    for (int32_t i = first; i < end; i++) {
        if (used + widest > capacity) {
            capacity = 2 * capacity + BLOCK_ROWS + widest;
            int32_t *larger = realloc(columns, (size_t)capacity * sizeof *columns);
            if (!larger) {
                free(columns);
                return NULL;
            }
            columns = larger;
        }
        offsets[i] = function(context, i, columns + used);
        used += offsets[i];
    }
    int32_t *fitting = realloc(columns, (size_t)(used + 1) * sizeof *columns);
    return fitting ? fitting : columns;
}

/* Turns row sizes into offsets. Returns the sum of the sizes; if it exceeds 32 bits, the offsets are unusable. */
static int64_t scan(int32_t *offsets, int32_t rows) {
    int64_t sum = 0;
    for (int32_t i = 0; i <= rows; i++) {
        int32_t size = i < rows ? offsets[i] : 0;
        offsets[i] = (int32_t)(sum > INT32_MAX ? INT32_MAX : sum);
        sum += size;
    }
    return sum;
}

bool spg_csr_from_rows(struct spg_csr *m, int32_t rows, int32_t columns, int32_t widest, spg_row_function *function,
                       const void *context, struct spg_error *error) {
    int32_t count = (int32_t)(((int64_t)rows + BLOCK_ROWS - 1) / BLOCK_ROWS), *offsets, **blocks;
    bool made = false, whole = true;
    *m = (struct spg_csr){0};
    offsets = calloc((size_t)rows + 1, sizeof *offsets);
    blocks = calloc((size_t)count + 1, sizeof *blocks);
    if (!offsets || !blocks)
        goto out;
#pragma omp parallel for schedule(dynamic) reduction(&& : whole)
    for (int32_t b = 0; b < count; b++) {
        int64_t end = ((int64_t)b + 1) * BLOCK_ROWS;
        blocks[b] = fill_block(b * BLOCK_ROWS, end < rows ? (int32_t)end : rows, widest, function, context, offsets);
        whole = whole && blocks[b];
    }
    if (!whole)
        goto out;
    if (!spg_csr_make(m, rows, columns, scan(offsets, rows), error))
        goto failed;
    memcpy(m->offsets, offsets, ((size_t)rows + 1) * sizeof *offsets);
    for (int32_t b = 0; b < count; b++) {
        int64_t first = (int64_t)b * BLOCK_ROWS, end = first + BLOCK_ROWS < rows ? first + BLOCK_ROWS : rows;
        memcpy(m->indices + offsets[first], blocks[b], (size_t)(offsets[end] - offsets[first]) * sizeof *m->indices);
        free(blocks[b]);
        blocks[b] = NULL;
    }
    made = true;
out:
    if (!made)
        spg_fail(error, "out of memory for a matrix of %d rows", rows);
failed:
    for (int32_t b = 0; blocks && b < count; b++)
        free(blocks[b]);
    free(blocks);
    free(offsets);
    return made;
}

struct entry {
    int32_t column;
    double value;
};

/* Merge sort: stable, so equal positions are added in the order of the file; n log n for every row. */
static void sort_entries(struct entry *entries, struct entry *spare, int64_t count) {
    if (count < 16) {
        for (int64_t i = 1; i < count; i++) {
            struct entry moved = entries[i];
            int64_t at = i;
            for (; at > 0 && entries[at - 1].column > moved.column; at--)
                entries[at] = entries[at - 1];
            entries[at] = moved;
        }
        return;
    }
    int64_t half = count / 2, left = 0, right = half;
    sort_entries(entries, spare, half);
    sort_entries(entries + half, spare + half, count - half);
    for (int64_t i = 0; i < count; i++)
        spare[i] = right == count || (left < half && entries[left].column <= entries[right].column) ? entries[left++]
                                                                                                    : entries[right++];
    memcpy(entries, spare, (size_t)count * sizeof *entries);
}

/* Adds up equal columns of a sorted row; returns the number of entries that remain. */
static int64_t merge_row(struct entry *entries, int64_t count) {
    int64_t kept = 0;
    for (int64_t i = 0; i < count; i++) {
        if (kept && entries[kept - 1].column == entries[i].column)
            entries[kept - 1].value += entries[i].value;
        else
            entries[kept++] = entries[i];
    }
    return kept;
}

bool spg_csr_from_triplets(struct spg_csr *m, int32_t rows, int32_t columns, int64_t count, const int64_t *row,
                           const int64_t *column, const double *value, int64_t *merged, struct spg_error *error) {
    int64_t stored = 0, *start = calloc((size_t)rows + 2, sizeof *start);
    struct entry *entries = malloc((size_t)count * sizeof *entries + 1),
                 *spare = malloc((size_t)count * sizeof *spare + 1);
    bool made = false;
    *m = (struct spg_csr){0};
    if (!start || !entries || !spare) {
        spg_fail(error, "out of memory for a matrix of %lld entries", (long long)count);
        goto out;
    }
    for (int64_t k = 0; k < count; k++)
        start[row[k] + 2]++;
    for (int32_t i = 0; i < rows; i++)
        start[i + 2] += start[i + 1];
    for (int64_t k = 0; k < count; k++)
        entries[start[row[k] + 1]++] = (struct entry){(int32_t)column[k], value[k]};
        /* Now start[i + 1] is the end of row i and the beginning of row i + 1. */
#pragma omp parallel for schedule(dynamic, 1024)
    for (int32_t i = 0; i < rows; i++)
        sort_entries(entries + start[i], spare + start[i], start[i + 1] - start[i]);
    for (int32_t i = 0; i < rows; i++) {
        int64_t from = start[i], remaining = merge_row(entries + from, start[i + 1] - from);
        memmove(entries + stored, entries + from, (size_t)remaining * sizeof *entries);
        start[i] = stored; /* its new beginning; start[i + 1] is still the old beginning of row i + 1 */
        stored += remaining;
    }
    *merged = count - stored;
    made = spg_csr_make(m, rows, columns, stored, error);
    if (!made)
        goto out;
    for (int32_t i = 0; i < rows; i++)
        m->offsets[i] = (int32_t)start[i];
    m->offsets[rows] = (int32_t)stored;
    for (int64_t k = 0; k < stored; k++) {
        m->indices[k] = entries[k].column;
        m->values[k] = entries[k].value;
    }
out:
    free(start);
    free(entries);
    free(spare);
    return made;
}

void spg_csr_fill(struct spg_csr *m, uint64_t seed) {
    int64_t stored = spg_csr_stored(m);
#pragma omp parallel for
    for (int64_t k = 0; k < stored; k++)
        m->values[k] = spg_unit_at(seed, (uint64_t)k);
}
