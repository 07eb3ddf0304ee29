/* The rows of a summary (GM_ACT_SUM), each of which stands for a call site, a kind of memory and a device. */
#ifndef GM_ANALYSIS_SUMMARY_H
#define GM_ANALYSIS_SUMMARY_H

#include "tools/cli/analysis_pass.h"

void gm_pass_sum(struct gm_analysis_pass *pass, const struct gm_event *event);
void gm_pass_peak(struct gm_analysis_pass *pass, const struct gm_event *event);
void gm_pass_total(struct gm_analysis_pass *pass, const struct gm_event *event);
void gm_pass_conclude_sums(struct gm_analysis_pass *pass);

#endif
