/* Memory resources: what serves a request. A maker obtains memory, an adaptor wraps another resource; both are one
 * const row of functions and compose as text, e.g. "fill(poison,limit(8GiB,native))".
 *
 * Thread rules: alloc and free may be called by many threads at once; no resource holds a lock across a driver call.
 * Memory comes with the properties its row states; see cuda::memory_resource, properties
 * (cuda-memory-resource-proposal). */
#ifndef GM_RESOURCE_H
#define GM_RESOURCE_H

#include "policy/policy.h"

/* What a resource's memory is. */
enum gm_property {
    GM_PROP_DEVICE_ACCESSIBLE = 1u << 0,
    GM_PROP_HOST_ACCESSIBLE = 1u << 1,
    GM_PROP_RESIDENT = 1u << 2,       /* stays where it is; does not migrate */
    GM_PROP_READY_ANYWHERE = 1u << 3, /* usable on every stream at return */
    GM_PROP_STREAM_ORDERED = 1u << 4, /* can serve a stream-ordered request */
    GM_PROP_CAPTURABLE = 1u << 5,     /* can serve a request of a capturing stream */
    GM_PROP_IPC = 1u << 6,            /* cuIpcGetMemHandle works */
    GM_PROP_PEER = 1u << 7,           /* cuCtxEnablePeerAccess covers it */
    GM_PROP_RDMA = 1u << 8,           /* nvidia-peermem / dma-buf */
    GM_PROP_OVERSUBSCRIBABLE = 1u << 9,
    GM_PROP_OUTLIVES_CONTEXT = 1u << 10, /* a reset of the device does not free it: pools belong to the device */
};

/* One piece of memory in the hands of the program. Filled by alloc, carried by the registry, handed back to free. */
struct gm_block {
    uint64_t address;
    size_t size;               /* bytes asked */
    size_t reserved;           /* bytes the owner counts for it, >= size where known, else size */
    size_t pitch;              /* pitched memory: bytes between rows, else 0 */
    struct gm_resource *owner; /* who frees it; NULL = only seen, freed by the program's own call */
    uint64_t context;          /* handle of the context it belongs to */
    uint64_t context_id;       /* generation */
    uint16_t context_number;
    uint64_t stream;   /* stream-ordered: stream of the allocation */
    uint64_t sequence; /* trace: seq of its release, when it went with its context */
    uint32_t site;
    int16_t device;
    uint8_t call;          /* enum gm_call */
    uint8_t kind;          /* enum gm_kind */
    uint8_t counted;       /* the policy saw it: tell it of the free */
    uint8_t hit;           /* served from memory that was kept */
    uint8_t pinned_native; /* exported, tagged or registered while alive: to be freed natively, its address never given
                              out again */
    uint8_t reason;        /* enum gm_reason when the block was not served as wanted, else 0 */
    uint8_t charged;       /* counts against GPUMEM_LIMIT: `reserved` bytes */
};

/* How the program gives a block back. */
struct gm_free_request {
    enum gm_call
        call; /* GM_CALL_FREE: behind all earlier work of the context; GM_CALL_FREE_ASYNC: in order of `stream` */
    uint64_t stream;
    bool per_thread;
    bool settled; /* all earlier work that may use the block is done, or runs before whatever uses the block next */
    bool idle;    /* nobody uses the block any more: there is nothing to wait for, on the host or on the device */
};

struct gm_resource;

struct gm_resource_ops {
    const char *name;
    const char *summary; /* one line */
    uint32_t properties; /* enum gm_property; an adaptor masks its upstream's: effective = upstream & properties */
    const char *breaks;  /* what a program loses against native memory, "" = nothing */
    bool adaptor;
    const char *arguments; /* adaptor: argument shown in help, e.g. "BYTES"; maker: NULL */
    enum gm_kind kind;     /* of its memory; an adaptor's memory has the kind of the wrapped resource */
    const char *serves;    /* stack that serves requests for `kind`, as text; NULL: this row serves no kind by itself */
    enum gm_kind fallback; /* maker: the kind to ask next where it cannot serve */
    size_t state_size;     /* bytes of zeroed state behind struct gm_resource */
    /* Prepares state. `argument` is the adaptor's first argument or NULL. Writes a one-line error on failure. May be
     * NULL. */
    gm_status (*open)(struct gm_resource *self, const char *argument, char *error, size_t error_size);
    /* Serves `request`, whose context is current. Success fills `block` (address, size, reserved, pitch, context...,
     * owner = self). Any failure leaves `block` untouched and costs nothing. Errors: GM_OUT_OF_MEMORY, GM_NOT_SUPPORTED
     * (cannot serve such a request or the driver lacks a function: the pipeline then asks native), or the driver's own.
     */
    gm_status (*alloc)(struct gm_resource *self, const struct gm_request *request, struct gm_block *block);
    /* Takes `block` back, whose owner may be an adaptor around it. On failure the block is still the program's and
     * unchanged. */
    gm_status (*free)(struct gm_resource *self, const struct gm_block *block, const struct gm_free_request *how);
    /* Gives cached memory back until `bytes` are free or nothing is left; returns bytes given back. May be NULL. */
    size_t (*trim)(struct gm_resource *self, size_t bytes);
    /* Bytes of a device that the driver counts as used and that only wait for reuse: trim gives them back. A pool,
     * which cannot tell, gives back what costs no wait and answers 0: the driver is to be asked afterwards. May be
     * NULL. */
    size_t (*releasable)(struct gm_resource *self, int device);
    /* True when a block that starts at `address`, or, where blocks are cut from pools, contains it, was freed and is
     * only kept: to the program it is no memory. Slow: for addresses at which no block lives. May be NULL. */
    bool (*keeps)(struct gm_resource *self, uint64_t address);
    /* A context is about to end and can still be entered: gives back what is kept for it. May be NULL. */
    void (*context_ending)(struct gm_resource *self, uint64_t context_id);
    /* A context was destroyed or reset: forget what belonged to it without touching the driver. May be NULL. */
    void (*context_destroyed)(struct gm_resource *self, uint64_t context_id);
    /* The context of a living block is gone: gives back what did not go with it. May be NULL. */
    void (*abandon)(struct gm_resource *self, const struct gm_block *block);
    /* Capture began (+1) or ended (-1) somewhere in the process. May be NULL. */
    void (*capture)(struct gm_resource *self, int change);
    /* `device` has a context from now on: copies between it and other devices need their memory open to it (reach.h).
     * May be NULL. */
    void (*open_to)(struct gm_resource *self, int device);
    /* The same for one living block of another device, where blocks are mapped one by one. May be NULL. */
    void (*open_block_to)(struct gm_resource *self, const struct gm_block *block, int device);
    /* In the child of a fork: what is kept belongs to the parent. May be NULL. */
    void (*after_fork)(struct gm_resource *self);
};

struct gm_resource {
    const struct gm_resource_ops *ops;
    struct gm_resource *upstream; /* adaptors */
    uint32_t properties;          /* effective */
    enum gm_kind kind;            /* effective */
    void *state;                  /* row->state_size zeroed bytes */
};

extern const struct gm_resource_ops *const gm_resource_rows[]; /* NULL-terminated */

/* Builds a stack from text. Grammar: resource = maker | adaptor "(" [argument ","] resource ")". Memory is taken from
 * pages of the kernel and lives as long as the process. Returns NULL and a one-line error naming the offending word and
 * what is accepted. */
struct gm_resource *gm_resource_build(const char *text, char *error, size_t error_size);

/* Promises (enum gm_promise bits) that memory of these properties does not keep. */
uint32_t gm_resource_unkept(uint32_t properties);
/* True when `properties` keep every hard promise of the request. */
bool gm_resource_keeps(uint32_t properties, const struct gm_request *request);
/* Soft promises of the request that `properties` drop (enum gm_promise bits). */
uint32_t gm_resource_drops(uint32_t properties, const struct gm_request *request);

#endif
