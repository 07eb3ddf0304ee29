/* The CUDA driver as gpumem itself calls it: a table of the true functions (driver.c), the contexts seen so far
 * (context.c), and stream captures (capture.c). Calls through the table never pass through a hook. */
#ifndef GM_DRIVER_H
#define GM_DRIVER_H

/* With this, cuda.h declares every variant of a function by its exact name (cuMemAlloc_v2, cuMemAllocAsync_ptsz ...)
 * and renames none. */
#define __CUDA_API_VERSION_INTERNAL
#define __CUDA_API_VERSION_INTERNAL_ODR
#include <cuda.h>

#if CUDA_VERSION < 13010
CUresult cuMulticastBindMem_v2(CUmemGenericAllocationHandle mcHandle, CUdevice dev, size_t mcOffset,
                               CUmemGenericAllocationHandle memHandle, size_t memOffset, size_t size,
                               unsigned long long flags);
CUresult cuMulticastBindAddr_v2(CUmemGenericAllocationHandle mcHandle, CUdevice dev, size_t mcOffset,
                                CUdeviceptr memptr, size_t size, unsigned long long flags);
#endif

/* cuda.h has these only as macros. */
__typeof__(cuStreamWaitValue32_v2) cuStreamWaitValue32_v2_ptsz;
__typeof__(cuStreamWaitValue64_v2) cuStreamWaitValue64_v2_ptsz;
__typeof__(cuStreamBatchMemOp_v2) cuStreamBatchMemOp_v2_ptsz;
__typeof__(cuMemcpyBatchAsync_v2) cuMemcpyBatchAsync_v2_ptsz;
__typeof__(cuMemcpy3DBatchAsync_v2) cuMemcpy3DBatchAsync_v2_ptsz;

#include "policy/policy.h"
#include "shim/base/base.h"

/* Calls that free something are tried twice, because what they leave is leaked for good. */
#define GM_TWICE(call)           \
    ({                           \
        CUresult once_ = (call); \
        once_ ? (call) : once_;  \
    })

/* The functions that gpumem calls. X(field, exact driver symbol, optional). An older driver may lack an optional
 * function; its field is NULL then. */
#include "shim/driver/symbols.h"

struct gm_driver {
#define X(field, symbol, optional) __typeof__(&symbol) field;
    GM_DRIVER_SYMBOLS(X)
#undef X
};

/* The fields are NULL until gm_driver_ready() returns true. */
GM_INTERNAL extern struct gm_driver gm_drv;

/* Finds the driver that the process has loaded (load = false), or loads libcuda.so.1 (load = true). Cheap after the
 * first success. False: no driver. */
bool gm_driver_ready(bool load);
/* Uses a copy of this table instead of a driver library; a NULL field means that the function is absent. To be called
 * before gm_driver_ready. gm_driver_handle and gm_driver_symbol cannot be used then. */
void gm_driver_use(const struct gm_driver *table);
/* Handle of the driver library, as dlopen returns it; NULL when not ready. */
void *gm_driver_handle(void);
/* The true function of an exact symbol from the driver's own symbol table, never a hook; NULL when absent. */
void *gm_driver_symbol(const char *symbol);

/* cuGetProcAddress_v2, of the driver or of the preloaded library. */
typedef CUresult gm_resolver(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);
struct gm_call_row;
/* The function of a row, by its name and the version that introduced it. NULL: there is none. */
GM_INTERNAL void *gm_driver_resolve(gm_resolver *resolver, const struct gm_call_row *row);

/* Bytes of a device; 0: the driver does not say. */
static inline uint64_t gm_device_total(int device) {
    size_t total = 0;
    return gm_drv.device_total_mem && gm_drv.device_total_mem(&total, device) == CUDA_SUCCESS ? total : 0;
}

/* Which memory lies at an address: CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_DEVICE ..., 0 where the driver knows none, as for
 * pageable host memory. *managed: it is managed memory. A query for one attribute would fail there, and tools such as
 * compute-sanitizer report a failed call. */
GM_INTERNAL unsigned gm_memory_type(const struct gm_driver *driver, CUdeviceptr address, bool *managed);

/* ---- contexts (context.c) */
struct gm_context {
    CUcontext handle;
    uint64_t id;     /* from cuCtxGetId, else a number of gpumem; never reused in this process */
    CUdevice device; /* ordinal */
    uint16_t number; /* small, from 1, for traces */
};
/* The current context of the calling thread. False, and a zeroed *context with device -1, when there is none. Costs
 * one cuCtxGetCurrent and a look-up. */
bool gm_context_current(struct gm_context *context);
/* Only the id of the current context; 0: none, or it was not seen before. *at: for gm_context_same_id. */
GM_INTERNAL uint64_t gm_context_current_id(const struct gm_context **at);
GM_INTERNAL extern const struct gm_context gm_context_none; /* is never current */
/* The same where it is the context that gm_context_current_id found there, else 0. */
GM_INTERNAL uint64_t gm_context_same_id(const struct gm_context *at);
/* Describes a context that was seen as current and lives. Makes no driver call. */
bool gm_context_find(CUcontext handle, struct gm_context *context);
/* Finds a living context of the device that was seen as current and is not ending. False: none. Makes no driver call.
 */
bool gm_context_on(CUdevice device, struct gm_context *context);
/* The context lives, and no other living context of its device was seen as current. Makes no driver call. */
bool gm_context_is_alone(CUcontext handle, uint64_t id, CUdevice device);
/* Calls visit for a copy of each living context that was seen as current. */
GM_INTERNAL void gm_contexts_each(void (*visit)(const struct gm_context *context));
/* Number of contexts that were ever seen as current, ended ones included. */
unsigned gm_contexts_seen(void);
/* To be called before a call that may end the context or reset its memory. Waits until no thread holds the context.
 * Returns its id, or 0 when it was never seen. Afterwards call gm_context_end, or gm_context_stays when the context
 * did not end. */
uint64_t gm_context_ending(CUcontext handle);
void gm_context_stays(CUcontext handle, uint64_t id);
/* A context was destroyed or its memory was reset. Its id is not used again. Writes the id it had; false when it was
 * never seen. */
bool gm_context_end(CUcontext handle, uint64_t *id);
/* A context destroys its objects when it ends, and another thread may end it at any time. A thread that names such an
 * object in a call holds the context meanwhile: no call that ends it runs then. Returns a value for
 * gm_context_let_go; or GM_CONTEXT_ENDING (it may still exist afterwards) or GM_CONTEXT_DESTROYED, when nothing is
 * held. */
enum { GM_CONTEXT_ENDING = -1, GM_CONTEXT_DESTROYED = -2 };
int gm_context_hold(CUcontext handle, uint64_t id);
void gm_context_let_go(int hold);
/* Returns the same values, but holds nothing. */
int gm_context_life(CUcontext handle, uint64_t id);
/* The handle of a device's primary context if it is known, else NULL. */
CUcontext gm_context_primary(CUdevice device);
/* Describes the primary context of a device. False: it does not exist, or no observed call created it. */
bool gm_context_primary_lives(CUdevice device, struct gm_context *primary);
/* The primary context of a device became known (cuDevicePrimaryCtxRetain). */
void gm_context_note_primary(CUdevice device, CUcontext handle);
/* `accessor` may access the device's memory from now on (cuCtxEnablePeerAccess), until it ends. */
void gm_context_note_reach(CUdevice device, const struct gm_context *accessor);
/* Graphs may exist whose nodes copy memory. The event of the memory's context does not cover such a copy in a stream of
 * another device (measured with driver 580), so from now on every context of another device counts as one that may
 * access the memory. */
void gm_context_note_graphs(void);
/* Copies up to `room` contexts that may access the device, and returns their number; a number above `room` when there
 * are more. */
unsigned gm_context_reach(CUdevice device, struct gm_context *accessors, unsigned room);
/* True when a living context of another device was seen as current: its streams may copy from and to the device. */
bool gm_context_other(CUdevice device);
/* The contexts whose work may use a block of the context users[0], which the caller fills in: that context, the primary
 * context of its device, whose memory green contexts share, and each context of another device with peer access, with
 * the primary context of that device. `with_copies`: those without, too. The first *owners are on the block's device.
 * Returns their number; a number above `room` when there are more, as always with more than GM_CONTEXT_USERS peers. May
 * make driver calls: no lock may be held. */
enum { GM_CONTEXT_USERS = 32 };
unsigned gm_context_users(struct gm_context *users, unsigned room, bool with_copies, unsigned *owners);

/* ---- contexts and threads of streams */

/* The handle of the context that is current in this thread; NULL: none. */
GM_INTERNAL CUcontext gm_context_handle(void);
/* Writes the stream's context. False: the driver cannot name it, since the stream is a default stream or belongs to a
 * green context. *context is the current one then. */
GM_INTERNAL bool gm_context_of_stream(CUstream stream, CUcontext *context);
/* The stream is the default stream of the calling thread. `twin`: the call is the variant for per-thread default
 * streams. */
static inline bool gm_is_per_thread(CUstream stream, bool twin) {
    return stream ? stream == CU_STREAM_PER_THREAD : twin;
}

/* ---- stream capture (capture.c). Every begin and end of a capture in the process is reported here.
 *
 * What a capture forbids (CUDA driver API: cuThreadExchangeStreamCaptureMode, cuCtxRecordEvent; programming guide,
 * prohibited and unhandled operations):
 *
 * An unsafe call is a call that no stream orders: a plain allocation or free, mapping and unmapping, trimming a pool,
 * querying an event or waiting for it. The call fails, and invalidates the captures that forbid it, in a thread
 * - of mode global: while any thread has a global-mode capture, or this thread has one that is not relaxed;
 * - of mode thread-local: while this thread has a capture that is not relaxed;
 * - of mode relaxed: never.
 *
 * A conflicting call names something that a capture holds: cuCtxRecordEvent, cuCtxWaitEvent and cuCtxSynchronize of a
 * context in which a stream captures; an event that was last recorded in a capture; the legacy stream while a blocking
 * stream captures. It invalidates the capture whatever the mode of the calling thread.
 *
 * So gpumem makes its own unsafe calls in relaxed mode (gm_capture_relax), even while a stream captures. It makes
 * calls that may conflict only in a guarded section. When the driver answers a plain allocation with out of memory, it
 * allowed the allocation: the thread may then free as well. */
struct gm_capture {
    CUstream stream;
    CUcontext context; /* the stream's */
    uint32_t thread;   /* the thread that began it: a number of gpumem */
    bool per_thread;   /* the stream is the default stream of that thread alone */
    CUstreamCaptureMode mode;
};
/* To be called before the true call. `per_thread`: the call is the variant for per-thread default streams. No guarded
 * section is open when this returns. Then call gm_capture_begun with the returned value and the success of the true
 * call. */
uint64_t gm_capture_begin(CUstream stream, bool per_thread, CUstreamCaptureMode mode);
void gm_capture_begun(uint64_t serial, bool ok);
/* The stream's capture has ended. */
void gm_capture_end(CUstream stream, bool per_thread);
/* A stream is about to be destroyed, or a context where `context` is not NULL. Then call gm_capture_destroyed. Where
 * `destroyed` is true, the captures are lost, because nobody can end them. */
void gm_capture_ending(CUstream stream, CUcontext context);
void gm_capture_destroyed(CUstream stream, CUcontext context, bool destroyed);
/* Queries the driver about captures that last long. True: no capture remains. Cheap; no lock may be held. */
bool gm_capture_recheck(void);
GM_INTERNAL extern int gm_captures;       /* captures of all threads that began and did not end */
static inline bool gm_capture_any(void) { /* some stream of the process may be capturing */
    return GM_UNLIKELY(__atomic_load_n(&gm_captures, __ATOMIC_RELAXED) > 0);
}
/* Enters and leaves a guarded section: gpumem's own calls in it cannot disturb a capture. Entering sets the thread's
 * capture mode to relaxed, and gm_capture_begin waits until the section is left. False: a stream captures, and no
 * context-wide event may be used. No lock may be held. */
bool gm_capture_guard_enter(CUstreamCaptureMode *saved);
void gm_capture_guard_leave(CUstreamCaptureMode saved);
/* Sets the thread's capture mode to relaxed; returns the former mode. */
CUstreamCaptureMode gm_capture_relax(void);
void gm_capture_unrelax(CUstreamCaptureMode saved);
/* The stream captures. False also where the driver does not answer. Queries the driver; per_thread: by the twin for
 * per-thread default streams. */
GM_INTERNAL bool gm_capture_on(CUstream stream, bool per_thread);
/* The stream captures, or is the legacy stream while a blocking stream captures: work submitted to it would become part
 * of the graph, or would invalidate the capture. Queries the driver. */
GM_INTERNAL bool gm_capture_holds(CUstream stream);

/* The current device could have `bytes` bytes beside `live` bytes of the program, if all else were free. Where the
 * driver does not say how large it is, it could. */
static inline bool gm_device_could_have(size_t bytes, uint64_t live) {
    size_t unused, total;
    return !gm_drv.mem_get_info || gm_drv.mem_get_info(&unused, &total) != CUDA_SUCCESS ||
           (live < total && bytes <= total - live);
}

#endif
