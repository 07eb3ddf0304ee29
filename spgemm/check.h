/* Compares a product with its definition, on the host.
 *
 * Each row is computed again with a dense accumulator, and compared with the row of C. Threads take rows in turn. Cost:
 * the intermediate products. Memory: 20 bytes x columns of B for each thread, so even the largest C can be checked. */
#ifndef SPG_CHECK_H
#define SPG_CHECK_H

#include "spgemm/matrix.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spg_check {
    double worst;       /* the largest |c - reference| / bound of all entries, 0 to 1 */
    bool out_of_memory; /* host memory did not suffice; nothing is known about C then */
};

/* Three conditions on C:
 * - its positions are exactly those that the structures of A and B give; an entry whose products cancel stays;
 * - columns ascend in each row;
 * - each value differs from the reference by at most (gamma_k(precision) + gamma_k(double)) x the sum of |a b|, where k
 *   is the number of entries in A's row, gamma_k = k u / (1 - k u), u = 2^-53 or 2^-24. This bounds any order of
 *   summation, fused or not (Higham, Accuracy and Stability of Numerical Algorithms, 3.1).
 * The reference of a float product is the double product of A and B rounded to float. On failure `error` names the
 * first wrong row and the difference. */
bool spg_check_product(const struct spg_csr *a, const struct spg_csr *b, const struct spg_csr *c,
                       enum spg_precision precision, struct spg_check *check, struct spg_error *error);

#ifdef __cplusplus
}
#endif

#endif
