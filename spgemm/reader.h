/* Matrix Market files: coordinate format; real, integer or pattern; general, symmetric or skew-symmetric. */
#ifndef SPG_READER_H
#define SPG_READER_H

#include "spgemm/matrix.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Whether this build has the reader; without it both functions fail and say so. */
bool spg_reader_there(void);

/* What was done to the entries on the way in. */
struct spg_reading {
    int64_t merged;   /* entries of one position with another, added up */
    int64_t mirrored; /* entries made from the other triangle */
};

/* Pattern entries are 1. On failure *m is empty and `error` is one line "FILE:LINE: what is wrong: 'the
 * line'", without a line where the whole file is meant. Values that are not finite, in float where
 * `precision` asks for it, are errors, and so are positions outside, too few or too many lines, and sizes
 * that 32-bit indices do not hold. Memory: some 70 bytes for each entry of the file, twice that for a symmetric one,
 * and 12 for each row that the header names, however few entries there are. */
bool spg_read_matrix(struct spg_csr *m, const char *path, enum spg_precision precision, struct spg_reading *reading,
                     struct spg_error *error);

/* The same for text in memory; `name` stands for the file in errors. */
bool spg_read_matrix_text(struct spg_csr *m, const char *name, const char *text, size_t size,
                          enum spg_precision precision, struct spg_reading *reading, struct spg_error *error);

#ifdef __cplusplus
}
#endif

#endif
