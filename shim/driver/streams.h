/* Lists the streams of each context, for drivers that cannot record a whole context (before 12.5). A fence is then one
 * event on each stream.
 *
 * The list is right only while no stream escapes it. So it is used only when gpumem observes all entry points from the
 * start and saw the creation of the context. Any doubt disables it for the rest of the process, and frees go to the
 * driver again. The reasons are: per-thread default streams (that of another thread cannot be recorded), green
 * contexts, calls that bypass the entries, and a refusal by the driver.
 * A context with more than GM_STREAMS_MOST streams has no list.
 *
 * gpumem creates two streams of its own in each context. The first is blocking and stands for the legacy default
 * stream: it waits for that stream implicitly and is recorded in its place, because all blocking streams would wait
 * for an event on the legacy stream itself. The second, the collector, waits for the work that destroyed streams left
 * running. */
#ifndef GM_DRIVER_STREAMS_H
#define GM_DRIVER_STREAMS_H

#include "shim/driver/driver.h"

enum { GM_STREAMS_MOST = 14, GM_STREAMS_OWN = 2 }; /* the program's streams in a context, gpumem's own */

enum gm_streams_reason {
    GM_STREAMS_PER_THREAD, /* a per-thread default stream was used */
    GM_STREAMS_GREEN,      /* a green context was created */
    GM_STREAMS_UNSEEN,     /* calls bypass the entries of gpumem */
    GM_STREAMS_LOST,       /* the driver refused a call that the list needs */
    GM_STREAMS_REASONS
};

/* To be called before the first context. The list is kept when this driver needs it. */
GM_INTERNAL void gm_streams_observe(void);
/* True when the list is kept and not disabled. */
GM_INTERNAL bool gm_streams_usable(void);
GM_INTERNAL void gm_streams_doubt(enum gm_streams_reason reason);
/* Set by gm_free_sync_per_thread: a per-thread default stream is about to be used. */
extern unsigned char gm_streams_per_thread __attribute__((visibility("hidden")));

/* A context was created while everything is observed; a context was destroyed. */
GM_INTERNAL void gm_streams_context(CUcontext context);
GM_INTERNAL void gm_streams_context_destroyed(CUcontext context);
/* A stream was created in the current context; a stream is about to be destroyed. No lock may be held. */
GM_INTERNAL void gm_streams_made(CUstream stream);
GM_INTERNAL void gm_streams_ending(CUstream stream);

/* Writes the streams to record, so that all work of the context is covered. None of them is destroyed before
 * gm_streams_release. The context must be current and a guarded section open. 0: the streams are not known, or too
 * many; then do not call gm_streams_release. */
GM_INTERNAL unsigned gm_streams_hold(CUcontext context, CUstream *streams, unsigned room);
GM_INTERNAL void gm_streams_release(void);

#endif
