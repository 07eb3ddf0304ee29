/* Bytes of an analysis: live, reserved, kept, beyond gpumem, leaked. */
#ifndef GM_ANALYSIS_AMOUNTS_H
#define GM_ANALYSIS_AMOUNTS_H

#include "tools/cli/analysis_pass.h"

void gm_pass_live(struct gm_analysis_pass *pass, const struct gm_live_block *block, bool created, uint64_t now);
void gm_pass_device_peak(struct gm_device_totals *device, uint64_t now);
void gm_pass_reserved(struct gm_analysis *analysis, int device, uint64_t now); /* after reserved bytes changed */
void gm_pass_reserve(struct gm_analysis *analysis, const struct gm_live_block *block);
void gm_pass_unreserve(struct gm_analysis *analysis, const struct gm_live_block *block, const struct gm_event *event);
void gm_pass_trim(struct gm_analysis_pass *pass, const struct gm_event *event);
void gm_pass_untracked(struct gm_analysis *analysis, const struct gm_event *event);
void gm_pass_account(struct gm_analysis *analysis, const struct gm_event *event);
void gm_pass_held(struct gm_analysis *analysis, const struct gm_event *event);
void gm_pass_leak(struct gm_analysis *analysis, int device, uint64_t count, uint64_t bytes);

#endif
