/* A product against its definition: row by row on the host, with one row in memory at a time, so that the
 * largest C is checked in little more than its own memory. */
#ifndef SPG_CHECK_H
#define SPG_CHECK_H

#include "spgemm/matrix.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What the comparison found when nothing was wrong. */
struct spg_check {
    double worst; /* largest |c - reference| / its bound over all entries, 0 to 1 */
};

/* C must have exactly the positions that A B has by structure (products that cancel stay as entries), columns
 * ascending, and values within gamma_k(precision) + gamma_k(double) of the reference, times the sum of |a b|;
 * k is the number of entries in A's row, gamma_k = k u / (1 - k u), u = 2^-53 or 2^-24: the bound on any
 * order of summation, fused or not (Higham, Accuracy and Stability of Numerical Algorithms, 3.1). Float
 * products are compared with what A and B rounded to float give in double. `error` names the first row that
 * differs, and how. */
bool spg_check_product(const struct spg_csr *a, const struct spg_csr *b, const struct spg_csr *c,
                       enum spg_precision precision, struct spg_check *check, struct spg_error *error);

#ifdef __cplusplus
}
#endif

#endif
