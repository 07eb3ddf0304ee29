/* Matrix Market files: coordinate format; real, integer or pattern; general, symmetric or skew-symmetric. */
#ifndef SPG_READER_H
#define SPG_READER_H

#include "spgemm/matrix.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spg_read_options {
    enum spg_precision precision; /* single: values that are not finite in float are errors */
    bool any_size; /* reads matrices with far more rows or columns than entries: 2^20 + 64 for each entry. Memory grows
                    * with the rows, so a tiny file could take all of it. */
};

/* What the reader did with the entries. */
struct spg_reading {
    int64_t merged;   /* entries that were added to another of the same position */
    int64_t mirrored; /* entries that were added for the other triangle */
};

/* Reads a file; a file compressed by gzip is decompressed block by block. Entries of a pattern become 1. Exponents of
 * Fortran are read (1.5D+10, 1.5+300). On failure *m is empty and `error` is one line: "FILE:LINE: what is wrong: 'the
 * line'", without LINE when the error concerns the whole file. Errors are: anything behind a number or behind the last
 * number of a line, values that are not finite, no integers in an integer file, positions out of range, too few or too
 * many lines, sizes beyond 32-bit indices.
 *
 * Memory: about 70 bytes for each entry of the file, twice that for a symmetric one, and 12 bytes for each row in the
 * header. The text is mapped, or 16 MiB if it is compressed. */
bool spg_read_matrix(struct spg_csr *m, const char *path, const struct spg_read_options *options,
                     struct spg_reading *reading, struct spg_error *error);

/* The same for text in memory; errors use `name` as the file name. */
bool spg_read_matrix_text(struct spg_csr *m, const char *name, const char *text, size_t size,
                          const struct spg_read_options *options, struct spg_reading *reading, struct spg_error *error);

#ifdef __cplusplus
}
#endif

#endif
