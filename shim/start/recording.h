/* Recording that begins or ends while the program runs: on a request of gpumem trace start and stop (struct
 * gm_stats_recording), or with the NVTX ranges that GPUMEM_TRACE_RANGE names. Blocks that are live at the beginning are
 * written first (shim/trace/recorded.h).
 *
 * There is no thread for it. A request is noticed by the next call that gpumem sees, and while a trace is written also
 * by its flusher thread. Without a trace the program pays nothing: the word that says that there is a request is the
 * one that each call reads for gpumem top. */
#ifndef GM_HOOK_RECORDING_H
#define GM_HOOK_RECORDING_H

#include "shim/base/base.h"

/* After gm_trace_setup. The process' own trace waits for a range if GPUMEM_TRACE_RANGE is set. `keeps_sites`: call
 * sites are needed without a trace, too. */
GM_INTERNAL void gm_recording_setup(bool keeps_sites);
/* Serves a request of gpumem trace, if there is one. */
GM_INTERNAL void gm_recording_requested(void);
/* gpumem has started: begins if a range is open. */
GM_INTERNAL void gm_recording_started(void);
/* The process ends: reports a range that never was opened. */
GM_INTERNAL void gm_recording_report(void);
/* The process ends: a start or stop that runs is waited for, and no further recording begins. */
GM_INTERNAL void gm_recording_end(void);
GM_INTERNAL void gm_recording_after_fork(unsigned open_ranges);

/* A range that GPUMEM_TRACE_RANGE names was opened or closed, by any thread. */
GM_INTERNAL void gm_recording_opened(void);
GM_INTERNAL void gm_recording_closed(void);

#endif
