/* The table of the driver's calls (calls.h) for C: a number for each row, and the rows as constant data. */
#ifndef GM_DRIVER_CALL_H
#define GM_DRIVER_CALL_H

#include "shim/base/base.h"
#include "shim/driver/calls.h"

/* GM_AT_cuMemFree_v2 ... */
enum gm_call_number {
#define CALL(symbol, ...) GM_AT_##symbol,
    GM_DRIVER_CALLS(CALL)
#undef CALL
        GM_CALL_ROWS
};

/* In this order: gm_call_ends_handover. */
enum gm_role { GM_ROLE_BLIND, GM_ROLE_WAITS, GM_ROLE_SUBMITS, GM_ROLE_NOTICES, GM_ROLE_SHARES, GM_ROLE_MEMORY };

/* Where a call names its stream: the index of an argument, or one of the last three. */
enum gm_call_stream {
    GM_STREAM_0,
    GM_STREAM_1,
    GM_STREAM_2,
    GM_STREAM_3,
    GM_STREAM_4,
    GM_STREAM_5,
    GM_STREAM_6,
    GM_STREAM_7,
    GM_STREAM_8,
    GM_STREAM_DEFAULT, /* the default stream */
    GM_STREAM_CONFIG,  /* in the configuration of a launch */
    GM_STREAM_NONE
};

enum gm_meaning {
    GM_MEANING_NO,
    GM_MEANING_KERNEL,
    GM_MEANING_CONFIG,
    GM_MEANING_WORK,
    GM_MEANING_FIXED_WORK,
    GM_MEANING_COPY,
    GM_MEANING_COPY_2D,
    GM_MEANING_COPY_3D,
    GM_MEANING_COPY_3D_PEER,
    GM_MEANING_WAITED,
    GM_MEANING_VISIBLE,
    GM_MEANING_FUNCTION,
    GM_MEANING_SIGNAL,
    GM_MEANING_AWAIT,
    GM_MEANING_BATCH,
    GM_MEANING_RECORD,
    GM_MEANING_WAIT,
    GM_MEANING_CONTEXT_RECORD,
    GM_MEANING_CONTEXT_WAIT,
    GM_MEANING_SYNCHRONISE, /* from here to FREE: submits nothing and writes no memory */
    GM_MEANING_EVENT_DONE,
    GM_MEANING_CONTEXT_DONE,
    GM_MEANING_NAMED_CONTEXT_DONE,
    GM_MEANING_QUERY_STREAM,
    GM_MEANING_QUERY_EVENT,
    GM_MEANING_QUERY_EVENTS,
    GM_MEANING_ASKS,
    GM_MEANING_FREE,
    GM_MEANING_ENDING,
    GM_MEANING_SHARES_MEMORY,
    GM_MEANING_MAY_SHARE_MEMORY,
    GM_MEANING_COPY_NODE_1, /* from here on: a node of a graph */
    GM_MEANING_COPY_NODE_2,
    GM_MEANING_COPY_NODE_4,
    GM_MEANING_NODE_1,
    GM_MEANING_NODE_2
};

/* Why frees under `safe` wait from now on. The first ones hold for `order`, too: something other than the context can
 * access device memory. */
enum gm_sync_reason {
    GM_SYNC_PEERS,    /* cuCtxEnablePeerAccess */
    GM_SYNC_SHARED,   /* IPC handles, shareable handles and pool pointers, exported or imported */
    GM_SYNC_RANGE,    /* cuMemGetHandleForAddressRange: dma-buf */
    GM_SYNC_EXTERNAL, /* memory or semaphores of a graphics library */
    GM_SYNC_GREEN,    /* cuGreenCtxCreate: another context over the same memory */
    GM_SYNC_CONTEXTS, /* a context made by a call whose contexts gpumem does not follow */
    GM_SYNC_UNSEEN,   /* calls of the driver that gpumem cannot see */
    GM_SYNC_OTHERS = GM_SYNC_UNSEEN,
    /* The host sees what the device does. */
    GM_SYNC_HOST_MEMORY,   /* pinned, registered, managed memory, or host memory mapped by the program */
    GM_SYNC_PAGEABLE,      /* the device reaches all host memory (HMM, ATS) */
    GM_SYNC_HOST_FUNCTION, /* cuLaunchHostFunc, cuStreamAddCallback, or such a graph node */
    GM_SYNC_PRINTF,        /* a kernel may print */
    /* A stream may wait for a write that another thread can still submit during a native free. */
    GM_SYNC_VALUES,     /* cuStreamWaitValue*, cuStreamBatchMemOp*, or such a graph node */
    GM_SYNC_SEMAPHORES, /* cuWaitExternalSemaphoresAsync, or such a graph node */
    /* A kernel may wait for a value that a stream writes. Such a write natively goes through while a free waits, but a
     * free that returns early cannot know whether the write came before its end or after. Holds for `order`, too, and
     * only while several streams carry work: one stream runs the write behind the kernel anyway. */
    GM_SYNC_WRITES, /* cuStreamWriteValue*: looked up, linked or called */
    GM_SYNC_REASONS,
    GM_SYNC_NO = GM_SYNC_REASONS /* no reason */
};

/* Whether a call can need device memory. In this order: gm_call_is_made_again. */
enum gm_call_memory { GM_MEMORY_NEVER, GM_MEMORY_ONCE, GM_MEMORY_CALL, GM_MEMORY_LAUNCH };

struct gm_call_row {
    const char *symbol, *name;
    int version;
    bool twin, hooked;
    uint8_t role, stream, meaning, why, memory; /* why: enum gm_sync_reason */
};
GM_INTERNAL extern const struct gm_call_row gm_call_rows[GM_CALL_ROWS];

/* True for a call that is made once more if it finds the device out of memory and a trim releases some. */
static inline bool gm_call_is_made_again(const struct gm_call_row *row) { return row->memory >= GM_MEMORY_CALL; }

/* True for a call that may submit work or change memory: a page handover (grow/handover.h) must have ended before it.
 */
static inline bool gm_call_ends_handover(enum gm_role role, enum gm_meaning meaning) {
    return role > GM_ROLE_WAITS && !(meaning >= GM_MEANING_SYNCHRONISE && meaning <= GM_MEANING_FREE);
}

#endif
