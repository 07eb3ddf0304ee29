/* The streams of each context, for drivers that cannot record a whole context (before 12.5): a fence is then an event
 * on each stream.
 *
 * That is right only as long as no stream escapes. It is used when the hooks watch from the start and the context was
 * made under their eyes; any doubt ends it for good, and frees go to the driver again. What is in doubt: per-thread
 * default streams (another thread's cannot be recorded), green contexts, programs that are linked with the driver and
 * so pass the watchers by, more than GM_STREAMS_MOST streams. The legacy default stream is not recorded itself,
 * because all blocking streams would wait for that: an own blocking stream, the witness, waits for it and is recorded
 * instead. What a destroyed stream leaves running is kept by a second own stream, the keeper, which waits for it. */
#ifndef GM_DRIVER_STREAMS_H
#define GM_DRIVER_STREAMS_H

#include "shim/driver/driver.h"

enum { GM_STREAMS_MOST = 14, GM_STREAMS_OWN = 2 }; /* the program's in a context, ours */

enum gm_streams_reason {
    GM_STREAMS_PER_THREAD, /* a per-thread default stream was used */
    GM_STREAMS_GREEN,      /* a green context was made */
    GM_STREAMS_LINKED,     /* a loaded object is linked with the driver, or calls came through an entry point without
                              observers */
    GM_STREAMS_LOST,       /* the driver refused what the book-keeping needs */
    GM_STREAMS_REASONS
};

/* All entry points are observed, and does this driver need it? Before the first context. `look_for_escapes` is asked at
 * each fence whether something in the process may give work to streams past the watchers. */
GM_INTERNAL void gm_streams_observe(bool (*look_for_escapes)(void));
/* True when streams are watched and nothing is in doubt. */
GM_INTERNAL bool gm_streams_usable(void);
GM_INTERNAL void gm_streams_doubt(enum gm_streams_reason reason);
/* Set by the watchers in assembly: a per-thread default stream is about to be used. */
extern unsigned char gm_streams_per_thread __attribute__((visibility("hidden")));

/* A context was made while all is watched; ended. */
GM_INTERNAL void gm_streams_context(CUcontext context);
GM_INTERNAL void gm_streams_context_destroyed(CUcontext context);
/* A stream was made in the current context, is about to be destroyed. No lock may be held. */
GM_INTERNAL void gm_streams_made(CUstream stream);
GM_INTERNAL void gm_streams_ending(CUstream stream);

/* Streams to record so that all work of the context is covered; none of them is destroyed before gm_streams_release.
 * The context is current, a capture section is open. 0: not known, or too many; nothing to release then. */
GM_INTERNAL unsigned gm_streams_hold(CUcontext context, CUstream *streams, unsigned room);
GM_INTERNAL void gm_streams_release(void);

#endif
