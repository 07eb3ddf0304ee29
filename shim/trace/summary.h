/* A summary (GPUMEM_TRACE_SUMMARY): in place of an event for each block the trace has, for each interval, a row for
 * each call site and kind of memory that allocated or freed in it (GM_ACT_SUM), and the totals of the process
 * (GM_ACT_PEAK, GM_ACT_TOTAL). The file grows by intervals x active call sites, however many blocks come and go.
 *
 * A change takes one lock for some dozen instructions. It keeps the peak of device memory exact: each site saves its
 * live bytes at its first change after a peak. There is no thread of its own: the flusher of the trace writes the rows,
 * or without it the call that finds the interval over. */
#ifndef GM_TRACE_SUMMARY_H
#define GM_TRACE_SUMMARY_H

#include "shim/base/base.h"
#include "shim/trace/event.h"

#define GM_SUMMARY_LEAST UINT64_C(10000000) /* ns of the shortest interval */

/* Length of an interval, 0 = no summary. Before the trace opens. */
GM_INTERNAL void gm_summary_setup(uint64_t interval_ns);
GM_INTERNAL extern uint64_t gm_summary_ns;
static inline bool gm_summary_on(void) { return gm_summary_ns != 0; }

/* The trace was opened at this time. False: there is no memory for a summary. */
GM_INTERNAL bool gm_summary_open(uint64_t now_ns);

/* Counts the event of a block: GM_ACT_ALLOC, GM_ACT_FREE or GM_ACT_RELEASE. time_ns (CLOCK_MONOTONIC), bytes, site,
 * kind and device are set; the site is always that of the allocation. True: an interval is over. */
GM_INTERNAL bool gm_summary_change(const struct gm_event *event);

/* Whether this other event is part of a summary. Of failed calls only the first ones of each interval are, and the
 * others are counted. */
GM_INTERNAL bool gm_summary_keeps(const struct gm_event *event);

/* Ends the interval if it is over, or in any case at the `end` of the trace, and passes its rows on in their order.
 * `write` numbers them. Does nothing while another thread does the same, or where `has_room` says that so many events
 * do not fit; the interval then lasts longer. */
GM_INTERNAL void gm_summary_write(uint64_t now_ns, bool end, bool (*has_room)(uint64_t events),
                                  void (*write)(struct gm_event *event));

/* In the child of a fork: no block is known. */
GM_INTERNAL void gm_summary_forget(void);

#endif
