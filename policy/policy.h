/* The vocabulary of gpumem's placement: a request of the program (gm_request), the promises of its call
 * (gm_promise), and the decision of a policy (gm_decision). Everything in policy/ includes this header and nothing
 * else of gpumem. It is plain C without CUDA and without I/O. Sizes are in bytes, times in nanoseconds.
 *
 * Glossary of the project's words:
 *
 * - block: one allocation that the program holds, with its address, size, kind, device and owner.
 * - kind: which memory serves a block (GM_KINDS). Native memory is what the program's own call would have given.
 * - policy: decides the kind of each movable request. Router: passes a request to the resource that serves the kind.
 * - resource: serves memory. A maker gets it from the driver. An adaptor wraps another resource. The owner of a
 *   block is the resource that has to free it. Ops are a resource's table of functions.
 * - placed block: a block whose memory gpumem chose in place of what the call would have given. A request that may
 *   be placed is movable.
 * - free block: a block that the program freed and gpumem still holds for reuse. Free list: the free blocks of one
 *   size class and device. Releasing memory returns it to the driver. Trimming releases free blocks.
 * - fence: events that say when all work that may use a free block is done.
 * - pending release: memory that gpumem will release as soon as that costs no wait.
 * - deferred free: a free that gpumem postpones, for instance while a stream captures.
 * - internal stream: a stream that gpumem creates for its own work; the program never sees it.
 * - byte counters: how many bytes are live, free or pending, by kind and by device.
 * - limit: the device memory that GPUMEM_LIMIT allows the process. Cache limits: how many bytes the free lists may
 *   hold. Managed quota: how much managed memory gpumem may hand out.
 * - hook: a function of gpumem that stands for a function of the driver. Entry point: an address of a hook that a
 *   program can reach (exported symbol, dlsym, cuGetProcAddress, audit). Trampoline: an entry of a function that is
 *   not hooked; it notes the call and jumps on. Twin: the variant of a driver function for per-thread default
 *   streams.
 * - stream observer: a small entry that notes when a per-thread default stream is used.
 * - call site: the chain of return addresses above an allocation.
 * - address range: reserved virtual addresses. Page handover: a growing block takes over the pages of the smaller
 *   block that the program would have copied.
 * - memory location: where the pages of managed memory lie or shall lie.
 * - created, destroyed, leaked: the life of a block, stream or context. Leaked: never freed before the process
 *   ended.
 * - to quiesce: to wait until no work is in flight that may use a block.
 * - signal-safe I/O: output that uses neither malloc nor stdio and is safe at any moment of the host program.
 *
 * Traces store the numbers of calls, kinds and reasons, so a new row goes to the end of its table. */
#ifndef GM_POLICY_H
#define GM_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Status codes have the values of CUresult, so a status of the driver reaches the caller unchanged. */
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

/* The numbers that name what a call makes or ends. Numbers of two spaces may be equal, so a key has a tag. */
enum gm_space { GM_SPACE_ADDRESS, GM_SPACE_RESERVATION, GM_SPACE_HANDLE, GM_SPACE_OBJECT };
enum { GM_KEY_TAG = 62 }; /* its lower bit; no address uses it */

static inline uint64_t gm_key(enum gm_space space, uint64_t value) { return value ^ (uint64_t)space << GM_KEY_TAG; }
static inline uint64_t gm_key_value(uint64_t key) { return key & (((uint64_t)1 << GM_KEY_TAG) - 1); }

/* Properties of a call. Code that treats calls differently asks for a trait, not for a call. */
enum gm_call_trait {
    GM_CALL_MOVABLE = 1u << 0,  /* a policy may choose the memory. All other calls state the program's intent (managed,
                                   pinned, pools), have a form of their own (arrays, virtual memory), or belong to
                                   something else (graphs, imports) */
    GM_CALL_RESERVES = 1u << 1, /* makes what has no memory of its own: addresses, a pool */
    GM_CALL_HOLDS = 1u << 2,    /* makes a handle of memory that cuMemMap makes usable */
    GM_CALL_MAPS = 1u << 3,     /* makes the memory of a handle usable */
};

/* The call that the program made, independent of the entry point. X(enumerator, name in traces: the driver's name
 * without version suffix, space of what it makes or ends, traits) */
#define GM_CALLS(X)                                                                       \
    X(GM_CALL_NONE, "none", GM_SPACE_ADDRESS, 0)                                          \
    X(GM_CALL_ALLOC, "cuMemAlloc", GM_SPACE_ADDRESS, GM_CALL_MOVABLE)                     \
    X(GM_CALL_ALLOC_PITCH, "cuMemAllocPitch", GM_SPACE_ADDRESS, GM_CALL_MOVABLE)          \
    X(GM_CALL_ALLOC_ASYNC, "cuMemAllocAsync", GM_SPACE_ADDRESS, GM_CALL_MOVABLE)          \
    X(GM_CALL_ALLOC_FROM_POOL, "cuMemAllocFromPoolAsync", GM_SPACE_ADDRESS, 0)            \
    X(GM_CALL_ALLOC_MANAGED, "cuMemAllocManaged", GM_SPACE_ADDRESS, 0)                    \
    X(GM_CALL_ALLOC_HOST, "cuMemAllocHost", GM_SPACE_ADDRESS, 0)                          \
    X(GM_CALL_HOST_ALLOC, "cuMemHostAlloc", GM_SPACE_ADDRESS, 0)                          \
    X(GM_CALL_HOST_REGISTER, "cuMemHostRegister", GM_SPACE_ADDRESS, 0)                    \
    X(GM_CALL_ARRAY, "cuArrayCreate", GM_SPACE_OBJECT, 0)                                 \
    X(GM_CALL_ARRAY3D, "cuArray3DCreate", GM_SPACE_OBJECT, 0)                             \
    X(GM_CALL_MIPMAP, "cuMipmappedArrayCreate", GM_SPACE_OBJECT, 0)                       \
    X(GM_CALL_VMM_RESERVE, "cuMemAddressReserve", GM_SPACE_RESERVATION, GM_CALL_RESERVES) \
    X(GM_CALL_VMM_CREATE, "cuMemCreate", GM_SPACE_HANDLE, GM_CALL_HOLDS)                  \
    X(GM_CALL_VMM_MAP, "cuMemMap", GM_SPACE_ADDRESS, GM_CALL_MAPS)                        \
    X(GM_CALL_VMM_IMPORT, "cuMemImportFromShareableHandle", GM_SPACE_HANDLE, 0)           \
    X(GM_CALL_IPC_OPEN, "cuIpcOpenMemHandle", GM_SPACE_ADDRESS, 0)                        \
    X(GM_CALL_POOL_IMPORT_POINTER, "cuMemPoolImportPointer", GM_SPACE_ADDRESS, 0)         \
    X(GM_CALL_GRAPH_ALLOC, "cuGraphAddMemAllocNode", GM_SPACE_ADDRESS, 0)                 \
    X(GM_CALL_POOL_CREATE, "cuMemPoolCreate", GM_SPACE_OBJECT, GM_CALL_RESERVES)          \
    X(GM_CALL_FREE, "cuMemFree", GM_SPACE_ADDRESS, 0)                                     \
    X(GM_CALL_FREE_ASYNC, "cuMemFreeAsync", GM_SPACE_ADDRESS, 0)                          \
    X(GM_CALL_FREE_HOST, "cuMemFreeHost", GM_SPACE_ADDRESS, 0)                            \
    X(GM_CALL_HOST_UNREGISTER, "cuMemHostUnregister", GM_SPACE_ADDRESS, 0)                \
    X(GM_CALL_ARRAY_DESTROY, "cuArrayDestroy", GM_SPACE_OBJECT, 0)                        \
    X(GM_CALL_MIPMAP_DESTROY, "cuMipmappedArrayDestroy", GM_SPACE_OBJECT, 0)              \
    X(GM_CALL_VMM_ADDRESS_FREE, "cuMemAddressFree", GM_SPACE_RESERVATION, 0)              \
    X(GM_CALL_VMM_RELEASE, "cuMemRelease", GM_SPACE_HANDLE, 0)                            \
    X(GM_CALL_VMM_UNMAP, "cuMemUnmap", GM_SPACE_ADDRESS, 0)                               \
    X(GM_CALL_IPC_CLOSE, "cuIpcCloseMemHandle", GM_SPACE_ADDRESS, 0)                      \
    X(GM_CALL_GRAPH_FREE, "cuGraphAddMemFreeNode", GM_SPACE_ADDRESS, 0)                   \
    X(GM_CALL_POOL_DESTROY, "cuMemPoolDestroy", GM_SPACE_OBJECT, 0)                       \
    X(GM_CALL_IPC_GET, "cuIpcGetMemHandle", GM_SPACE_ADDRESS, 0)                          \
    X(GM_CALL_EXPORT_RANGE, "cuMemGetHandleForAddressRange", GM_SPACE_ADDRESS, 0)         \
    X(GM_CALL_VMM_EXPORT, "cuMemExportToShareableHandle", GM_SPACE_HANDLE, 0)             \
    X(GM_CALL_CTX_DESTROY, "cuCtxDestroy", GM_SPACE_ADDRESS, 0)                           \
    X(GM_CALL_PRIMARY_RESET, "cuDevicePrimaryCtxReset", GM_SPACE_ADDRESS, 0)              \
    X(GM_CALL_PRIMARY_RELEASE, "cuDevicePrimaryCtxRelease", GM_SPACE_ADDRESS, 0)

enum gm_call {
#define X(e, name, space, traits) e,
    GM_CALLS(X)
#undef X
        GM_CALL_COUNT
};

static inline enum gm_space gm_call_space(enum gm_call call) {
    static const unsigned char rows[GM_CALL_COUNT] = {
#define X(e, name, space, traits) [e] = space,
        GM_CALLS(X)
#undef X
    };
    return (enum gm_space)rows[call];
}

/* Bits of enum gm_call_trait. */
static inline unsigned gm_call_traits(enum gm_call call) {
    static const unsigned char rows[GM_CALL_COUNT] = {
#define X(e, name, space, traits) [e] = traits,
        GM_CALLS(X)
#undef X
    };
    return rows[call];
}

/* Properties of a kind of memory. Code that treats kinds differently asks for a trait, not for a kind. */
enum gm_kind_trait {
    GM_TRAIT_DEVICE = 1u << 0,    /* its bytes count as device memory */
    GM_TRAIT_MANAGED = 1u << 1,   /* pages migrate: advice and prefetches apply */
    GM_TRAIT_PLACED = 1u << 2,    /* gpumem chose it in place of what the call would have given */
    GM_TRAIT_OWN_RANGE = 1u << 3, /* each block is one allocation of the driver; the free of the block ends it */
    GM_TRAIT_POOLED = 1u << 4,    /* blocks are cut from larger ranges of the driver */
    GM_TRAIT_KEPT = 1u << 5,      /* freed blocks may stay in the process as free blocks */
    GM_TRAIT_FOREIGN = 1u << 6,   /* belongs to a graph or to another process: not a leak of this program */
    GM_TRAIT_MAPPED = 1u << 7,    /* gpumem mapped it: a block is smaller than its mapping, or has several */
};

/* Kinds of memory that serve blocks. X(enumerator, name in traces and options, colour in pictures, traits) */
// clang-format off
#define GM_KINDS(X)                                                                                                    \
    /* what the program's call itself gives */                                                                         \
    X(GM_KIND_NATIVE, "native", "#0072B2", GM_TRAIT_DEVICE | GM_TRAIT_OWN_RANGE)                                       \
    /* gpumem's private stream-ordered pool */                                                                         \
    X(GM_KIND_ASYNC, "async", "#56B4E9", GM_TRAIT_DEVICE | GM_TRAIT_PLACED | GM_TRAIT_POOLED | GM_TRAIT_KEPT)          \
    /* cuMemAllocManaged */                                                                                            \
    X(GM_KIND_MANAGED, "managed", "#E69F00",                                                                           \
      GM_TRAIT_DEVICE | GM_TRAIT_PLACED | GM_TRAIT_MANAGED | GM_TRAIT_OWN_RANGE)                                       \
    /* gpumem's private managed pool */                                                                                \
    X(GM_KIND_MANAGED_POOL, "managed-pool", "#F6C667",                                                                 \
      GM_TRAIT_DEVICE | GM_TRAIT_PLACED | GM_TRAIT_MANAGED | GM_TRAIT_POOLED | GM_TRAIT_KEPT)                          \
    /* pinned or registered host memory of the program */                                                              \
    X(GM_KIND_HOST, "host", "#999999", 0)                                                                              \
    X(GM_KIND_ARRAY, "array", "#8C6D31", GM_TRAIT_DEVICE)                                                              \
    /* virtual memory management: gpumem's blocks, and handles and reservations of the program */                      \
    X(GM_KIND_VMM, "vmm", "#CC79A7", GM_TRAIT_DEVICE | GM_TRAIT_PLACED | GM_TRAIT_MAPPED)                              \
    /* the program's own stream-ordered pools */                                                                       \
    X(GM_KIND_POOL, "pool", "#D55E00", GM_TRAIT_DEVICE)                                                                \
    X(GM_KIND_GRAPH, "graph", "#F0E442", GM_TRAIT_DEVICE | GM_TRAIT_FOREIGN)                                           \
    /* another process's memory, opened here */                                                                        \
    X(GM_KIND_IMPORTED, "imported", "#CCCCCC", GM_TRAIT_FOREIGN)                                                       \
    /* invented addresses, no GPU */                                                                                   \
    X(GM_KIND_SIM, "sim", "#333333", GM_TRAIT_DEVICE | GM_TRAIT_PLACED)                                                \
    /* native memory; freed blocks go to free lists */                                                                 \
    X(GM_KIND_CACHE, "cache", "#009E73", GM_TRAIT_DEVICE | GM_TRAIT_KEPT)                                              \
    /* host memory mapped to the device */                                                                             \
    X(GM_KIND_HOST_NUMA, "host-numa", "#000000", GM_TRAIT_PLACED | GM_TRAIT_KEPT)                                      \
    /* device memory that the program mapped itself (cuMemMap) */                                                      \
    X(GM_KIND_MAPPED, "mapped", "#882255", GM_TRAIT_DEVICE | GM_TRAIT_OWN_RANGE | GM_TRAIT_KEPT)                       \
    /* a mapping of its own between addresses that are never mapped */                                                 \
    X(GM_KIND_GUARD, "guard", "#AA3377", GM_TRAIT_DEVICE | GM_TRAIT_PLACED | GM_TRAIT_MAPPED)                           \
    /* pages that can leave the device and come back (GPUMEM_SUSPEND) */                                               \
    X(GM_KIND_SUSPENDABLE, "suspendable", "#0F7B6C", GM_TRAIT_DEVICE | GM_TRAIT_PLACED | GM_TRAIT_MAPPED)              \
    /* a first part on the device, the rest in host memory; the parts count apart: the rest as kind host-numa */       \
    X(GM_KIND_SPLIT, "split", "#6A3D9A", GM_TRAIT_DEVICE | GM_TRAIT_PLACED | GM_TRAIT_MAPPED)
// clang-format on

enum gm_kind {
#define X(e, name, colour, traits) e,
    GM_KINDS(X)
#undef X
        GM_KIND_COUNT
};

/* Bits of enum gm_kind_trait. */
static inline unsigned gm_kind_traits(enum gm_kind kind) {
    static const unsigned char rows[GM_KIND_COUNT] = {
#define X(e, name, colour, traits) [e] = traits,
        GM_KINDS(X)
#undef X
    };
    return rows[kind];
}

/* Why a block was served by its kind. X(enumerator, name in traces) */
#define GM_REASONS(X)                                                                            \
    X(GM_REASON_NONE, "none")                                                                    \
    X(GM_REASON_POLICY, "policy")               /* the policy's general choice */                \
    X(GM_REASON_NEVER_MOVED, "never-moved")     /* no policy may move this call */               \
    X(GM_REASON_CAPTURE, "capture")             /* a stream captures: served natively */         \
    X(GM_REASON_LIST_FILLING, "list-filling")   /* active list: fewer than L entries */          \
    X(GM_REASON_LIST_STEADY, "list-steady")     /* active list: max - min < X */                 \
    X(GM_REASON_LIST_GROWING, "list-growing")   /* active list: max - min >= X */                \
    X(GM_REASON_LIST_MAP_FULL, "list-map-full") /* active list: its table of sizes is full */    \
    X(GM_REASON_FALLBACK, "fallback")           /* the chosen resource failed; native served */  \
    X(GM_REASON_PROMISE, "promise")             /* a hard promise excluded the chosen kind */    \
    X(GM_REASON_CONTEXT_GONE, "context-gone")   /* the context was destroyed with the block */   \
    X(GM_REASON_UNSUPPORTED, "unsupported")     /* the driver lacks what the resource needs */   \
    X(GM_REASON_LIST_TURNOVER, "list-turnover") /* of earlier traces: more freed than live */    \
    X(GM_REASON_OUT_OF_MEMORY, "out-of-memory") /* no room on the device or in GPUMEM_LIMIT */   \
    X(GM_REASON_PLAN, "plan")                   /* the plan's entry with this object's number */ \
    X(GM_REASON_PLAN_SITE, "plan-site")         /* the plan's entry by site, size, occurrence */ \
    X(GM_REASON_RULE, "rule")                   /* a rule of policy static */                    \
    X(GM_REASON_GROWTH, "growth")               /* GPUMEM_GROW: the block may grow */            \
    /* why free blocks were released to the driver */                                            \
    X(GM_REASON_CACHE_LIMIT, "cache-limit") /* above a limit of the cache */                     \
    X(GM_REASON_IDLE, "idle")               /* unused for GPUMEM_CACHE_IDLE */                   \
    X(GM_REASON_TRIM_CALL, "trim-call")     /* gpumem_trim, or a query of free memory */         \
    /* why unused memory could not be released */                                                \
    X(GM_REASON_FENCE, "fence")             /* earlier work may still use it */                  \
    X(GM_REASON_PARTLY_USED, "partly-used") /* other blocks lie in its pages */                  \
    X(GM_REASON_THRESHOLD, "threshold")     /* a pool of the program keeps it */                 \
    /* why kept mapped memory was released to the driver */                                      \
    X(GM_REASON_REMAPPED, "remapped") /* the program uses its addresses otherwise */             \
    /* why a block was not decided about */                                                      \
    X(GM_REASON_FREE_BLOCK, "free-block") /* a free block of its size class served */            \
    X(GM_REASON_GUARD, "guard")           /* GPUMEM_GUARD takes the request */

enum gm_reason {
#define X(e, n) e,
    GM_REASONS(X)
#undef X
        GM_REASON_COUNT
};

/* What a call promises its caller. Hard promises are never dropped. Soft promises may be dropped by a policy that
 * the user named, or in place of an out-of-memory error. */
enum gm_promise {
    GM_PROMISE_READY_ANYWHERE = 1u << 0, /* hard: usable on every stream when the call returns */
    GM_PROMISE_STREAM_ORDER = 1u << 1,   /* hard: usable in the order of the request's stream */
    GM_PROMISE_DEVICE_ACCESS = 1u << 2,  /* hard */
    GM_PROMISE_HOST_ACCESS = 1u << 3,    /* hard */
    GM_PROMISE_MANAGED = 1u << 4,        /* hard: managed stays managed */
    GM_PROMISE_CAPTURE = 1u << 5,        /* hard: the allocation becomes part of a captured graph */
    GM_PROMISE_IPC = 1u << 8,            /* soft: can be exported by cuIpcGetMemHandle */
    GM_PROMISE_PEER = 1u << 9,           /* soft: becomes mapped at peers by cuCtxEnablePeerAccess */
    GM_PROMISE_RDMA = 1u << 10,          /* soft: can be registered with a NIC, exported as dma-buf */
};
#define GM_PROMISES_HARD 0x00ffu
#define GM_PROMISES_SOFT 0xff00u

/* Advice about managed memory that a policy may give (cuMemAdvise, cuMemPrefetchAsync; hybrid-allocation-he, III.A). */
enum gm_advice {
    GM_ADVICE_READ_MOSTLY = 1u << 0,
    GM_ADVICE_PREFER_DEVICE = 1u << 1, /* preferred location: the request's device */
    GM_ADVICE_PREFER_HOST = 1u << 2,
    GM_ADVICE_ACCESSED_BY = 1u << 3, /* by the request's device */
    GM_ADVICE_PREFETCH = 1u << 4,    /* to the request's device */
};

struct gm_site_keys; /* policy/site_key.h */

/* One allocation as the program requested it. */
struct gm_request {
    enum gm_call call;
    uint32_t promises;       /* bits of enum gm_promise */
    size_t size;             /* requested bytes; for pitched memory the bytes that the rows need */
    size_t width, height;    /* pitched memory: bytes of a row, number of rows; else 0 */
    unsigned element_size;   /* pitched memory: 4, 8 or 16; else 0 */
    int device;              /* ordinal of the current device, -1 unknown */
    bool capturing;          /* the request's stream captures; for calls without a stream: any stream */
    bool per_thread;         /* the per-thread-default-stream twin was called */
    bool recorded;           /* in a trace, with the verdict of the decision */
    uint8_t alignment;       /* log2 of the least alignment; 0 = that of the resource */
    uint32_t site;           /* call site id, 0 = unknown */
    uint64_t stream;         /* handle, 0 = default stream */
    uint64_t context;        /* handle of the current context */
    uint64_t context_id;     /* unique for the life of the process, never reused */
    uint16_t context_number; /* small number of the context, for traces */
    /* Filled only for policies that want them (enum gm_want): */
    uint32_t thread; /* threads that made movable requests are numbered from 1 in the order of their first request */
    uint64_t object; /* number of this request among the process's movable requests made in a context, from 1; failed
                        requests count */
    const struct gm_site_keys *where; /* the call site in a form that holds in other runs; NULL = unknown */
};

/* What was decided about a request: a policy's answer, which the router follows. All fields are 0 before decide(). No
 * policy gives GM_REASON_OUT_OF_MEMORY: the router learns from it that GPUMEM_LIMIT leaves no room on the device. */
struct gm_decision {
    enum gm_kind kind; /* GM_KIND_NATIVE = as requested */
    enum gm_reason reason;
    enum gm_kind verdict; /* what the heuristic chose, also where `kind` is native for another reason */
    uint32_t advice;      /* bits of enum gm_advice; applied to managed memory only */
    bool counted;         /* the policy counts the block as live: it is told of the block's free, or of the failure */
};

/* Members of a request that cost time to fill. They are filled only for policies that want them. */
enum gm_want {
    GM_WANT_OBJECT = 1u << 0, /* object and thread */
    GM_WANT_SITE = 1u << 1,   /* where */
    GM_WANT_GUARD = 1u << 2,  /* nothing: it may choose GM_KIND_GUARD, and errors there are to be explained */
};

/* Input and result of a policy's setup. `error` is one line that names the value and what is accepted. With GM_OK a
 * text in `error` is a warning; it is logged once. */
struct gm_policy_setup {
    const char *argument;           /* text after the colon of GPUMEM_POLICY=name:argument; NULL when absent */
    unsigned list_length;           /* GPUMEM_LIST_LENGTH, L */
    unsigned list_range;            /* GPUMEM_LIST_RANGE, X */
    enum gm_kind managed;           /* GM_KIND_MANAGED or GM_KIND_MANAGED_POOL: what "managed" means */
    void *(*reserve)(size_t bytes); /* zeroed memory for the policy's tables, never freed; NULL on failure */
    /* Returns the whole file; the policy passes it to unload() after use. On failure returns NULL and sets *why to a
     * few words. NULL where files cannot be read. */
    const char *(*load)(const char *path, size_t *bytes, const char **why);
    void (*unload)(const char *text, size_t bytes);
    uint32_t wants; /* result: bits of enum gm_want */
    char error[320];
};

/* A placement policy. Many threads may call its functions at once. A function never blocks for long: a policy with
 * state guards it by a short spinlock of its own. decide() sees only requests for which gm_call_is_movable() holds. */
struct gm_policy {
    const char *name;
    const char *summary; /* one line for help and manual */
    bool takes_argument;
    bool keeps_mapped; /* freed buffers that the program mapped itself are kept for reuse, too */
    /* A free block that can serve a plain request serves it, with this decision and without decide(); freed() is not
     * called for it either. NULL: the policy decides each request. */
    const struct gm_decision *reuse;
    gm_status (*setup)(struct gm_policy_setup *setup); /* NULL: there is nothing to do */
    void (*decide)(const struct gm_request *request, struct gm_decision *decision);
    /* A request failed for which decide() set `counted`: the policy undoes what decide() recorded. May be NULL. */
    void (*failed)(const struct gm_request *request);
    /* A block was freed for which decide() set `counted`. `request` carries the call, size and device of its
     * allocation. May be NULL. */
    void (*freed)(const struct gm_request *request);
    /* In the child of a fork: threads that no longer exist may hold locks. May be NULL. */
    void (*after_fork)(void);
    /* At the end of the process: writes one line about what the policy did, for the log. False: no line. May be
     * NULL. */
    bool (*ended)(char *line, size_t size);
};

extern const struct gm_policy *const gm_policies[]; /* NULL-terminated; the default policy is first */

/* The policy whose name is `text` up to a colon or the end; NULL when there is none. */
const struct gm_policy *gm_policy_find(const char *text);

/* Sets the policy up, which may be done again. GM_INVALID_VALUE or GM_OUT_OF_MEMORY, with a line in setup->error: also
 * for an argument that the policy does not take. */
gm_status gm_policy_open(const struct gm_policy *policy, struct gm_policy_setup *setup);

static inline bool gm_call_is_movable(const struct gm_request *request) {
    return gm_call_traits(request->call) & GM_CALL_MOVABLE;
}

/* The call made memory of this kind. False for what has no memory of its own, or holds memory that cuMemMap makes
 * usable: reservations, pools, handles of device memory, further mappings. */
static inline bool gm_call_allocates(enum gm_call call, enum gm_kind kind) {
    return (kind != GM_KIND_VMM && kind != GM_KIND_POOL) ||
           !(gm_call_traits(call) & (GM_CALL_RESERVES | GM_CALL_HOLDS | GM_CALL_MAPS));
}

/* The call made a handle of device memory. */
static inline bool gm_call_holds(enum gm_call call, enum gm_kind kind) {
    return kind == GM_KIND_VMM && gm_call_traits(call) & GM_CALL_HOLDS;
}

const char *gm_call_name(enum gm_call call);
const char *gm_kind_name(enum gm_kind kind);
/* "#RRGGBB" */
const char *gm_kind_colour(enum gm_kind kind);
const char *gm_reason_name(enum gm_reason reason);

#endif
