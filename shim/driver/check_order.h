/* GPUMEM_CHECK_ORDER: finds the call sites whose cudaFree orders work by its implicit wait, so that later work may
 * rely on it (order.h holds the rules).
 *
 * In this mode every free waits, as it does natively. Before it waits, gpumem queries the streams of the block's
 * context, to know which of them are busy. All functions may be called by many threads at once, with no lock held.
 * They do nothing while gm_check_order_on is false, and none fails. Calls to a capturing stream submit no work and are
 * ignored. */
#ifndef GM_DRIVER_CHECK_ORDER_H
#define GM_DRIVER_CHECK_ORDER_H

#include "shim/driver/driver.h"
#include "shim/driver/order.h"

GM_INTERNAL extern bool gm_check_order_on;

/* To be called first. False: no memory, and the mode stays off (logged). */
GM_INTERNAL bool gm_check_order_setup(void);

/* `twin`: the call is the variant for per-thread default streams, in which NULL means the stream of the calling
 * thread. */
struct gm_check_stream {
    CUstream handle;
    bool twin;
};

/* What a call does, one after the other. */
enum gm_check_effect {
    GM_CHECK_AWAITS = 1,       /* waits for a value that others write */
    GM_CHECK_SUBMITS = 2,      /* submits work */
    GM_CHECK_VISIBLE = 4,      /* whose result the host may read */
    GM_CHECK_TELLS_HOST = 8,   /* passes on that all earlier work is done: a host function, a value that is written */
    GM_CHECK_RECORDS = 16,     /* records the event */
    GM_CHECK_WAITS = 32,       /* makes the stream wait for the event */
    GM_CHECK_HOST_WAITED = 64, /* the host waits for the stream, or found it idle */
};
GM_INTERNAL void gm_check_order_call(unsigned effects, struct gm_check_stream stream, CUevent event);
GM_INTERNAL void gm_check_order_event_done(CUevent event);
/* NULL: the current context. */
GM_INTERNAL void gm_check_order_context_done(CUcontext context);
GM_INTERNAL void gm_check_order_context_record(CUcontext context, CUevent event);
GM_INTERNAL void gm_check_order_context_wait(CUevent event);
/* To be called before the true call. */
GM_INTERNAL void gm_check_order_stream_ending(struct gm_check_stream stream);
GM_INTERNAL void gm_check_order_context_destroyed(CUcontext context);

/* A free of a block of this context begins. site(arg) is called only when a stream may be busy. */
GM_INTERNAL void gm_check_order_free(CUcontext context, uint64_t context_id, CUdevice device,
                                     uint32_t (*site)(void *arg), void *arg);

struct gm_check_sums {
    uint64_t frees;   /* that waited for work */
    uint64_t more;    /* findings at further call sites, which did not fit */
    bool host_relies; /* the host relied on a free */
};
/* At the end of the process: the findings, the most frequent first. Returns their number and writes up to `room` of
 * them. */
GM_INTERNAL unsigned gm_check_order_findings(struct gm_order_finding *out, unsigned room, struct gm_check_sums *sums);
GM_INTERNAL void gm_check_order_after_fork(void);

#endif
