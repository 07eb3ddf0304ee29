/* The simulated driver from inside.  One lock guards everything below; a function named sim_* expects it held
 * unless it says otherwise.  Kernels and host functions run without it. */
#ifndef SIM_H
#define SIM_H

#include "sim_protos.h"
#include "simcuda.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIM_GO          ((CUresult)-1)
#define SIM_MAX_DEVICES 8
#define SIM_CHUNK       ((size_t)2 << 20)
#define SIM_SMALL       ((size_t)1 << 20)
#define SIM_GRAIN       ((size_t)512)
#define SIM_ROUND(n, a) (((n) + (a)-1) / (a) * (a))

struct sim_symbol {
    const char *symbol, *name;
    int version;
    int per_thread;
    const char *params; /* kind letter + name, blank separated: see gen_exports.py */
    void *fn;
};
extern const struct sim_symbol sim_symbols[];
extern const unsigned sim_symbol_count;

struct sim_error {
    int code;
    const char *name, *text;
};
extern const struct sim_error sim_errors[];
extern const unsigned sim_error_count;

struct sim_call {
    unsigned index;
    int outer_per_thread;
    int cancel_state; /* a thread that is cancelled ends behind the call, not inside with the lock held */
    bool locked;
};

/* Every exported function starts and ends with these two: lock, options that play a part in every call, log. */
CUresult sim_enter(struct sim_call *call, unsigned index, bool implemented);
CUresult sim_leave(struct sim_call *call, CUresult result, const uint64_t *values);

/* ---- options (options.c), read once ---- */
enum sim_mode { SIM_IMMEDIATE, SIM_MANUAL, SIM_RANDOM };
struct sim_options {
    int devices, version;
    size_t memory, beyond;
    enum sim_mode mode;
    uint64_t seed, answer_ns;
    bool strict, noop_kernels, free_waits_for_device, free_locks, latency, blind_fence, whole_segments, no_peers;
};
extern struct sim_options sim_opt;
void sim_options_read(void);
bool sim_hidden(const char *symbol, const char *name);
CUresult sim_scripted_failure(unsigned index);
uint64_t sim_needs(unsigned index);      /* free bytes of the device without which the call is out of memory */
void (*sim_after(unsigned index))(void); /* what the thread calls when the call has ended, or NULL */
void sim_latency(unsigned index);
void sim_log_call(unsigned index, CUresult result, const uint64_t *values);
void sim_reset_calls(void); /* how often each was called */

/* ---- lock and thread state (driver/call.c) ---- */
struct sim_ctx;
struct sim_thread {
    int per_thread;  /* the running call is a _ptsz or _ptds twin */
    int depth;       /* calls of this thread inside the driver */
    int in_callback; /* a kernel or host function of this thread is running */
    unsigned id;
    struct sim_ctx *stack[64];
    int top;
    CUstreamCaptureMode capture_mode;
};
extern _Thread_local struct sim_thread sim_self;
void sim_lock(void);
void sim_unlock(void);
int sim_unlock_all(void); /* returns the depth to hand to sim_lock_again */
void sim_lock_again(int depth);
void sim_wait_change(void); /* waits (bounded) until another thread changed something */
void sim_notify(void);
uint64_t sim_now(void); /* ns */
extern bool sim_initialised;

/* ---- devices and contexts ---- */
struct sim_window { /* a range of device addresses over the device's physical file */
    char *va, *alias;
    size_t size;
};
struct sim_extent;
struct sim_device {
    int ordinal, fd;
    size_t used, peak;
    struct sim_window window[2]; /* 0: device memory, 1: managed memory */
    struct sim_extent *free_extents, *chunks;
    struct sim_ctx *primary;
    int primary_refs;
    unsigned primary_flags;
    struct CUmemPoolHandle_st *default_pool, *default_managed_pool, *pool;
    size_t graph_used, graph_high; /* memory of graphs that is not trimmed */
};
extern struct sim_device sim_devices[SIM_MAX_DEVICES];

struct sim_stream;
struct sim_dep { /* "everything with a number up to seq in ... has finished" */
    enum { DEP_STREAM, DEP_CTX, DEP_BLOCKING } kind;
    struct sim_stream *stream;
    struct sim_ctx *ctx;
    uint64_t seq;
};
#define CTX_MAGIC 0x43545831u
struct sim_ctx {
    unsigned magic;
    struct sim_device *device;
    uint64_t id;
    unsigned flags;
    bool primary;
    unsigned refs;          /* of cuCtxAttach */
    bool dying;             /* being destroyed or reset: nobody else may use it any more */
    struct sim_ctx *parent; /* of a green context's CUcontext: the primary context */
    CUresult sticky;
    unsigned peers; /* bit per device whose memory this context may use */
    size_t limits[CU_LIMIT_MAX];
    CUfunc_cache cache;
    struct sim_stream *legacy;
    struct sim_dep *waits; /* of cuCtxWaitEvent: streams made later wait for them too */
    unsigned wait_count;
    const struct sim_thread *freeing; /* waits in cuMemFree and holds the context: nobody else submits */
    struct sim_ctx *next;
};
extern struct sim_ctx *sim_contexts;
CUresult sim_need_ctx(struct sim_ctx **ctx);
bool sim_ctx_valid(CUcontext ctx);
CUresult sim_ctx_or_current(CUcontext handle, struct sim_ctx **ctx);
struct sim_ctx *sim_ctx_new(struct sim_device *d, unsigned flags);
void sim_ctx_kill(struct sim_ctx *ctx, bool keep);
CUresult sim_need_device(CUdevice dev, struct sim_device **d);
bool sim_can_reach(const struct sim_device *d, const struct sim_device *other);

/* ---- blocks: what an address belongs to (blocks.c) ---- */
enum sim_kind { KIND_NATIVE, KIND_MANAGED, KIND_POOL, KIND_VMM, KIND_HOST, KIND_REGISTERED, KIND_IPC, KIND_GRAPH };
enum sim_state { STATE_PENDING, STATE_LIVE, STATE_FREED };
struct sim_handle;
struct sim_block {
    uintptr_t addr;
    size_t size; /* as requested; the tree is keyed by it */
    uint64_t id;
    enum sim_kind kind;
    enum sim_state state;
    int refs;
    struct sim_device *device; /* NULL: host memory */
    struct sim_ctx *ctx;
    unsigned flags;  /* host flags, managed attach flags */
    unsigned access; /* VMM and pool memory: bit per device */
    unsigned fixed;  /* VMM memory: devices whose access is to read only */
    bool sync_memops, free_submitted, host_access;
    bool trimmed; /* memory of a graph: its bytes are with the device until the next launch */
    struct CUmemPoolHandle_st *pool;
    struct sim_segment_block *piece; /* pool memory */
    struct sim_handle *handle;       /* VMM memory */
    size_t handle_offset;
    struct sim_extent *extent; /* native and managed memory */
    size_t reserved;           /* bytes taken in the extent */
    struct sim_advice *advice; /* managed memory outside pools: of its pages, NULL before the first */
    size_t user_size;          /* simcuda_declare_alloc */
};
struct sim_block *sim_block_new(uintptr_t addr, size_t size, enum sim_kind kind, struct sim_device *d);
struct sim_block *sim_block_at(uintptr_t addr); /* the block that holds addr, interior too */
struct sim_block *sim_block_overlap(uintptr_t addr, size_t size);
void sim_block_gone(struct sim_block *b); /* out of the tree, state FREED, one reference less */
void sim_block_untree(struct sim_block *b);
void sim_block_unref(struct sim_block *b);
bool sim_is_device(const struct sim_block *b);
void sim_block_range(const struct sim_block *b, uintptr_t *start, size_t *size); /* as the driver reports it */
void sim_blocks_each(void (*fn)(struct sim_block *, void *), void *arg);
void *sim_alias(uintptr_t addr); /* where the driver itself reaches that address */

/* ---- physical memory (physical.c, shared_card.c) ---- */

/* SIMCUDA_CARD: maps the file in which processes count what they use of the card. */
void sim_card_share(const char *file);
/* Bytes of the device that other processes use. */
size_t sim_card_others(const struct sim_device *device);
/* Tells the others what this process uses. */
void sim_card_tell(const struct sim_device *device);
/* The device has so many bytes that nobody uses. */
size_t sim_free_bytes(const struct sim_device *device);

struct sim_extent {
    struct sim_device *device;
    size_t offset, size;
    int window;
    bool used;
    struct sim_advice *advice; /* a pool's segment: of its pages, NULL before the first */
    struct sim_extent *next;
    struct sim_piece *pieces; /* small blocks packed in this chunk, by offset */
};
CUresult sim_devices_start(void);
/* Takes bytes (a multiple of 2 MiB) of the device; OUT_OF_MEMORY beyond the limit. */
CUresult sim_extent_take(struct sim_device *d, size_t size, int window, struct sim_extent **out);
void sim_extent_give(struct sim_extent *e);
uintptr_t sim_extent_va(const struct sim_extent *e);
CUresult sim_native_alloc(struct sim_ctx *ctx, size_t size, int window, struct sim_block **out);
void sim_native_free(struct sim_block *b);
void sim_block_untrim(struct sim_block *b); /* before its bytes are used or released */
void sim_pools_squeeze(struct sim_device *d);
bool sim_has_room(struct sim_device *d, uint64_t bytes); /* pools give up what they do not use */
bool sim_pool_is_default(CUmemoryPool pool);
struct sim_extent *sim_pool_extent(const struct sim_block *b); /* of a live block of a pool */

/* ---- operations and streams (queue.c) ---- */
enum sim_op_kind {
    OP_EMPTY,
    OP_COPY,
    OP_SET,
    OP_KERNEL,
    OP_HOST,
    OP_EVENT,
    OP_WAIT,
    OP_ALLOC,
    OP_FREE,
    OP_WRITE,
    OP_WAIT_VALUE
};
struct sim_range {
    struct sim_block *block;
    uintptr_t addr;
    size_t size;
};
struct sim_copy {
    uintptr_t dst, src;
    size_t width, height, depth, dpitch, spitch, dslice, sslice;
    void *staged; /* copy of pageable host memory taken at submission; owned */
};
struct sim_set {
    uintptr_t dst;
    size_t pitch, width, height; /* width in elements */
    unsigned value, element;
};
struct sim_launch {
    struct CUfunc_st *function;
    unsigned grid[3], block[3];
    unsigned shared;
    unsigned count;
    unsigned offsets[64], sizes[64];
    char pointers[64];
    unsigned char *args; /* owned */
    size_t args_size;
};
struct sim_host {
    CUhostFn fn;
    CUstreamCallback callback;
    void *data;
};
struct sim_value {
    uintptr_t addr;
    uint64_t value;
    unsigned flags;
    bool wide;
};
struct sim_op {
    uint64_t seq;
    enum sim_op_kind kind;
    bool running;
    bool programmatic; /* a kernel that may begin before the kernel right before it has ended */
    struct sim_op *next;
    struct sim_stream *stream;
    struct sim_dep deps[4];
    unsigned dep_count;
    struct sim_range *ranges;
    unsigned range_count;
    union {
        struct sim_copy copy;
        struct sim_set set;
        struct sim_launch launch;
        struct sim_host host;
        struct CUevent_st *event;
        struct sim_block *block;
        struct sim_value value;
    } u;
};
#define STREAM_MAGIC 0x53545231u
struct sim_capture;
struct sim_stream {
    unsigned magic;
    struct sim_ctx *ctx;
    unsigned flags;
    int priority;
    unsigned owner; /* thread whose per-thread default stream this is; 0: none */
    bool legacy, destroyed;
    uint64_t id, last_seq;
    struct sim_op *head, *tail;
    struct sim_capture *capture;
    struct CUgraphNode_st **capture_tail;
    unsigned capture_tail_count;
    bool capture_origin;
    CUgreenCtx green;
    struct sim_stream *next;
};
extern struct sim_stream *sim_streams;
extern uint64_t sim_seq;
struct sim_op *sim_op_new(enum sim_op_kind kind);
struct sim_op *sim_op_clone(const struct sim_op *op);
void sim_op_free(struct sim_op *op);
bool sim_op_range(struct sim_op *op, uintptr_t addr, size_t size); /* false: part of it is in no block */
void sim_op_dep(struct sim_op *op, struct sim_dep dep);
/* Takes ownership of op.  A capturing stream records it in its graph. */
CUresult sim_submit(struct sim_stream *s, struct sim_op *op);
CUresult sim_submit_and_wait(struct sim_stream *s, struct sim_op *op);
bool sim_dep_done(const struct sim_dep *dep);
void sim_run_until(const struct sim_dep *dep);
bool sim_run_towards(const struct sim_dep *dep); /* what this thread can run; true: the dependency is met */
void sim_pump(void);
void sim_random_step(void);
/* A device takes waits that are over out of a stream at once, before anybody can ask about the stream. */
void sim_run_waits(struct sim_stream *s);
int sim_step(struct sim_stream *only);
bool sim_ordered_after(struct sim_stream *s, struct sim_stream *other, uint64_t seq);
void sim_finish_ctx(struct sim_ctx *ctx);
CUresult sim_stream_get(CUstream handle, struct sim_stream **s);
struct sim_stream *sim_stream_new(struct sim_ctx *ctx, unsigned flags, int priority);
struct sim_stream *sim_stream_of_thread(struct sim_ctx *ctx);
void sim_streams_thread_gone(unsigned thread); /* with its per-thread default streams; what is queued still runs */
struct sim_dep sim_dep_stream(struct sim_stream *s);
struct sim_dep sim_dep_ctx(struct sim_ctx *ctx);
void sim_violation(struct sim_ctx *ctx, const char *what, uintptr_t addr, size_t size);
void sim_reset_violations(void);
void sim_reset_checks(void);         /* what check kernels found (driver/launch.c) */
void sim_execute(struct sim_op *op); /* execute.c; may drop and retake the lock */
CUresult sim_copy_submit(struct sim_stream *s, const struct sim_copy *c, bool wait);
void sim_pool_submitted(const struct sim_op *op); /* it has its number now */
void sim_pool_op(struct sim_op *op);
void sim_sync_point(struct sim_ctx *ctx); /* pools give back what lies above their threshold */
bool sim_value_ready(const struct sim_op *op);

/* ---- events ---- */
#define EVENT_MAGIC 0x45565431u
struct CUevent_st {
    unsigned magic;
    int refs;
    struct sim_ctx *ctx;
    uint64_t ctx_id; /* the context's; a primary one lives on at the same place with another */
    unsigned flags;
    bool recorded;
    unsigned polls; /* answers "not ready" in a row */
    struct sim_dep dep;
    uint64_t time;
    uint64_t visible_from; /* queries do not see the completion before; 0 = at once */
    struct sim_capture *capture;
    struct CUgraphNode_st **capture_nodes;
    unsigned capture_count;
    uint64_t capture_id;
};
void sim_event_ran(struct CUevent_st *e, uint64_t seq);
void sim_event_unref(struct CUevent_st *e);
bool sim_event_valid(CUevent e);

/* ---- capture and graphs ---- */
CUresult sim_capture_unsafe(void);                /* refuses and invalidates while a capture forbids unsafe calls */
CUresult sim_capture_in_ctx(struct sim_ctx *ctx); /* invalidates every capture of the context */
CUresult sim_capture_add(struct sim_stream *s, struct sim_op *op);
CUresult sim_capture_legacy(struct sim_stream *s); /* implicit dependency on a capturing stream */
CUresult sim_capture_wait(struct sim_stream *s, struct CUevent_st *e);
CUresult sim_capture_record(struct sim_stream *s, struct CUevent_st *e);
void sim_capture_invalidate(struct sim_capture *c);
/* With the stream that began it a capture ends; by another one's end it gets invalid. */
void sim_capture_stream_gone(struct sim_stream *s);
struct sim_capture *sim_event_capture(struct CUevent_st *e); /* the running capture e was recorded in */
#define SIM_UNSAFE()                             \
    do {                                         \
        CUresult unsafe_ = sim_capture_unsafe(); \
        if (unsafe_ != CUDA_SUCCESS)             \
            return unsafe_;                      \
    } while (0)
#define SIM_TRY(call)             \
    do {                          \
        CUresult try_ = (call);   \
        if (try_ != CUDA_SUCCESS) \
            return try_;          \
    } while (0)

/* ---- pools ---- */
CUresult sim_pool_alloc(struct CUmemPoolHandle_st *p, size_t size, struct sim_stream *s, struct sim_block **out);
CUresult sim_pool_free_block(struct sim_block *b, struct sim_stream *s);
void sim_pool_free_now(struct sim_block *b);
bool sim_pool_valid(CUmemoryPool pool);
bool sim_block_queued(const struct sim_block *b); /* some operation that has not run names it */

/* ---- VMM ---- */
void *sim_vmm_alias(uintptr_t addr); /* NULL: not in a reservation */

/* ---- modules ---- */
struct CUfunc_st {
    unsigned magic;
    char *name;
    struct CUmod_st *module;
    int attributes[CU_FUNC_ATTRIBUTE_MAX];
    struct CUfunc_st *next;
};
const struct simcuda_twin *sim_twin_find(const char *name);
void *sim_find_symbol(const char *name); /* in any loaded object; does not go through dlsym */
bool sim_function_valid(const struct CUfunc_st *f);

#endif
