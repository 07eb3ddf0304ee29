/* Memory resources. A resource serves requests for memory. A maker allocates memory itself; an adaptor wraps another
 * resource, its upstream, and adds something. Each is one const struct gm_resource_ops. They are combined as text, e.g.
 * "fill(poison,limit(8GiB,native))"; such a combination is a stack.
 *
 * Thread rules: many threads may call alloc and free at once; no resource holds a lock across a driver call. The memory
 * of a resource has the properties that its ops state (as in cuda::memory_resource, cuda-memory-resource-proposal). */
#ifndef GM_RESOURCE_H
#define GM_RESOURCE_H

#include "policy/policy.h"

/* Properties of a resource's memory. The first have the values of enum gpumem_property (gpumem_resource.h).
 * X(enumerator, bit, name) */
#define GM_PROPERTIES(X)                                                                                \
    X(GM_PROP_HOST_ACCESSIBLE, 0, "host-accessible")                                                    \
    X(GM_PROP_DEVICE_ACCESSIBLE, 1, "device-accessible")                                                \
    X(GM_PROP_PEER, 2, "cross-device-accessible") /* cuCtxEnablePeerAccess covers it */                 \
    X(GM_PROP_OVERSUBSCRIBABLE, 3, "oversubscribable")                                                  \
    X(GM_PROP_RESIDENT, 4, "resident") /* does not migrate */                                           \
    X(GM_PROP_HOST_STORAGE, 5, "host-storage")                                                          \
    X(GM_PROP_DEVICE_STORAGE, 6, "device-storage")                                                      \
    X(GM_PROP_STREAM_ORDERED, 7, "stream-ordered") /* can serve a stream-ordered request */             \
    X(GM_PROP_IPC, 8, "IPC-exportable")            /* cuIpcGetMemHandle works */                        \
    X(GM_PROP_GROWABLE, 9, "growable")             /* the op grow works */                              \
    X(GM_PROP_READY_ANYWHERE, 10, "any-context")   /* usable on every stream at return */               \
    /* unknown to the public header */                                                                  \
    X(GM_PROP_CAPTURABLE, 16, "capturable")             /* can serve a request of a capturing stream */ \
    X(GM_PROP_RDMA, 17, "RDMA")                         /* nvidia-peermem / dma-buf */                  \
    X(GM_PROP_OUTLIVES_CONTEXT, 18, "outlives-context") /* a reset of the device does not free it, e.g. of a pool */

enum gm_property {
#define X(enumerator, bit, name) enumerator = 1u << (bit),
    GM_PROPERTIES(X)
#undef X
};
#define GM_PROPERTIES_PUBLIC 0xffffu

/* One block of memory that the program uses. alloc fills it, the registry stores it, free gets it back. */
struct gm_block {
    uint64_t address;
    size_t size;       /* bytes requested */
    size_t reserved;   /* bytes that the block takes, >= size where known, else size */
    union {            /* by what the block is (gm_block_is_handle, GM_KIND_MAPPED) */
        size_t pitch;  /* pitched memory: bytes between rows; else 0 */
        size_t mapped; /* handle of memory: bytes that are mapped */
    };
    struct gm_resource *owner; /* the resource that frees it; NULL = only observed, the program's own call frees it */
    uint64_t context;          /* handle of its context */
    uint64_t context_id;       /* generation */
    union {
        uint64_t stream;     /* stream-ordered memory: the stream of the allocation; else 0 */
        uint64_t on_device;  /* of GM_KIND_SPLIT: bytes of its first part */
        uint64_t handle;     /* mapped memory: its handle */
        uint64_t references; /* handle of memory: those of the program beyond the first */
    };
    union {
        uint64_t sequence; /* of a copy, trace: seq of its release, if its context was destroyed first */
        uint64_t freed;    /* of a free block of a cache: about when it was freed; ticks */
    };
    uint32_t site;
    uint16_t context_number;
    int16_t device;
    uint8_t call;          /* enum gm_call */
    uint8_t counted;       /* the policy saw the allocation, so it is also notified of the free */
    uint8_t pinned_native; /* exported, tagged, registered or asked for its id while live: it must be freed natively,
                              and its address is never reused */
    uint8_t kind;          /* enum gm_kind */
    union {
        struct {
            uint8_t hit : 1;     /* served from a free block */
            uint8_t charged : 1; /* counts against GPUMEM_LIMIT: `reserved` bytes */
        };
        uint8_t bits;
    };
    uint8_t reason;        /* enum gm_reason when the block was not served as wanted, else 0 */
    uint8_t state;         /* of a record: enum gm_block_state (record.h) */
    struct {               /* each set and read by one room alone */
        uint8_t bin;       /* the cache: its size class */
        uint8_t in_range;  /* the registry */
        uint8_t served;    /* the router: which of its servers has the block */
        uint8_t alignment; /* a maker with .alignment = GM_ALIGNMENT_ANY: log2 of the request's */
        uint8_t requested; /* gpumem_resource.h: log2 of the alignment that the program requested */
    };
    uint32_t recorded; /* whether the trace holds the block (shim/trace/recorded.h) */
};

/* The block is memory that the program can use. Reservations of addresses and pools are not. Device memory of the
 * program's own virtual memory management is one block for each mapping (GM_KIND_MAPPED); its handle holds it before
 * and after. A mapping of other memory, or a second one of the same memory, is only an address. */
static inline bool gm_block_is_memory(const struct gm_block *block) {
    return gm_call_allocates((enum gm_call)block->call, (enum gm_kind)block->kind);
}

/* A block of cudaMalloc whose free concerns its owner alone: the policy has no interest in it, and its memory may
 * become another block. */
static inline bool gm_block_is_plain(const struct gm_block *block) {
    typedef uint32_t __attribute__((may_alias)) word;
    _Static_assert(offsetof(struct gm_block, call) % sizeof(word) == 0 && offsetof(struct gm_block, kind) % 4 == 3,
                   "call, counted and pinned_native are the lower bytes of a word");
    return (__atomic_load_n((const word *)&block->call, __ATOMIC_RELAXED) & 0xffffff) == GM_CALL_ALLOC;
}

/* A handle of device memory: what is not mapped counts as reserved. */
static inline bool gm_block_is_handle(const struct gm_block *block) {
    return gm_call_holds((enum gm_call)block->call, (enum gm_kind)block->kind);
}

/* The two parts of a block of GM_KIND_SPLIT, as blocks of their own: on the device, and of kind host-numa. The second
 * one may be empty. */
static inline void gm_block_parts(const struct gm_block *block, struct gm_block *device, struct gm_block *host) {
    *device = *host = *block;
    device->reason = GM_REASON_NONE; /* it is where it should be */
    device->reserved = block->on_device;
    device->size = block->size < device->reserved ? block->size : device->reserved;
    device->on_device = host->on_device = 0;
    host->kind = GM_KIND_HOST_NUMA;
    host->address += device->reserved;
    host->size -= device->size;
    host->reserved -= device->reserved;
    host->charged = 0;
}

/* How the program frees a block. */
struct gm_free_request {
    enum gm_call
        call; /* GM_CALL_FREE: after all earlier work of the context; GM_CALL_FREE_ASYNC: in the order of `stream` */
    uint64_t stream;
    bool per_thread;
    bool settled;  /* all earlier work that may use the block is done, or runs before whatever uses the block next */
    bool ended;    /* by gpumem, because its context is about to end */
    bool idle;     /* nobody uses the block any more, so neither host nor device has to wait */
    bool *kept;    /* set when the memory is kept for reuse; may be NULL */
    uint32_t site; /* call site of the free; 0 = unknown */
};

struct gm_resource;
struct gm_block_record;  /* record.h */
struct gm_option;        /* shim/base/options.h */
struct gm_registry;      /* registry.h */
struct gm_pool_family;   /* pool.h */
struct gm_deferred_free; /* deferred_free.h */

struct gm_resource_ops {
    const char *name;
    const char *summary; /* one line */
    uint32_t properties; /* enum gm_property; an adaptor masks its upstream's: effective = upstream & properties */
    const char *breaks;  /* what a program loses compared with native memory; "" = nothing */
    bool adaptor;
    const char *arguments;          /* adaptor: argument shown in help, e.g. "BYTES"; maker: NULL */
    const struct gm_option *number; /* adaptor: its argument is a number, with which its state begins (uint64_t). The
                                       row has the type, the adaptor's name, the bounds of a count, and as `initial` an
                                       argument for the error text. NULL: another argument, or none */
    bool two;                       /* adaptor: wraps two resources */
    uint32_t needs;                 /* adaptor: properties that each wrapped resource must have */
    uint8_t alignment;  /* log2 of the least alignment of its memory; 0 = 8 (a maker), as the upstream (an adaptor) */
    enum gm_kind kind;  /* of its memory; an adaptor's memory has the kind of the wrapped resource */
    const char *serves; /* stack that serves requests for `kind`, as text; NULL: this resource serves no kind */
    enum gm_kind fallback; /* maker: the kind that serves when this one cannot */
    size_t granule;        /* maker: its blocks take multiples of so many bytes; 0: of any number */
    size_t page;           /* maker: blocks of so many bytes and more take whole multiples of it, whatever their size
                              is; 0: not known */
    size_t state_size;     /* bytes of zeroed state, see struct gm_resource */
    struct gm_pool_family *pool;       /* maker whose memory lies in pools: of the ops in pool.h */
    struct gm_deferred_free *deferred; /* maker whose frees may be deferred: of the ops in deferred_free.h */
    /* Prepares state. `argument` is the adaptor's first argument or NULL. Writes a one-line error on failure. May be
     * NULL. */
    gm_status (*open)(struct gm_resource *self, const char *argument, char *error, size_t error_size);
    /* Serves `request`, whose context is current. An adaptor hands `decision` on to the router, which
     * follows it. Makers do not read it, so it may be NULL in a stack without the router. Success fills `block`
     * (address, size, reserved, pitch, context..., owner = self). After a failure `block` is untouched and nothing is
     * allocated. Errors: GM_OUT_OF_MEMORY; GM_NOT_SUPPORTED, when it cannot serve such a request or the driver lacks a
     * function (native then serves); or the driver's own. */
    gm_status (*alloc)(struct gm_resource *self, const struct gm_request *request, const struct gm_decision *decision,
                       struct gm_block *block);
    /* Frees `block`. Its owner may be an adaptor around this resource. After a failure the program still owns the
     * block, unchanged. */
    gm_status (*free)(struct gm_resource *self, const struct gm_block *block, const struct gm_free_request *how);
    /* Of a resource that keeps freed blocks with their records (record.h); NULL: it does not. take() returns the record
     * of a free block that can serve the request, claimed for the caller and with the values of its last life; NULL:
     * there is none, and alloc() obtains a new one. put() keeps the block of a record that the caller has claimed, or
     * frees it; *how->kept says which, and the record is the caller's no more. After an error the program has the block
     * still, without a record. Callers that have no records call gm_resource_alloc and gm_resource_free. */
    struct gm_block_record *(*take)(struct gm_resource *self, const struct gm_request *request,
                                    const struct gm_decision *decision);
    gm_status (*put)(struct gm_resource *self, struct gm_block_record *record, const struct gm_free_request *how);
    /* Releases unused memory until `bytes` are released or none remains. Returns the bytes released. May be NULL. */
    size_t (*trim)(struct gm_resource *self, size_t bytes);
    /* The same of every context, from any thread, and only what is released without a wait for work. May be NULL. */
    size_t (*lend)(struct gm_resource *self, size_t bytes);
    /* Bytes of unused memory on a device, which the driver reports as used and the resource can serve or release.
     * A pool first releases what it can without waiting, so the caller queries the driver afterwards. May be NULL. */
    size_t (*releasable)(struct gm_resource *self, int device);
    /* Adds the bytes that it holds on a device and cannot give back now, by reason (enum gm_reason). May be NULL. */
    void (*held)(struct gm_resource *self, int device, uint64_t bytes[GM_REASON_COUNT]);
    /* True when a free block starts at `address`, or a pool contains it. To the program such memory is freed memory.
     * Slow; call it only for an address at which no block is live. May be NULL. */
    bool (*keeps)(struct gm_resource *self, uint64_t address);
    /* A context is about to be destroyed and can still be made current: releases its unused memory. May be NULL. */
    void (*context_ending)(struct gm_resource *self, uint64_t context_id);
    /* A context was destroyed or reset: forgets everything of it without calling the driver. May be NULL. */
    void (*context_destroyed)(struct gm_resource *self, uint64_t context_id);
    /* The context of a live block was destroyed: releases what the driver did not free with it. May be NULL. */
    void (*abandon)(struct gm_resource *self, const struct gm_block *block);
    /* A live block has the context block->context from now on, because the green context that it was allocated in ends.
     * May be NULL. */
    void (*moved)(const struct gm_block *block);
    /* Capture began (+1) or ended (-1) somewhere in the process. May be NULL. */
    void (*capture)(struct gm_resource *self, int change);
    /* `device` has a context from now on: gives it access to the memory of the other devices, which copies between them
     * need (reach.h). May be NULL. */
    void (*open_to)(struct gm_resource *self, int device);
    /* The same for one block of another device, live or free, where each block has its own mapping. May be NULL. */
    void (*open_block_to)(struct gm_resource *self, const struct gm_block *block, int device);
    /* In the child of a fork: forgets the unused memory, which belongs to the parent. May be NULL. */
    void (*after_fork)(struct gm_resource *self);
    /* Makes a live block `size` bytes long at its place (GM_PROP_GROWABLE). After a failure it is unchanged. */
    gm_status (*grow)(struct gm_resource *self, struct gm_block *block, size_t size);
    /* Writes to the log what the resource counted. May be NULL. */
    void (*report)(struct gm_resource *self);
    /* The stack is discarded: releases what the state refers to. May be NULL. */
    void (*close)(struct gm_resource *self);
};

/* A resource whose memory has the alignment of the request (gm_request.alignment). */
#define GM_ALIGNMENT_ANY 63

struct gm_resource {
    const struct gm_resource_ops *ops;
    struct gm_resource *upstream; /* adaptors */
    struct gm_resource *second;   /* the other upstream of an adaptor that wraps two */
    uint32_t properties;          /* effective */
    enum gm_kind kind;            /* effective */
    uint8_t alignment;            /* effective */
    size_t granule;               /* effective */
    void *state;                  /* ops->state_size zeroed bytes */
    struct gm_registry *blocks;   /* live ones, of an adaptor that remembers them */
};

/* Resource `index` of a stack, which may be NULL: each comes before those that it wraps. NULL: there are no more. */
struct gm_resource *gm_stack_at(struct gm_resource *top, unsigned index);
/* Serves a request by a block that the resource keeps, without the record, else by a new one. Errors: of alloc(). */
gm_status gm_resource_alloc(struct gm_resource *resource, const struct gm_request *request,
                            const struct gm_decision *decision, struct gm_block *block);
/* Frees a block that has no record. Errors: of free(). */
gm_status gm_resource_free(struct gm_resource *resource, const struct gm_block *block,
                           const struct gm_free_request *how);
/* Calls the op of each resource of the stack that has it. */
#define GM_TELL(top, op, ...)                                               \
    do {                                                                    \
        struct gm_resource *told_;                                          \
        for (unsigned i_ = 0; (told_ = gm_stack_at(top, i_)) != NULL; i_++) \
            if (told_->ops->op)                                             \
                told_->ops->op(told_, ##__VA_ARGS__);                       \
    } while (0)
/* The ops trim, lend, releasable and keeps for the whole stack. */
size_t gm_stack_trim(struct gm_resource *top, size_t bytes);
size_t gm_stack_lend(struct gm_resource *top, size_t bytes);
size_t gm_stack_releasable(struct gm_resource *top, int device);
bool gm_stack_keeps(struct gm_resource *top, uint64_t address);

extern const struct gm_resource_ops *const gm_resource_rows[]; /* NULL-terminated */

/* Builds a stack from text. Grammar: resource = maker | adaptor "(" [argument ","] resource ")" | adaptor of two "("
 * resource "," resource ")". The stack lies in pages of the kernel and stays until gm_stack_discard or the end of the
 * process. On failure it returns NULL and a one-line error that names the wrong word and what is accepted. */
struct gm_resource *gm_resource_build(const char *text, char *error, size_t error_size);

/* Name of the lowest property in `properties`; NULL: there is none. */
const char *gm_property_name(uint64_t properties);

/* Promises (enum gm_promise bits) that memory with these properties does not keep. */
uint32_t gm_resource_unkept(uint32_t properties);
/* True when `properties` keep every hard promise of the request. */
bool gm_resource_keeps(uint32_t properties, const struct gm_request *request);
/* Soft promises of the request that `properties` drop (enum gm_promise bits). */
uint32_t gm_resource_drops(uint32_t properties, const struct gm_request *request);

#endif
