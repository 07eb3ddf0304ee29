/* The implicit synchronisation of cudaFree (GPUMEM_FREE), apart from where the memory came from.
 *
 * Natively cudaFree returns when all work that was submitted to the block's context is done, and other threads cannot
 * submit work to that context meanwhile; cudaMalloc neither waits nor orders anything (tools/bench/implicit_sync
 * measures both). Programs lean on it: a table is computed on one thread's stream, a temporary is freed, and other
 * threads read the table without any synchronisation.
 *
 *   wait   returns when all work submitted before is done.
 *   order  returns at once; work submitted to the context afterwards, by any thread to any stream, runs behind all work
 * submitted before (cuCtxWaitEvent). Natively the same submissions are held up, so it hangs only where the native call
 * does. async  only excludes that memory is reused early. safe   the cheapest of the three that a program cannot tell
 * from the native call. With one stream `async` is enough, since that stream is an order. With several streams `order`
 * is enough. Where the host, another context, another device or another process can see what the device does, a free
 * waits.
 *
 * `safe` learns what a process does from its calls of the driver (enum gm_sync_reason). What it cannot see it takes for
 * the worse. All functions may be called by many threads at once, with no lock held. */
#ifndef GM_DRIVER_FREE_SYNC_H
#define GM_DRIVER_FREE_SYNC_H

#include "shim/driver/driver.h"

/* In the order of the option's words. */
enum gm_free_level { GM_FREE_SAFE, GM_FREE_WAIT, GM_FREE_ORDER, GM_FREE_ASYNC };

/* Why a free of `safe` has to do more than `async`. */
enum gm_sync_reason {
    /* Others than the context reach device memory. Work that a free left in flight is waited for when the reason is
       first noted. */
    GM_SYNC_PEERS,    /* cuCtxEnablePeerAccess */
    GM_SYNC_SHARED,   /* IPC handles, shareable handles and pool pointers, exported or imported */
    GM_SYNC_RANGE,    /* cuMemGetHandleForAddressRange: dma-buf */
    GM_SYNC_EXTERNAL, /* memory or semaphores of a graphics library */
    GM_SYNC_GREEN,    /* cuGreenCtxCreate: a context of its own over the same memory */
    GM_SYNC_CONTEXTS, /* a second context lives */
    /* The host sees what the device does. */
    GM_SYNC_HOST_MEMORY,   /* pinned, registered, managed memory, or host memory mapped by the program */
    GM_SYNC_PAGEABLE,      /* the device reaches all host memory (HMM, ATS) */
    GM_SYNC_HOST_FUNCTION, /* cuLaunchHostFunc, cuStreamAddCallback, or such a graph node */
    GM_SYNC_QUERY,         /* an event or a stream was not done when the program asked after a free */
    GM_SYNC_PRINTF,        /* a kernel may print */
    GM_SYNC_UNMAP,         /* memory was unmapped after a free: cuMemUnmap waits for nothing */
    /* A stream may wait for a write that can still be submitted during a native free. */
    GM_SYNC_VALUES,     /* cuStreamWaitValue*, cuStreamBatchMemOp*, or such a graph node */
    GM_SYNC_SEMAPHORES, /* cuWaitExternalSemaphoresAsync, or such a graph node */
    /* Streams that are not counted. */
    GM_SYNC_PER_THREAD, /* a per-thread default stream */
    GM_SYNC_LINKED,     /* calls past the look-ups, or trampolines instead of stream observers */
    GM_SYNC_REASONS
};

/* Before the first context. */
GM_INTERNAL void gm_free_sync_setup(enum gm_free_level level);
/* True when `safe` is in force: per-thread default streams are to be watched. */
GM_INTERNAL bool gm_free_sync_observes(void);
/* To be called before the true call that gives the reason. Cheap when the reason was noted before. */
GM_INTERNAL void gm_free_sync_note(enum gm_sync_reason reason);
/* A per-thread default stream is about to be used for the first time (entry.S). */
GM_INTERNAL void gm_free_sync_per_thread(void);
/* The program's stream was created, before the program gets it; is about to be destroyed. */
GM_INTERNAL void gm_free_sync_stream_created(void);
GM_INTERNAL void gm_free_sync_stream_destroyed(void);
/* A context is seen for the first time; is gone. */
GM_INTERNAL void gm_free_sync_context(const struct gm_context *context);
GM_INTERNAL void gm_free_sync_context_destroyed(uint64_t context_id);

/* Synchronises for a free of a block of this context, before its owner gets it back. *settled: the block's next user
 * may have it at once, since all work that may use the block is done or runs first. Errors: that of earlier work, which
 * the native call would have returned; the block stays the program's then. */
GM_INTERNAL gm_status gm_free_sync_before(CUcontext context, uint64_t context_id, CUdevice device, bool *settled);
/* An event or a stream that the program asked about is not done. True: a free had left work in flight; it is done now,
 * ask again. */
GM_INTERNAL bool gm_free_sync_query(void);
/* The program is about to unmap memory: work that a free left in flight may use it, and is done first. */
GM_INTERNAL void gm_free_sync_unmap(void);
/* True when a free has waited or ordered, by choice or for a reason. */
GM_INTERNAL bool gm_free_sync_slows(void);
/* "async: one stream", "order: several streams", "wait: peer access" ...; static text. */
GM_INTERNAL const char *gm_free_sync_state(void);
GM_INTERNAL void gm_free_sync_after_fork(void);

#endif
