/* Sparse matrices on the host, in compressed rows (CSR) with 32-bit indices and offsets. Columns are ascending and
 * unique in each row. Values are doubles; a matrix in single precision has values that were rounded to float. */
#ifndef SPG_MATRIX_H
#define SPG_MATRIX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* On the host there are only the first two. */
enum spg_precision {
    SPG_DOUBLE,
    SPG_FLOAT,
    SPG_COMPLEX_DOUBLE,
    SPG_COMPLEX_FLOAT,
    SPG_PATTERN,
    SPG_MIN_PLUS_DOUBLE,
    SPG_MIN_PLUS_FLOAT,
};

static inline size_t spg_value_size(enum spg_precision precision) {
    static const unsigned char sizes[] = {8, 4, 16, 8, 0, 8, 4};
    return sizes[precision];
}
static inline bool spg_is_real(enum spg_precision precision) {
    return precision == SPG_DOUBLE || precision == SPG_FLOAT;
}

/* One line of text, without "spgemm: " and newline. A function that fills it returns false. */
struct spg_error {
    char text[512];
    int status; /* number of the CUresult with the same meaning; 0: none was set */
};
bool spg_fail(struct spg_error *error, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same with a status. */
bool spg_fail_as(struct spg_error *error, int status, const char *format, ...) __attribute__((format(printf, 3, 4)));
#define SPG_INVALID_VALUE   1
#define SPG_OUT_OF_MEMORY   2
#define SPG_NOT_INITIALIZED 3
#define SPG_NOT_SUPPORTED   801
#define SPG_TOO_SMALL       1000
/* Puts "where: " in front of the text; returns false. */
bool spg_fail_in(struct spg_error *error, const char *where);

/* The most rows or columns: loops and markers need one number more in 32 bits. */
#define SPG_ROWS_MAX (INT32_MAX - 1)

struct spg_csr {
    int32_t rows, columns;
    int32_t *offsets; /* rows + 1; the last is the number of stored entries */
    int32_t *indices; /* column of each entry */
    double *values;
};

static inline int64_t spg_csr_stored(const struct spg_csr *m) { return m->offsets ? m->offsets[m->rows] : 0; }

/* Allocates arrays for `stored` entries; only the offsets are zeroed. On success the caller owns *m; on failure it is
 * empty. */
bool spg_csr_make(struct spg_csr *m, int32_t rows, int32_t columns, int64_t stored, struct spg_error *error);
void spg_csr_free(struct spg_csr *m); /* leaves *m empty; accepts an empty matrix */

/* Writes the columns of row `row`, ascending and unique; returns their number. Called from several threads. */
typedef int32_t spg_row_function(const void *context, int32_t row, int32_t *columns);

/* Makes a matrix whose rows `function` writes; values are not set. No row may have more than `widest` columns. Fails
 * beyond 2^31 - 1 entries. */
bool spg_csr_from_rows(struct spg_csr *m, int32_t rows, int32_t columns, int32_t widest, spg_row_function *function,
                       const void *context, struct spg_error *error);

/* Makes a matrix of `count` triplets (0-based, in range). Values of equal positions are added in the given order;
 * *merged is the number of triplets that were added to others. */
bool spg_csr_from_triplets(struct spg_csr *m, int32_t rows, int32_t columns, int64_t count, const int64_t *row,
                           const int64_t *column, const double *value, int64_t *merged, struct spg_error *error);

/* Makes a new matrix of rows `first` to first + rows - 1. */
bool spg_csr_rows(struct spg_csr *r, const struct spg_csr *m, int32_t first, int32_t rows, struct spg_error *error);

/* Makes a new matrix, the transpose of `m`. */
bool spg_csr_transpose(struct spg_csr *t, const struct spg_csr *m, struct spg_error *error);

/* Sets the value of entry k to output k of splitmix64 from `seed`, scaled to (0, 1]. Equal on every machine. */
void spg_csr_fill(struct spg_csr *m, uint64_t seed);

void spg_csr_round_to_float(struct spg_csr *m);
int64_t spg_csr_nonzeros(const struct spg_csr *m); /* entries whose value is not zero */

/* Checks offsets, ranges and order as the head of this file defines them. `error` names the first bad row. */
bool spg_csr_valid(const struct spg_csr *m, struct spg_error *error);

#ifdef __cplusplus
}
#endif

#endif
