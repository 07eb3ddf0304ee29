/* Vocabulary of placement: what a program asked (request), what it was promised, what a policy may answer (decision).
 *
 * Pure C, no CUDA, no I/O: everything in policy/ stands on this header alone. Sizes are bytes, times nanoseconds. */
#ifndef GM_POLICY_H
#define GM_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Status codes are the numbers of CUresult, so that a driver's answer travels unchanged to the caller. */
typedef int gm_status;
enum {
    GM_OK = 0,
    GM_INVALID_VALUE = 1,
    GM_OUT_OF_MEMORY = 2,
    GM_NOT_INITIALIZED = 3,
    GM_DEINITIALIZED = 4,
    GM_INVALID_CONTEXT = 201,
    GM_NOT_SUPPORTED = 801,
};

/* The program's call, whatever door it came through. X(enumerator, name in traces = driver name without version suffix)
 */
#define GM_CALLS(X)                                          \
    X(GM_CALL_NONE, "none")                                  \
    X(GM_CALL_ALLOC, "cuMemAlloc")                           \
    X(GM_CALL_ALLOC_PITCH, "cuMemAllocPitch")                \
    X(GM_CALL_ALLOC_ASYNC, "cuMemAllocAsync")                \
    X(GM_CALL_ALLOC_FROM_POOL, "cuMemAllocFromPoolAsync")    \
    X(GM_CALL_ALLOC_MANAGED, "cuMemAllocManaged")            \
    X(GM_CALL_ALLOC_HOST, "cuMemAllocHost")                  \
    X(GM_CALL_HOST_ALLOC, "cuMemHostAlloc")                  \
    X(GM_CALL_HOST_REGISTER, "cuMemHostRegister")            \
    X(GM_CALL_ARRAY, "cuArrayCreate")                        \
    X(GM_CALL_ARRAY3D, "cuArray3DCreate")                    \
    X(GM_CALL_MIPMAP, "cuMipmappedArrayCreate")              \
    X(GM_CALL_VMM_RESERVE, "cuMemAddressReserve")            \
    X(GM_CALL_VMM_CREATE, "cuMemCreate")                     \
    X(GM_CALL_VMM_MAP, "cuMemMap")                           \
    X(GM_CALL_VMM_IMPORT, "cuMemImportFromShareableHandle")  \
    X(GM_CALL_IPC_OPEN, "cuIpcOpenMemHandle")                \
    X(GM_CALL_POOL_IMPORT_POINTER, "cuMemPoolImportPointer") \
    X(GM_CALL_GRAPH_ALLOC, "cuGraphAddMemAllocNode")         \
    X(GM_CALL_POOL_CREATE, "cuMemPoolCreate")                \
    X(GM_CALL_FREE, "cuMemFree")                             \
    X(GM_CALL_FREE_ASYNC, "cuMemFreeAsync")                  \
    X(GM_CALL_FREE_HOST, "cuMemFreeHost")                    \
    X(GM_CALL_HOST_UNREGISTER, "cuMemHostUnregister")        \
    X(GM_CALL_ARRAY_DESTROY, "cuArrayDestroy")               \
    X(GM_CALL_MIPMAP_DESTROY, "cuMipmappedArrayDestroy")     \
    X(GM_CALL_VMM_ADDRESS_FREE, "cuMemAddressFree")          \
    X(GM_CALL_VMM_RELEASE, "cuMemRelease")                   \
    X(GM_CALL_VMM_UNMAP, "cuMemUnmap")                       \
    X(GM_CALL_IPC_CLOSE, "cuIpcCloseMemHandle")              \
    X(GM_CALL_GRAPH_FREE, "cuGraphAddMemFreeNode")           \
    X(GM_CALL_POOL_DESTROY, "cuMemPoolDestroy")              \
    X(GM_CALL_IPC_GET, "cuIpcGetMemHandle")                  \
    X(GM_CALL_EXPORT_RANGE, "cuMemGetHandleForAddressRange") \
    X(GM_CALL_VMM_EXPORT, "cuMemExportToShareableHandle")    \
    X(GM_CALL_CTX_DESTROY, "cuCtxDestroy")                   \
    X(GM_CALL_PRIMARY_RESET, "cuDevicePrimaryCtxReset")      \
    X(GM_CALL_PRIMARY_RELEASE, "cuDevicePrimaryCtxRelease")

enum gm_call {
#define X(e, n) e,
    GM_CALLS(X)
#undef X
        GM_CALL_COUNT
};

/* What a kind of memory is, for whoever has to tell kinds apart. */
enum gm_kind_trait {
    GM_TRAIT_DEVICE = 1u << 0,    /* its bytes lie on a device and count as the device's */
    GM_TRAIT_MANAGED = 1u << 1,   /* pages migrate: advice and prefetches make sense */
    GM_TRAIT_PLACED = 1u << 2,    /* gpumem put it in place of what the call would have given */
    GM_TRAIT_OWN_RANGE = 1u << 3, /* each block is one allocation of the driver and ends with its free */
    GM_TRAIT_POOLED = 1u << 4,    /* blocks are cut from larger ranges of the driver */
    GM_TRAIT_KEPT = 1u << 5,      /* freed blocks may stay with the process */
    GM_TRAIT_FOREIGN = 1u << 6,   /* a graph's or another process's: no leak of this program */
};

/* Which memory serves a block. X(enumerator, name in traces and options, colour in pictures, traits) */
// clang-format off
#define GM_KINDS(X)                                                                                                    \
    /* what the call itself would have given */                                                                        \
    X(GM_KIND_NATIVE, "native", "#0072B2", GM_TRAIT_DEVICE | GM_TRAIT_OWN_RANGE)                                       \
    /* our private stream-ordered pool */                                                                              \
    X(GM_KIND_ASYNC, "async", "#56B4E9", GM_TRAIT_DEVICE | GM_TRAIT_PLACED | GM_TRAIT_POOLED | GM_TRAIT_KEPT)          \
    /* cuMemAllocManaged */                                                                                            \
    X(GM_KIND_MANAGED, "managed", "#E69F00",                                                                           \
      GM_TRAIT_DEVICE | GM_TRAIT_PLACED | GM_TRAIT_MANAGED | GM_TRAIT_OWN_RANGE)                                       \
    /* our private managed pool */                                                                                     \
    X(GM_KIND_MANAGED_POOL, "managed-pool", "#F6C667",                                                                 \
      GM_TRAIT_DEVICE | GM_TRAIT_PLACED | GM_TRAIT_MANAGED | GM_TRAIT_POOLED | GM_TRAIT_KEPT)                          \
    /* pinned or registered host memory of the program */                                                              \
    X(GM_KIND_HOST, "host", "#999999", 0)                                                                              \
    X(GM_KIND_ARRAY, "array", "#8C6D31", GM_TRAIT_DEVICE)                                                              \
    /* virtual memory management, by the program's calls or ours */                                                    \
    X(GM_KIND_VMM, "vmm", "#CC79A7", GM_TRAIT_DEVICE | GM_TRAIT_PLACED)                                                \
    /* the program's own stream-ordered pools */                                                                       \
    X(GM_KIND_POOL, "pool", "#D55E00", GM_TRAIT_DEVICE)                                                                \
    X(GM_KIND_GRAPH, "graph", "#F0E442", GM_TRAIT_DEVICE | GM_TRAIT_FOREIGN)                                           \
    /* another process's memory, opened here */                                                                        \
    X(GM_KIND_IMPORTED, "imported", "#CCCCCC", GM_TRAIT_FOREIGN)                                                       \
    /* made-up addresses, no GPU */                                                                                    \
    X(GM_KIND_SIM, "sim", "#333333", GM_TRAIT_DEVICE | GM_TRAIT_PLACED)                                                \
    /* native memory, kept for reuse when freed */                                                                     \
    X(GM_KIND_CACHE, "cache", "#009E73", GM_TRAIT_DEVICE | GM_TRAIT_KEPT)                                              \
    /* host memory mapped to the device */                                                                             \
    X(GM_KIND_HOST_NUMA, "host-numa", "#000000", GM_TRAIT_PLACED | GM_TRAIT_KEPT)
// clang-format on

enum gm_kind {
#define X(e, name, colour, traits) e,
    GM_KINDS(X)
#undef X
        GM_KIND_COUNT
};

/* enum gm_kind_trait bits. */
static inline unsigned gm_kind_traits(enum gm_kind kind) {
    static const unsigned char rows[GM_KIND_COUNT] = {
#define X(e, name, colour, traits) [e] = traits,
        GM_KINDS(X)
#undef X
    };
    return rows[kind];
}

/* Why a block was served as it was. X(enumerator, name in traces) */
#define GM_REASONS(X)                                                                                          \
    X(GM_REASON_NONE, "none")                                                                                  \
    X(GM_REASON_POLICY, "policy")               /* the policy wanted this */                                   \
    X(GM_REASON_NEVER_MOVED, "never-moved")     /* the call is not the policy's to move */                     \
    X(GM_REASON_CAPTURE, "capture")             /* a stream captures: left as asked */                         \
    X(GM_REASON_LIST_FILLING, "list-filling")   /* active list: fewer than L entries */                        \
    X(GM_REASON_LIST_STEADY, "list-steady")     /* active list: max - min < X */                               \
    X(GM_REASON_LIST_GROWING, "list-growing")   /* active list: max - min >= X */                              \
    X(GM_REASON_LIST_MAP_FULL, "list-map-full") /* active list: too many different sizes to watch */           \
    X(GM_REASON_FALLBACK, "fallback")           /* the decided resource refused; native served */              \
    X(GM_REASON_PROMISE, "promise")             /* a hard promise excluded the decided resource */             \
    X(GM_REASON_CONTEXT_GONE, "context-gone")   /* released with its context */                                \
    X(GM_REASON_UNSUPPORTED, "unsupported")     /* the driver lacks what the resource needs */                 \
    X(GM_REASON_LIST_TURNOVER, "list-turnover") /* more blocks of the size were freed so far than are alive */ \
    X(GM_REASON_OUT_OF_MEMORY, "out-of-memory") /* the device or the process's limit had no room for it */     \
    X(GM_REASON_PLAN, "plan")                   /* the plan's entry with the number of this object */          \
    X(GM_REASON_PLAN_SITE, "plan-site")         /* the plan's entry for this call site, size and occurrence */ \
    X(GM_REASON_RULE, "rule")                   /* a rule of the policy static */                              \
    X(GM_REASON_GROWTH, "growth")               /* GPUMEM_GROW: the block may grow */

enum gm_reason {
#define X(e, n) e,
    GM_REASONS(X)
#undef X
        GM_REASON_COUNT
};

/* Promises a call makes to its caller. Hard ones are never dropped; soft ones may be dropped by a policy the user
 * named. */
enum gm_promise {
    GM_PROMISE_READY_ANYWHERE = 1u << 0, /* hard: usable on every stream when the call returns */
    GM_PROMISE_STREAM_ORDER = 1u << 1,   /* hard: usable in the order of the request's stream */
    GM_PROMISE_DEVICE_ACCESS = 1u << 2,  /* hard */
    GM_PROMISE_HOST_ACCESS = 1u << 3,    /* hard */
    GM_PROMISE_MANAGED = 1u << 4,        /* hard: managed stays managed */
    GM_PROMISE_CAPTURE = 1u << 5,        /* hard: becomes part of a captured graph */
    GM_PROMISE_IPC = 1u << 8,            /* soft: can be exported by cuIpcGetMemHandle */
    GM_PROMISE_PEER = 1u << 9,           /* soft: becomes mapped at peers by cuCtxEnablePeerAccess */
    GM_PROMISE_RDMA = 1u << 10,          /* soft: can be registered with a NIC, exported as dma-buf */
};
#define GM_PROMISES_HARD 0x00ffu
#define GM_PROMISES_SOFT 0xff00u

/* What the caller may advise about managed memory (cuMemAdvise, cuMemPrefetchAsync; hybrid-allocation-he, III.A). */
enum gm_advice {
    GM_ADVICE_READ_MOSTLY = 1u << 0,
    GM_ADVICE_PREFER_DEVICE = 1u << 1, /* preferred location: the request's device */
    GM_ADVICE_PREFER_HOST = 1u << 2,
    GM_ADVICE_ACCESSED_BY = 1u << 3, /* by the request's device */
    GM_ADVICE_PREFETCH = 1u << 4,    /* to the request's device */
};

struct gm_site_keys; /* policy/site_key.h */

/* One allocation as the program asked for it. */
struct gm_request {
    enum gm_call call;
    uint32_t promises;       /* enum gm_promise bits */
    size_t size;             /* bytes asked; for pitched memory bytes the rows need */
    size_t width, height;    /* pitched memory: bytes a row, rows; else 0 */
    unsigned element_size;   /* pitched memory: 4, 8 or 16; else 0 */
    int device;              /* ordinal of the current device, -1 unknown */
    bool capturing;          /* the request's stream, or for context-wide calls any stream, is capturing */
    bool per_thread;         /* the per-thread-default-stream twin was called */
    uint32_t site;           /* call site id, 0 = unknown */
    uint64_t stream;         /* handle, 0 = default stream */
    uint64_t context;        /* handle of the current context */
    uint64_t context_id;     /* unique for the life of the process, never reused */
    uint16_t context_number; /* small number of the context, for traces */
    bool beyond_limit;       /* GPUMEM_LIMIT leaves no room for it on the device */
    enum gm_kind wanted;     /* the decision, for the resource that dispatches; GM_KIND_NATIVE = as asked */
    /* Filled only for policies that want them (enum gm_want): */
    uint32_t thread; /* number of the thread among those that asked for movable memory, from 1 in order of their first
                        request */
    uint64_t object; /* place among the process's movable requests made in a context, from 1, failed ones included */
    const struct gm_site_keys *where; /* the call site in terms that hold in other runs; NULL = unknown */
};

/* 0 in every field before decide(). */
struct gm_decision {
    enum gm_kind kind; /* GM_KIND_NATIVE = as asked */
    enum gm_reason reason;
    enum gm_kind verdict; /* what the heuristic would have chosen, even if `kind` leaves it as asked */
    uint32_t advice;      /* enum gm_advice bits, given to managed memory only */
};

/* Parts of a request that cost something to fill. */
enum gm_want {
    GM_WANT_OBJECT = 1u << 0, /* object and thread */
    GM_WANT_SITE = 1u << 1,   /* where */
};

/* Outcome of parsing a policy's argument: `error` is one line naming the value and what is accepted; beside GM_OK a
 * text in it is a warning, to be said once. */
struct gm_policy_setup {
    const char *argument;           /* text behind the colon of GPUMEM_POLICY=name:argument, NULL when absent */
    unsigned list_length;           /* GPUMEM_LIST_LENGTH, L */
    unsigned list_range;            /* GPUMEM_LIST_RANGE, X */
    enum gm_kind managed;           /* GM_KIND_MANAGED or GM_KIND_MANAGED_POOL: what "managed" means */
    void *(*reserve)(size_t bytes); /* zeroed memory for the policy's tables, never freed; NULL on failure */
    /* The whole file as bytes, to be given back to unload; NULL on failure with *why = a few words. May be NULL: no
     * files here. */
    const char *(*load)(const char *path, size_t *bytes, const char **why);
    void (*unload)(const char *text, size_t bytes);
    uint32_t wants; /* result: enum gm_want bits */
    char error[320];
};

/* A placement policy. Functions may be called by many threads at once and never block for long: a policy that keeps
 * state guards it by its own short spinlock. decide() sees only requests whose row in the call table is movable. */
struct gm_policy {
    const char *name;
    const char *summary; /* one line for help and manual */
    bool takes_argument;
    gm_status (*setup)(struct gm_policy_setup *setup);
    void (*decide)(const struct gm_request *request, struct gm_decision *decision);
    /* The request failed after decide(): undo what decide() recorded. May be NULL. */
    void (*failed)(const struct gm_request *request);
    /* A block that decide() saw was freed. `request` carries call, size, device of the allocation. May be NULL. */
    void (*freed)(const struct gm_request *request);
    /* In the child of a fork: locks may be held by threads that stayed behind. May be NULL. */
    void (*after_fork)(void);
    /* At the end of the process: one line about what the policy did, for the log. False: nothing to say. May be NULL.
     */
    bool (*ended)(char *line, size_t size);
};

extern const struct gm_policy *const gm_policies[]; /* NULL-terminated rows, the default first */

/* The row whose name matches `text` up to a colon or its end; NULL when none does. */
const struct gm_policy *gm_policy_find(const char *text);

/* Which calls a policy may move at all. The rest is the program's intent (managed, pinned, pools),
 * has a shape of its own (arrays, virtual memory), or belongs to somebody else (graphs, imports). */
static inline bool gm_call_is_movable(const struct gm_request *request) {
    return request->call == GM_CALL_ALLOC || request->call == GM_CALL_ALLOC_PITCH ||
           request->call == GM_CALL_ALLOC_ASYNC;
}

const char *gm_call_name(enum gm_call call);
const char *gm_kind_name(enum gm_kind kind);
/* "#RRGGBB" */
const char *gm_kind_colour(enum gm_kind kind);
const char *gm_reason_name(enum gm_reason reason);

#endif
