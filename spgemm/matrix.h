/* Sparse matrices on the host: compressed rows, 32-bit indices and offsets, columns ascending and unique in
 * each row. Values are doubles; single precision is a matrix whose values were rounded to float. */
#ifndef SPG_MATRIX_H
#define SPG_MATRIX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum spg_precision { SPG_DOUBLE, SPG_FLOAT };

static inline size_t spg_value_size(enum spg_precision precision) {
    return precision == SPG_FLOAT ? sizeof(float) : sizeof(double);
}

/* One line, without "spgemm: " and newline. Functions that fill it return false. */
struct spg_error {
    char text[512];
};
bool spg_fail(struct spg_error *error, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Puts "where: " in front of what is there; returns false. */
bool spg_fail_in(struct spg_error *error, const char *where);

/* Of rows and of columns: one more is still a 32-bit number, which loops and markers need. */
#define SPG_ROWS_MAX (INT32_MAX - 1)

struct spg_csr {
    int32_t rows, columns;
    int32_t *offsets; /* rows + 1; the last is the number of stored entries */
    int32_t *indices; /* column of each entry */
    double *values;
};

static inline int64_t spg_csr_stored(const struct spg_csr *m) { return m->offsets ? m->offsets[m->rows] : 0; }

/* Arrays for `stored` entries, offsets zeroed, the rest not. On failure *m is empty; else the caller owns it.
 */
bool spg_csr_make(struct spg_csr *m, int32_t rows, int32_t columns, int64_t stored, struct spg_error *error);
void spg_csr_free(struct spg_csr *m); /* leaves an empty one; an empty one may be freed */

/* Writes row `row`'s columns, ascending and unique, to `columns`; returns how many. Called from several
 * threads. */
typedef int32_t spg_row_function(const void *context, int32_t row, int32_t *columns);

/* A matrix with the structure that the function tells, values not set. No row has more than `widest` columns.
 * Fails over 2^31 - 1 entries. */
bool spg_csr_from_rows(struct spg_csr *m, int32_t rows, int32_t columns, int32_t widest, spg_row_function *function,
                       const void *context, struct spg_error *error);

/* Sorts `count` triplets (0-based, in range) into *m and adds up the values of equal positions, in the order
 * given; `merged` gets the number of entries that vanished that way. */
bool spg_csr_from_triplets(struct spg_csr *m, int32_t rows, int32_t columns, int64_t count, const int64_t *row,
                           const int64_t *column, const double *value, int64_t *merged, struct spg_error *error);

/* The transposed matrix, a new one. */
bool spg_csr_transpose(struct spg_csr *t, const struct spg_csr *m, struct spg_error *error);

/* Value of entry k: the k-th output of splitmix64 from `seed`, scaled to (0, 1]. Equal on every machine. */
void spg_csr_fill(struct spg_csr *m, uint64_t seed);

void spg_csr_round_to_float(struct spg_csr *m);
int64_t spg_csr_nonzeros(const struct spg_csr *m); /* entries whose value is not zero */

/* Whether offsets, ranges and order are what the head of this file says. `error` names the first row that is
 * not. */
bool spg_csr_valid(const struct spg_csr *m, struct spg_error *error);

#ifdef __cplusplus
}
#endif

#endif
