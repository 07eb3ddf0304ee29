#include "spgemm/matrix.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool spg_fail(struct spg_error *error, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(error->text, sizeof error->text, format, args);
    va_end(args);
    error->status = 0;
    return false;
}

bool spg_fail_as(struct spg_error *error, int status, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(error->text, sizeof error->text, format, args);
    va_end(args);
    error->status = status;
    return false;
}

bool spg_fail_in(struct spg_error *error, const char *where) {
    struct spg_error inner = *error;
    int used = snprintf(error->text, sizeof error->text, "%.200s: ", where);
    memcpy(error->text + used, inner.text, sizeof error->text - (size_t)used - 1);
    error->text[sizeof error->text - 1] = 0;
    return false;
}

static void *array(int64_t count, size_t size) { return malloc(count ? (size_t)count * size : 1); }

static bool no_memory(struct spg_csr *m, int64_t stored, struct spg_error *error) {
    spg_csr_free(m);
    return spg_fail(error, "out of memory for a matrix of %lld entries", (long long)stored);
}

bool spg_csr_make(struct spg_csr *m, int32_t rows, int32_t columns, int64_t stored, struct spg_error *error) {
    *m = (struct spg_csr){.rows = rows, .columns = columns};
    if (stored > INT32_MAX) {
        *m = (struct spg_csr){0};
        return spg_fail(error, "%lld entries do not fit 32-bit offsets (at most %d)", (long long)stored, INT32_MAX);
    }
    m->offsets = calloc((size_t)rows + 1, sizeof *m->offsets);
    m->indices = array(stored, sizeof *m->indices);
    m->values = array(stored, sizeof *m->values);
    return (m->offsets && m->indices && m->values) || no_memory(m, stored, error);
}

void spg_csr_free(struct spg_csr *m) {
    free(m->offsets);
    free(m->indices);
    free(m->values);
    *m = (struct spg_csr){0};
}

bool spg_csr_rows(struct spg_csr *r, const struct spg_csr *m, int32_t first, int32_t rows, struct spg_error *error) {
    int32_t base = m->offsets[first], stored = m->offsets[first + rows] - base;
    if (!spg_csr_make(r, rows, m->columns, stored, error))
        return false;
    for (int32_t i = 0; i <= rows; i++)
        r->offsets[i] = m->offsets[first + i] - base;
    memcpy(r->indices, m->indices + base, (size_t)stored * sizeof *r->indices);
    memcpy(r->values, m->values + base, (size_t)stored * sizeof *r->values);
    return true;
}

bool spg_csr_transpose(struct spg_csr *t, const struct spg_csr *m, struct spg_error *error) {
    int64_t stored = spg_csr_stored(m);
    if (!spg_csr_make(t, m->columns, m->rows, stored, error))
        return false;
    /* While entries are stored, next[i] advances from the beginning of row i to that of row i + 1. The offsets are
     * shifted back at the end. */
    int32_t *next = t->offsets;
    for (int64_t k = 0; k < stored; k++)
        next[m->indices[k]]++;
    for (int32_t i = 0, sum = 0; i <= t->rows; i++) {
        int32_t count = next[i];
        next[i] = sum;
        sum += count;
    }
    for (int32_t i = 0; i < m->rows; i++) {
        for (int32_t k = m->offsets[i]; k < m->offsets[i + 1]; k++) {
            int32_t at = next[m->indices[k]]++;
            t->indices[at] = i;
            t->values[at] = m->values[k];
        }
    }
    memmove(next + 1, next, (size_t)t->rows * sizeof *next);
    next[0] = 0;
    return true;
}

void spg_csr_round_to_float(struct spg_csr *m) {
    int64_t stored = spg_csr_stored(m);
    for (int64_t k = 0; k < stored; k++)
        m->values[k] = (float)m->values[k];
}

int64_t spg_csr_nonzeros(const struct spg_csr *m) {
    int64_t stored = spg_csr_stored(m), count = 0;
    for (int64_t k = 0; k < stored; k++)
        count += m->values[k] != 0;
    return count;
}

bool spg_csr_valid(const struct spg_csr *m, struct spg_error *error) {
    if (m->offsets[0] != 0)
        return spg_fail(error, "offset of row 0 is %d", m->offsets[0]);
    for (int32_t i = 0; i < m->rows; i++) {
        if (m->offsets[i + 1] < m->offsets[i])
            return spg_fail(error, "row %d: offsets fall from %d to %d", i, m->offsets[i], m->offsets[i + 1]);
        for (int32_t k = m->offsets[i], last = -1; k < m->offsets[i + 1]; last = m->indices[k++])
            if (m->indices[k] <= last || m->indices[k] >= m->columns)
                return spg_fail(error, "row %d: column %d after %d, of %d", i, m->indices[k], last, m->columns);
    }
    return true;
}
