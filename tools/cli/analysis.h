/* Totals of a whole trace: allocations, frees, the peak and who held it, lifetimes, leaks. Observers see each event and
 * each block while the totals are computed. Sizes are bytes, times ns. */
#ifndef GM_ANALYSIS_H
#define GM_ANALYSIS_H

#include "tools/cli/analysis_block.h"
#include "tools/cli/analysis_totals.h"

/* One event at a time. `observers` ends with NULL, remains the caller's and must outlive the pass; NULL = no observers.
 */
struct gm_analysis_pass;
struct gm_analysis_pass *gm_analysis_begin(struct gm_observer *const *observers); /* NULL = no memory */
/* The same for observers that need the blocks with their numbers only: no totals, no site of a step. Faster. */
struct gm_analysis_pass *gm_analysis_begin_blocks(struct gm_observer *const *observers);
/* False = no memory, or an observer stopped. */
bool gm_analysis_event(struct gm_analysis_pass *pass, const struct gm_event *event, int thread);
struct gm_analysis *gm_analysis_end(struct gm_analysis_pass *pass); /* frees the pass */

void gm_analysis_free(struct gm_analysis *analysis);

#endif
