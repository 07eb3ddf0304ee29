/* GPUMEM_FREE: the implicit synchronisation of cudaFree, whatever resource the memory came from.
 *
 * A native cudaFree returns when all work submitted to the block's context is done. Meanwhile other threads cannot
 * submit work to that context. cudaMalloc neither waits nor orders anything. (tools/bench/implicit_sync measures
 * both.) Programs rely on this: a thread computes a table on its stream and frees a temporary block, and then other
 * threads read the table without any synchronisation.
 * wait   The free returns when all work submitted before is done.
 * order  The free returns at once. Work that any thread submits to any stream of the context afterwards runs behind
 *        all work submitted before. A native free holds up the same submissions, so this hangs only where the native
 *        call hangs. Writes of values by streams are not held up natively: a free waits where they may come.
 * async  The free returns at once. gpumem only prevents early reuse of the memory.
 * safe   The free returns at once, and every call of the driver that could tell the difference is held up until it
 *        cannot (in_flight.h). A free waits where something could tell without a call of the driver: the host, another
 *        context, another device or another process can see device memory (enum gm_sync_reason), several contexts
 *        exist, or a stream captures.
 *
 * All functions may be called by many threads at once, with no lock held. */
#ifndef GM_DRIVER_FREE_SYNC_H
#define GM_DRIVER_FREE_SYNC_H

#include "shim/driver/call.h"
#include "shim/driver/driver.h"
#include "shim/driver/in_flight.h"

/* In the order of the option's choices. */
enum gm_free_level { GM_FREE_SAFE, GM_FREE_WAIT, GM_FREE_ORDER, GM_FREE_ASYNC };

/* To be called before the first context. */
GM_INTERNAL void gm_free_sync_setup(enum gm_free_level level);
/* True under `safe`: it matters what the host, and others, can see. */
GM_INTERNAL bool gm_free_sync_observes(void);
/* Notes a reason. To be called before the true call that gives it: what is in flight is done when this returns, unless
 * the reason is GM_SYNC_WRITES. Cheap when the reason was noted before. */
GM_INTERNAL void gm_free_sync_note(enum gm_sync_reason reason);
GM_INTERNAL bool gm_free_sync_is_noted(enum gm_sync_reason reason);

/* ---- a free */

/* Synchronises for a free of a block of this context, before the block's owner frees it. *settled: the block may be
 * reused at once, since all work that may use it is done, or runs before whatever uses it next. Errors: the error of
 * earlier work, which the native call would have returned. The program keeps the block then. */
GM_INTERNAL gm_status gm_free_sync_before(CUcontext context, uint64_t context_id, CUdevice device, bool *settled);
/* What a free that asks nobody else may do. GM_FAST_NONE: call gm_free_sync_before. Otherwise gm_free_fast_begin. */
enum gm_free_fast { GM_FAST_NONE, GM_FAST_LEAVE, GM_FAST_ASYNC };
GM_INTERNAL extern uint8_t gm_free_sync_fast;
static inline enum gm_free_fast gm_free_sync_fast_now(void) {
    return GM_UNLIKELY(gm_capture_any()) ? GM_FAST_NONE
                                         : (enum gm_free_fast)__atomic_load_n(&gm_free_sync_fast, __ATOMIC_ACQUIRE);
}

/* Before the block of such a free is kept. True: it may be reused at once. Then all work is in one stream, and whatever
 * could overtake that stream, or comes with a second one, looks at the state first (in_flight.h). */
static inline bool gm_free_fast_begin(enum gm_free_fast fast) {
    if (GM_LIKELY(fast == GM_FAST_LEAVE))
        gm_in_flight_leave();
    return fast == GM_FAST_LEAVE;
}

/* ---- other calls of the program, before the true call */

/* A submission while gm_watch says that it has to look. `legacy`: to the legacy default stream, behind what is there.
 * Otherwise to another stream, or it may overtake work of its own stream. */
GM_INTERNAL void gm_free_sync_submit(bool legacy);
/* A launch may overtake earlier work of its own stream. */
GM_INTERNAL void gm_free_sync_overtake(void);
/* The call could notice what is in flight. */
GM_INTERNAL void gm_free_sync_notice(void);
/* A per-thread default stream is about to be used for the first time. */
GM_INTERNAL void gm_free_sync_per_thread(void);

/* ---- streams and contexts */

/* A stream of the context was created, and the program does not have it yet; a stream was destroyed. What was in flight
 * before was done before. */
GM_INTERNAL void gm_free_sync_stream_created(CUcontext context, CUstream stream);
GM_INTERNAL void gm_free_sync_stream_destroyed(CUcontext context);
/* A context is about to be created; the call returned, and made `context`, or none (NULL). */
GM_INTERNAL void gm_free_sync_context_making(void);
GM_INTERNAL void gm_free_sync_context_made(CUcontext context);
/* A context is seen for the first time. */
GM_INTERNAL void gm_free_sync_context(const struct gm_context *context);
/* `id` is 0 where the context was never current. */
GM_INTERNAL void gm_free_sync_context_destroyed(CUcontext context, uint64_t id);

/* True when a free has waited or ordered, by choice or for a reason. */
GM_INTERNAL bool gm_free_sync_slows(void);
/* "async: one stream", "order: several streams", "wait: peer access" ...; static text. */
GM_INTERNAL const char *gm_free_sync_state(void);
GM_INTERNAL void gm_free_sync_after_fork(void);

#endif
