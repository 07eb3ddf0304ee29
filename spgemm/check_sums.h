/* Checks a product that is too large to be copied to the host as a whole, or whose offsets have 64 bits.
 *
 * The sizes of all rows are compared with exact ones, columns must ascend in each row, and C x is compared with A (B x)
 * for random x in (0, 1]. A wrong entry changes such a sum, unless by chance. Cost: the intermediate products once for
 * the sizes, and one read of C. Memory: 24 bytes for each row and column, and a portion of C. */
#ifndef SPG_CHECK_SUMS_H
#define SPG_CHECK_SUMS_H

#include "spgemm/check.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Reads `count` entries of C from entry `first` on. */
typedef bool spg_read_entries(void *context, int64_t first, int64_t count, int32_t *indices, double *values,
                              struct spg_error *error);

/* `offsets` are C's, on the host. As spg_check_product() otherwise. */
bool spg_check_sums(const struct spg_csr *a, const struct spg_csr *b, const int64_t *offsets, spg_read_entries *read,
                    void *context, enum spg_precision precision, struct spg_check *check, struct spg_error *error);

/* Only tests change it: entries of a portion, unless one row has more. */
extern int64_t spg_check_portion;

#ifdef __cplusplus
}
#endif

#endif
