/* Matrix Market files: coordinate format; real, integer or pattern; general, symmetric or skew-symmetric. */
#ifndef SPG_READER_H
#define SPG_READER_H

#include "spgemm/matrix.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Whether this build has the reader. Without it both functions below fail with an error that says so. */
bool spg_reader_there(void);

/* What the reader did with the entries. */
struct spg_reading {
    int64_t merged;   /* entries that were added to another of the same position */
    int64_t mirrored; /* entries that were added for the other triangle */
};

/* Reads a file; entries of a pattern become 1. On failure *m is empty and `error` is one line: "FILE:LINE: what is
 * wrong: 'the line'", without LINE when the error concerns the whole file. Errors are: values that are not finite (in
 * float, if `precision` is single), positions out of range, too few or too many lines, sizes beyond 32-bit indices.
 *
 * Memory: about 70 bytes for each entry of the file, twice that for a symmetric one, and 12 bytes for each row in the
 * header, however few entries there are. */
bool spg_read_matrix(struct spg_csr *m, const char *path, enum spg_precision precision, struct spg_reading *reading,
                     struct spg_error *error);

/* The same for text in memory; errors use `name` as the file name. */
bool spg_read_matrix_text(struct spg_csr *m, const char *name, const char *text, size_t size,
                          enum spg_precision precision, struct spg_reading *reading, struct spg_error *error);

#ifdef __cplusplus
}
#endif

#endif
