/* GPUMEM_FREE: the implicit synchronisation of cudaFree, whatever resource the memory came from.
 *
 * A native cudaFree returns when all work submitted to the block's context is done. Meanwhile other threads cannot
 * submit work to that context. cudaMalloc neither waits nor orders anything. (tools/bench/implicit_sync measures
 * both.) Programs rely on this: a thread computes a table on its stream and frees a temporary block, and then other
 * threads read the table without any synchronisation.
 * wait   The free returns when all work submitted before is done.
 * order  The free returns at once. Work that any thread submits to any stream of the context afterwards runs behind
 *        all work submitted before (cuCtxWaitEvent). A native free holds up the same submissions, so this hangs only
 *        where the native call hangs.
 * async  The free returns at once. gpumem only prevents early reuse of the memory.
 * safe   The cheapest of the three that the program cannot distinguish from the native call. With one stream this is
 *        `async`, since the stream is an order. With several streams it is `order`. It is `wait` where the host,
 *        another context, another device or another process can see what the device does.
 *
 * `safe` learns what a process does from its driver calls (enum gm_sync_reason). Where it cannot see, it assumes the
 * worse case. All functions may be called by many threads at once, with no lock held. */
#ifndef GM_DRIVER_FREE_SYNC_H
#define GM_DRIVER_FREE_SYNC_H

#include "shim/driver/driver.h"

/* In the order of the option's choices. */
enum gm_free_level { GM_FREE_SAFE, GM_FREE_WAIT, GM_FREE_ORDER, GM_FREE_ASYNC };

/* Why a free under `safe` has to do more than `async`. */
enum gm_sync_reason {
    /* Something other than the context can access device memory. When such a reason is first noted, gpumem waits for
     * the work that frees left in flight. */
    GM_SYNC_PEERS,    /* cuCtxEnablePeerAccess */
    GM_SYNC_SHARED,   /* IPC handles, shareable handles and pool pointers, exported or imported */
    GM_SYNC_RANGE,    /* cuMemGetHandleForAddressRange: dma-buf */
    GM_SYNC_EXTERNAL, /* memory or semaphores of a graphics library */
    GM_SYNC_GREEN,    /* cuGreenCtxCreate: another context over the same memory */
    GM_SYNC_CONTEXTS, /* a second context exists */
    /* The host sees what the device does. */
    GM_SYNC_HOST_MEMORY,   /* pinned, registered, managed memory, or host memory mapped by the program */
    GM_SYNC_PAGEABLE,      /* the device reaches all host memory (HMM, ATS) */
    GM_SYNC_HOST_FUNCTION, /* cuLaunchHostFunc, cuStreamAddCallback, or such a graph node */
    GM_SYNC_QUERY,         /* after a free, the program queried an event or a stream that was not done */
    GM_SYNC_PRINTF,        /* a kernel may print */
    GM_SYNC_UNMAP,         /* the program unmapped memory after a free: cuMemUnmap does not wait */
    /* A stream may wait for a write that another thread can still submit during a native free. */
    GM_SYNC_VALUES,     /* cuStreamWaitValue*, cuStreamBatchMemOp*, or such a graph node */
    GM_SYNC_SEMAPHORES, /* cuWaitExternalSemaphoresAsync, or such a graph node */
    /* There are streams that gpumem does not count. */
    GM_SYNC_PER_THREAD, /* a per-thread default stream */
    GM_SYNC_LINKED,     /* calls that bypass the look-ups, or trampolines instead of stream observers */
    GM_SYNC_REASONS
};

/* To be called before the first context. */
GM_INTERNAL void gm_free_sync_setup(enum gm_free_level level);
/* True when `safe` is in force: per-thread default streams have to be observed. */
GM_INTERNAL bool gm_free_sync_observes(void);
/* Notes a reason. To be called before the true call that gives it. Cheap when the reason was noted before. */
GM_INTERNAL void gm_free_sync_note(enum gm_sync_reason reason);
/* A per-thread default stream is about to be used for the first time (entry.S). */
GM_INTERNAL void gm_free_sync_per_thread(void);
/* A stream of the program was created, and the program does not have it yet; a stream is about to be destroyed. */
GM_INTERNAL void gm_free_sync_stream_created(void);
GM_INTERNAL void gm_free_sync_stream_destroyed(void);
/* A context is seen for the first time; a context was destroyed. */
GM_INTERNAL void gm_free_sync_context(const struct gm_context *context);
GM_INTERNAL void gm_free_sync_context_destroyed(uint64_t context_id);

/* Synchronises for a free of a block of this context, before the block's owner frees it. *settled: the block may be
 * reused at once, since all work that may use it is done or runs first. Errors: the error of earlier work, which the
 * native call would have returned. The program keeps the block then. */
GM_INTERNAL gm_status gm_free_sync_before(CUcontext context, uint64_t context_id, CUdevice device, bool *settled);
/* True while gm_free_sync_before would do nothing for a block of the only context. */
GM_INTERNAL extern bool gm_free_sync_idle;
static inline bool gm_free_sync_is_idle(void) {
    return GM_LIKELY(__atomic_load_n(&gm_free_sync_idle, __ATOMIC_ACQUIRE));
}
/* The program queried an event or a stream that is not done. True: a free had left work in flight, and that is done
 * now; query again. */
GM_INTERNAL bool gm_free_sync_query(void);
/* The program is about to unmap memory. Waits for work that a free left in flight, since it may use that memory. */
GM_INTERNAL void gm_free_sync_unmap(void);
/* True when a free has waited or ordered, by choice or for a reason. */
GM_INTERNAL bool gm_free_sync_slows(void);
/* "async: one stream", "order: several streams", "wait: peer access" ...; static text. */
GM_INTERNAL const char *gm_free_sync_state(void);
GM_INTERNAL void gm_free_sync_after_fork(void);

#endif
