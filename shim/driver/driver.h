/* The CUDA driver as gpumem uses it: true functions found once, never through a hook. */
#ifndef GM_DRIVER_H
#define GM_DRIVER_H

/* Exact names: with this cuda.h declares every variant (cuMemAlloc_v2, cuMemAllocAsync_ptsz ...) and renames none. */
#define __CUDA_API_VERSION_INTERNAL
#define __CUDA_API_VERSION_INTERNAL_ODR
#include <cuda.h>

/* What cuda.h knows by macros only. */
__typeof__(cuStreamWaitValue32_v2) cuStreamWaitValue32_v2_ptsz;
__typeof__(cuStreamWaitValue64_v2) cuStreamWaitValue64_v2_ptsz;
__typeof__(cuStreamBatchMemOp_v2) cuStreamBatchMemOp_v2_ptsz;
__typeof__(cuMemcpyBatchAsync_v2) cuMemcpyBatchAsync_v2_ptsz;
__typeof__(cuMemcpy3DBatchAsync_v2) cuMemcpy3DBatchAsync_v2_ptsz;

#include "policy/policy.h"
#include "shim/base/base.h"

/* What stays behind is lost for good: one more try. */
#define GM_TWICE(call)           \
    ({                           \
        CUresult once_ = (call); \
        once_ ? (call) : once_;  \
    })

/* Functions gpumem itself calls. X(field, exact driver symbol, name for cuGetProcAddress, version, optional)
 * Optional rows may be absent in older drivers: the field is NULL then. */
#include "shim/driver/symbols.h"

struct gm_driver {
#define X(field, symbol, name, version, optional) __typeof__(&symbol) field;
    GM_DRIVER_SYMBOLS(X)
#undef X
};

/* The table; fields are NULL until gm_driver_ready() is true. */
GM_INTERNAL extern struct gm_driver gm_drv;

/* Finds the driver that the process has loaded (load = false) or loads libcuda.so.1 (load = true). Cheap after the
 * first success. False: no driver. */
bool gm_driver_ready(bool load);
/* Instead of a driver's library: functions of the caller's own, copied; those that are NULL are absent. Before the
 * first gm_driver_ready; gm_driver_handle and gm_driver_symbol are of no use then. */
void gm_driver_use(const struct gm_driver *table);
/* Handle of the driver's library as dlopen gives it, NULL when not ready. */
void *gm_driver_handle(void);
/* The true function of an exact symbol, by the loaded driver's own table and not through any hook; NULL when absent. */
void *gm_driver_symbol(const char *symbol);

/* ---- contexts (context.c) */
struct gm_context {
    CUcontext handle;
    uint64_t id;     /* cuCtxGetId where the driver has it, else an own number; never reused in this process */
    CUdevice device; /* ordinal */
    uint16_t number; /* small, from 1, for traces */
};
/* The calling thread's current context; false (and a zeroed *context with device -1) when there is none. Cached: costs
 * one cuCtxGetCurrent and a look-up. */
bool gm_context_current(struct gm_context *context);
/* Describes a context that was seen as current and lives; no driver call. */
bool gm_context_find(CUcontext handle, struct gm_context *context);
/* Any living context of the device that was seen as current and is not just ending; false: none. No driver call. */
bool gm_context_on(CUdevice device, struct gm_context *context);
/* Contexts that were ever seen as current; one that ended counts. */
unsigned gm_contexts_seen(void);
/* Told of each context when it is first seen as current; set before the first look. NULL: nobody asks. */
extern void (*gm_context_on_new)(const struct gm_context *context);
/* Before a call that may end the context or reset its memory: waits until nobody holds the context. Returns its id, 0
 * when it was never seen. gm_context_end follows, or gm_context_stays when the call left the context as it was. */
uint64_t gm_context_ending(CUcontext handle);
void gm_context_stays(CUcontext handle, uint64_t id);
/* A context died or its memory was reset: its generation ends. Writes the id it had; false when it was never seen. */
bool gm_context_end(CUcontext handle, uint64_t *id);
/* Objects of a context go with it, and other threads may end it at any time. Whoever names such an object in a call
 * that does not wait holds the context meanwhile: no call that ends it runs then. Returns what gm_context_let_go takes,
 * or, where nothing is held, GM_CONTEXT_ENDING (it may be there afterwards) or GM_CONTEXT_DESTROYED. */
enum { GM_CONTEXT_ENDING = -1, GM_CONTEXT_DESTROYED = -2 };
int gm_context_hold(CUcontext handle, uint64_t id);
void gm_context_let_go(int hold);
/* The same answers, nothing is held. */
int gm_context_life(CUcontext handle, uint64_t id);
/* The primary context of a device if it was ever seen as current, else NULL. */
CUcontext gm_context_primary(CUdevice device);
/* Describes the primary context of a device; false: it is not there, or was never made through a watched call. */
bool gm_context_primary_lives(CUdevice device, struct gm_context *primary);
/* A device's primary context became known (cuDevicePrimaryCtxRetain). */
void gm_context_note_primary(CUdevice device, CUcontext handle);
/* `accessor` may access the device's memory from now on (cuCtxEnablePeerAccess); kept until the accessor ends. */
void gm_context_note_reach(CUdevice device, const struct gm_context *accessor);
/* Copies who may, up to `room`; more than `room` when there are more. */
unsigned gm_context_reach(CUdevice device, struct gm_context *accessors, unsigned room);
void gm_contexts_after_fork(void);

/* ---- stream capture (capture.c): every begin and end in the process passes here.
 *
 * What a capture forbids (CUDA driver API: cuThreadExchangeStreamCaptureMode, cuCtxRecordEvent; programming guide,
 * prohibited and unhandled operations). An unsafe call is one that no stream orders: plain allocation and free, to map
 * and unmap, to trim a pool, to ask about an event or wait for it. It fails, and invalidates the captures that forbid
 * it, in a thread
 *  - of mode global: while a global-mode capture of any thread runs, or one of its own that is not relaxed;
 *  - of mode thread-local: while one of its own runs that is not relaxed;
 *  - of mode relaxed: never.
 * A call conflicts when it names what a capture holds: cuCtxRecordEvent, cuCtxWaitEvent and cuCtxSynchronize of a
 * context in which a stream captures, an event that was last recorded in a capture, the legacy stream beside a blocking
 * stream that captures. It invalidates the capture in whatever mode its thread is. So gpumem makes unsafe calls of its
 * own in relaxed mode (gm_capture_relax), whatever captures, and calls that may conflict only in a guarded section. A
 * driver that answers a plain allocation with out of memory has allowed it: then the thread may free as well. */
struct gm_capture {
    CUstream stream;
    CUcontext context; /* the stream's */
    uint32_t thread;   /* that began it: a number of our own */
    bool per_thread;   /* the stream is the default stream of that thread alone */
    CUstreamCaptureMode mode;
};
/* Before the true call; `per_thread`: it is the twin for per-thread default streams. When it returns no guarded section
 * is open. gm_capture_begun follows, with what this returned and whether the true call succeeded. */
uint64_t gm_capture_begin(CUstream stream, bool per_thread, CUstreamCaptureMode mode);
void gm_capture_begun(uint64_t serial, bool ok);
/* The stream's capture has ended. */
void gm_capture_end(CUstream stream, bool per_thread);
/* A stream, or a context where `context` is not NULL, is about to be destroyed. gm_capture_gone follows and says
 * whether it was destroyed: its captures are over then, since nobody can end them. */
void gm_capture_going(CUstream stream, CUcontext context);
void gm_capture_gone(CUstream stream, CUcontext context, bool gone);
/* Asks the driver about captures that last long. True: none is left. Cheap; no lock may be held. */
bool gm_capture_recheck(void);
/* Told of each capture that was over without an end. NULL: nobody asks. */
extern void (*gm_capture_on_lost)(const struct gm_capture *capture);
GM_INTERNAL extern int gm_captures;       /* begun and not yet ended, in any thread */
static inline bool gm_capture_any(void) { /* some stream of the process may be capturing */
    return GM_UNLIKELY(__atomic_load_n(&gm_captures, __ATOMIC_RELAXED) > 0);
}
/* Enter and leave a section in which our own driver calls may not disturb a capture: exchanges the thread's capture
 * mode to relaxed and makes gm_capture_begin wait until the section is left. False: a capture is running, do not call
 * the driver's context-wide events. No lock may be held. */
bool gm_capture_guard_enter(CUstreamCaptureMode *saved);
void gm_capture_guard_leave(CUstreamCaptureMode saved);
/* The thread's mode is relaxed from here on; returns what it was. */
CUstreamCaptureMode gm_capture_relax(void);
void gm_capture_unrelax(CUstreamCaptureMode saved);
void gm_captures_after_fork(void);

#endif
