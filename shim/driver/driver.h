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

#include "policy/policy.h"
#include "shim/base/base.h"

/* What stays behind is lost for good: one more try. */
#define GM_TWICE(call)                                                                                       \
    ({                                                                                                       \
        CUresult once_ = (call);                                                                             \
        once_ ? (call) : once_;                                                                              \
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

/* Finds the driver that the process has loaded (load = false) or loads libcuda.so.1 (load = true). Cheap after the first
 * success. False: no driver. */
bool gm_driver_ready(bool load);
/* Instead of a driver's library: functions of the caller's own, copied; those that are NULL are absent. Before the first
 * gm_driver_ready; gm_driver_handle and gm_driver_symbol are of no use then. */
void gm_driver_use(const struct gm_driver *table);
/* Handle of the driver's library as dlopen gives it, NULL when not ready. */
void *gm_driver_handle(void);
/* The true function of an exact symbol, by the loaded driver's own table and not through any hook; NULL when absent. */
void *gm_driver_symbol(const char *symbol);

/* ---- contexts (context.c) */
struct gm_context {
    CUcontext handle;
    uint64_t id;      /* cuCtxGetId where the driver has it, else an own number; never reused in this process */
    CUdevice device;  /* ordinal */
    uint16_t number;  /* small, from 1, for traces */
};
/* The calling thread's current context; false (and a zeroed *context with device -1) when there is none. Cached: costs one
 * cuCtxGetCurrent and a look-up. */
bool gm_context_current(struct gm_context *context);
/* Describes a context that was seen as current and lives; no driver call. */
bool gm_context_find(CUcontext handle, struct gm_context *context);
/* Any living context of the device that was seen as current; false: none. No driver call. */
bool gm_context_on(CUdevice device, struct gm_context *context);
/* Contexts that were ever seen as current; one that ended counts. */
unsigned gm_contexts_seen(void);
/* Told of each context when it is first seen as current; set before the first look. NULL: nobody asks. */
extern void (*gm_context_on_new)(const struct gm_context *context);
/* A context died or its memory was reset: its generation ends. Writes the id it had; false when it was never seen. */
bool gm_context_end(CUcontext handle, uint64_t *id);
/* The primary context of a device if it was ever seen as current, else NULL. */
CUcontext gm_context_primary(CUdevice device);
/* A device's primary context became known (cuDevicePrimaryCtxRetain). */
void gm_context_note_primary(CUdevice device, CUcontext handle);
/* `accessor` may access the device's memory from now on (cuCtxEnablePeerAccess); kept until the accessor ends. */
void gm_context_note_reach(CUdevice device, const struct gm_context *accessor);
/* Copies who may, up to `room`; more than `room` when there are more. */
unsigned gm_context_reach(CUdevice device, struct gm_context *accessors, unsigned room);
void gm_contexts_after_fork(void);

/* ---- stream capture (capture.c): every begin and end in the process passes here. */
void gm_capture_begin(void); /* before the true call */
void gm_capture_end(void);   /* after the end, or when begin failed */
GM_INTERNAL extern int gm_captures;      /* begun and not yet ended, in any thread */
static inline bool gm_capture_any(void) { /* some stream of the process may be capturing */
    return GM_UNLIKELY(__atomic_load_n(&gm_captures, __ATOMIC_RELAXED) > 0);
}
/* Enter and leave a section in which our own driver calls may not disturb a capture: exchanges the thread's capture mode to
 * relaxed and makes gm_capture_begin wait until the section is left. False: a capture is running, do not call the driver's context-wide events. */
bool gm_capture_guard_enter(CUstreamCaptureMode *saved);
void gm_capture_guard_leave(CUstreamCaptureMode saved);

#endif
