/* GPUMEM_CHECK_ORDER: which call sites free memory whose wait later work may rely on (order.h holds the
 * rules).
 *
 * Every free waits in this mode. Before it does, it asks the streams of the block's context whether they are
 * busy. All functions may be called by many threads at once, with no lock held, and do nothing while
 * gm_check_order_on is false. None fails. Calls to a stream that captures are no work and are left out. */
#ifndef GM_DRIVER_CHECK_ORDER_H
#define GM_DRIVER_CHECK_ORDER_H

#include "shim/driver/driver.h"
#include "shim/driver/order.h"

GM_INTERNAL extern bool gm_check_order_on;

/* Before the first call. False: no memory, the mode stays off (logged). */
GM_INTERNAL bool gm_check_order_setup(void);

/* `twin`: the call is the variant for programs with per-thread default streams, where NULL means the thread's
 * own. */
struct gm_check_stream {
    CUstream handle;
    bool twin;
};

enum gm_check_call {
    GM_CHECK_WORK,         /* work is submitted */
    GM_CHECK_VISIBLE_WORK, /* the host may look at its result */
    GM_CHECK_WAITED_WORK,  /* the call returns when it is done */
    GM_CHECK_HOST_WORK,    /* a function of the host: it sees all earlier work, and may tell others */
    GM_CHECK_SIGNAL,       /* writes what others may wait for */
    GM_CHECK_AWAIT,        /* waits for what others write */
    GM_CHECK_RECORD,       /* records an event */
    GM_CHECK_WAIT,         /* waits for an event */
    GM_CHECK_SYNCHRONISE,  /* the host waits for the stream, or has found it done */
};
GM_INTERNAL void gm_check_order_call(enum gm_check_call call, struct gm_check_stream stream, CUevent event);
GM_INTERNAL void gm_check_order_event_done(CUevent event);
/* NULL: the current context. */
GM_INTERNAL void gm_check_order_context_done(CUcontext context);
GM_INTERNAL void gm_check_order_context_record(CUcontext context, CUevent event);
GM_INTERNAL void gm_check_order_context_wait(CUevent event);
/* Before the true call. */
GM_INTERNAL void gm_check_order_stream_ending(struct gm_check_stream stream);
GM_INTERNAL void gm_check_order_context_destroyed(CUcontext context);

/* A free of a block of this context begins. site(arg) is asked only when something may be busy. */
GM_INTERNAL void gm_check_order_free(CUcontext context, uint64_t context_id, CUdevice device,
                                     uint32_t (*site)(void *arg), void *arg);

/* At the end of the process: the findings, the most frequent first. *frees: how many frees waited for work;
 * *more: findings at sites that are not told apart. Returns how many findings there are; up to `room` are
 * written. */
GM_INTERNAL unsigned gm_check_order_findings(struct gm_order_finding *out, unsigned room, uint64_t *frees,
                                             uint64_t *more);
GM_INTERNAL void gm_check_order_after_fork(void);

#endif
