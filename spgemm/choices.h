/* What is chosen from the sizes of sampled rows: the share of tables, and size_per_row, whose choice the thesis leaves
 * open (5.2, 5.3, 6.2). */
#ifndef SPG_CHOICES_H
#define SPG_CHOICES_H

#include "spgemm/model.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Returns the smallest share s, 0 to 1, such that tables chosen for s x the intermediate products of a row (bins.h) are
 * large enough for 19 of 20 sampled rows. A few of the remaining rows overflow; the others have fuller tables than
 * usual. */
float spg_table_share(const int32_t *bound, const int32_t *size, int32_t rows);

/* Returns the size_per_row with the fewest rounds among those whose memory efficiency is at least `efficiency`; among
 * equal rounds the most efficient one. Size 1 always qualifies: it wastes one slot for each empty row. */
int32_t spg_choose_size_per_row(const struct spg_histogram *sizes, double efficiency);

/* Returns the size_per_row of `--size-per-row auto`: one round if that wastes little. `at_once`: a row takes the chunks
 * of all its rounds at once (spread.h), so more rounds cost nothing and the choice wastes less. */
int32_t spg_auto_size_per_row(const struct spg_histogram *sizes, bool at_once);

#ifdef __cplusplus
}
#endif

#endif
