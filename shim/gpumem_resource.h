/* gpumem: memory resources. A resource allocates memory of one kind. Resources are combined: an adaptor (log, limit,
 * cache ...) wraps another resource and adds something. A program combines them in code, in text, or in both:
 *
 *     struct gpumem_resource *resource;
 *     gpumem_resource_create("log(limit(2GiB,cache(async)))", &resource);
 *     gpumem_resource_allocate_async(resource, bytes, gpumem_stream(stream), &memory);
 *     gpumem_resource_deallocate_async(resource, memory, bytes, gpumem_stream(stream));
 *     gpumem_resource_destroy(resource);
 *
 * The same text is a value of GPUMEM_RESOURCE_NATIVE, GPUMEM_RESOURCE_ASYNC and GPUMEM_RESOURCE_MANAGED, for a program
 * that does not use this header. libgpumem(7) lists all names.
 *
 * The author of a resource states the kind of its memory. A function that uses a resource asks for properties, by a
 * view: memory that the device can access, for example, whatever its kind is.
 *
 * Errors, threads, units and structs with struct_size: see gpumem.h. A pointer that must not be NULL is refused with
 * GPUMEM_INVALID_VALUE; a call without a status then answers 0 or "". Any number of threads may use one resource at one
 * time. Only gpumem_resource_destroy() needs the resource for itself.
 *
 * Contexts. Memory that a device can access belongs to the context that is current at the allocation (gpumem.h), and
 * ends with it. Any thread may free it, also one without a context. Without the preloaded library the end of a context
 * is not seen: free its memory and destroy the caches first.
 *
 * Captures. While a stream captures, only "native" serves that stream, and a free may be deferred. Without the
 * preloaded library captures are not known: make no call that names no stream while a capture lasts. */
#ifndef GPUMEM_RESOURCE_H
#define GPUMEM_RESOURCE_H

#include "gpumem.h"

#ifdef __cplusplus
extern "C" {
#endif

struct gpumem_resource;

/* The resource that a callback of another header gets as its `user`. */
#ifdef __cplusplus
#define GPUMEM_RESOURCE_OF_(user) static_cast<struct gpumem_resource *>(user)
#else
#define GPUMEM_RESOURCE_OF_(user) (user)
#endif

/* ---- kinds and properties */

/* What the memory can do. New properties take new bits. */
enum gpumem_property {
    GPUMEM_HOST_ACCESSIBLE = 0x01,
    GPUMEM_DEVICE_ACCESSIBLE = 0x02,
    GPUMEM_CROSS_DEVICE_ACCESSIBLE = 0x04, /* peers access it after cuCtxEnablePeerAccess, or from the start */
    GPUMEM_OVERSUBSCRIBABLE = 0x08,        /* there may be more of it than fits into the memory that stores it */
    GPUMEM_RESIDENT = 0x10,                /* it does not migrate */
    GPUMEM_HOST_STORAGE = 0x20,            /* it may lie in host memory */
    GPUMEM_DEVICE_STORAGE = 0x40,          /* it may lie in device memory */
    GPUMEM_STREAM_ORDERED = 0x80,          /* allocate_async and deallocate_async work */
    GPUMEM_IPC_EXPORTABLE = 0x100,         /* cuIpcGetMemHandle works */
    GPUMEM_GROWABLE = 0x200,               /* gpumem_resource_grow works */
    GPUMEM_ANY_CONTEXT = 0x400,            /* usable on every stream at once; a stream-bound resource lacks it */
};

enum gpumem_kind {
    GPUMEM_KIND_MIXED = 0, /* of more than one kind: fallback(async,host-numa) */
    GPUMEM_KIND_HOST,      /* host-accessible, oversubscribable, host storage */
    GPUMEM_KIND_PINNED,    /* host-accessible, device-accessible, resident, host storage */
    GPUMEM_KIND_DEVICE,    /* device-accessible, resident, device storage */
    GPUMEM_KIND_MANAGED,   /* host-accessible, device-accessible, oversubscribable, host and device storage */
};
#define GPUMEM_KIND_UNIFIED GPUMEM_KIND_MANAGED

/* The properties that every resource of the kind has (bits of enum gpumem_property); 0 for another number. */
uint64_t gpumem_kind_properties(enum gpumem_kind kind);

/* "host-accessible", "stream-ordered" ...; "unknown property" for anything but one bit of the enum. Static storage. */
const char *gpumem_property_name(uint64_t property);

/* ---- streams and contexts of execution */

/* A stream that somebody else owns. It has a type of its own, so that no other pointer or number is taken for it. */
struct gpumem_stream_view {
    struct CUstream_st *stream; /* CUstream or cudaStream_t; NULL: the legacy default stream */
};

static inline struct gpumem_stream_view gpumem_stream(struct CUstream_st *stream) {
    struct gpumem_stream_view view = {stream};
    return view;
}

/* Where the memory of a resource can be used without synchronisation. */
struct gpumem_resource_context {
    int any;                          /* 1: in every thread and on every stream. 0: on `stream` only */
    struct gpumem_stream_view stream; /* of a stream-bound resource */
};

/* ---- create and destroy */

/* Builds a resource from text: NAME, or ADAPTOR([ARGUMENT,]RESOURCE), or fallback(RESOURCE,RESOURCE).
 *
 *     native          device memory, cuMemAlloc             new-delete      host memory, operator new
 *     async           device memory, a private pool         pinned          page-locked host memory
 *     vmm             device memory, growable               host-numa       host memory mapped to the device
 *     managed         managed memory                        guard           device memory, faults outside of a block
 *     managed-pool    managed memory, a private pool        suspendable     device memory that can leave the device
 *     split           device memory, the rest host memory
 *
 *     log(R)                  one log line for each allocation and free
 *     limit(BYTES,R)          out of memory above so many live bytes
 *     track(R)                remembers live blocks with their call stacks, reports those that leak
 *     statistics(R)           counts calls, bytes and peaks
 *     cache([N,]R)            keeps freed blocks for reuse
 *     aligned(BYTES,R)        aligns each block at least so
 *     fail-nth(N,R)           the N-th allocation fails
 *     prefetch(R)             starts to move new managed memory to the device
 *     fill(zero|poison,R)     fills memory
 *     prime(BYTES,R)          begins with so many free bytes: limit(8GiB,prime(2GiB,async)) is a pool of 2 to 8 GiB
 *     retry(R)                see gpumem_resource_on_failure()
 *     fallback(A,B)           B serves what A cannot: out of memory, not supported
 *     stream-bound(STREAM,R)  everything on one stream: legacy, per-thread, or the handle as a number
 *
 * Errors: GPUMEM_INVALID_VALUE (the text names the wrong word and what is accepted), GPUMEM_OUT_OF_MEMORY (of the host,
 * or 1024 resources exist). */
enum gpumem_status gpumem_resource_create(const char *text, struct gpumem_resource **resource);

/* As gpumem_resource_create(); $1 to $9 in the text stand for the `count` resources `given`:
 *
 *     gpumem_resource_compose("fallback($1,$2)", (struct gpumem_resource *[]){device, host}, 2, &both);
 *
 * The new resource keeps those given alive: the caller may destroy its own at any time. Errors: those of
 * gpumem_resource_create(); GPUMEM_INVALID_VALUE ($N without a resource). */
enum gpumem_status gpumem_resource_compose(const char *text, struct gpumem_resource *const *given, size_t count,
                                           struct gpumem_resource **resource);

/* A resource that allocates on `upstream` and on `stream` only: allocate and deallocate become allocate_async and
 * deallocate_async there. gpumem_resource_get_context() names the stream. The caller keeps the stream alive. Errors:
 * GPUMEM_INVALID_VALUE (upstream is not stream-ordered), GPUMEM_OUT_OF_MEMORY. */
enum gpumem_status gpumem_resource_bind(struct gpumem_resource *upstream, struct gpumem_stream_view stream,
                                        struct gpumem_resource **resource);

/* A resource that calls the program where `upstream` is out of memory: it frees something and returns 1, and the
 * allocation is tried again, or it returns 0. Any thread may call it, without a lock of gpumem, and it may use
 * upstream. Errors: those of gpumem_resource_compose(). After RMM's failure_callback_resource_adaptor. */
enum gpumem_status gpumem_resource_on_failure(struct gpumem_resource *upstream,
                                              int (*callback)(size_t bytes, void *user), void *user,
                                              struct gpumem_resource **resource);

/* The current resource of the current context's device: "native" until another one is set. *resource is not the
 * caller's to destroy, and lives until another one is set. gpumem_resource_share_current() makes the caller one more
 * owner (gpumem_resource_share), so that no other thread can end it in between. gpumem_resource_set_current()
 * becomes one more owner of `resource`; NULL sets "native". Errors: GPUMEM_NOT_INITIALIZED, GPUMEM_NOT_SUPPORTED
 * (a device number above 63). */
enum gpumem_status gpumem_resource_current(struct gpumem_resource **resource);
enum gpumem_status gpumem_resource_share_current(struct gpumem_resource **resource);
enum gpumem_status gpumem_resource_set_current(struct gpumem_resource *resource);

/* A resource that the program writes itself. Each call gets `self`, may come from any thread, and returns GPUMEM_OK or
 * an error, which reaches the caller. `alignment` is a power of two, `bytes` is not 0. */
struct gpumem_resource_author {
    size_t struct_size; /* sizeof(struct gpumem_resource_author), set by the caller */
    const char *name;   /* at most 31 bytes; letters, digits, "-" and "_" */
    enum gpumem_kind kind;
    int reserved;        /* 0 */
    uint64_t properties; /* beyond those of the kind. Without GPUMEM_ANY_CONTEXT: bound to `stream` */
    struct gpumem_stream_view stream;
    void *self;
    enum gpumem_status (*allocate)(void *self, size_t bytes, size_t alignment, void **memory);
    enum gpumem_status (*deallocate)(void *self, void *memory, size_t bytes, size_t alignment);
    /* Needed for GPUMEM_STREAM_ORDERED, else NULL. */
    enum gpumem_status (*allocate_async)(void *self, size_t bytes, size_t alignment, struct gpumem_stream_view stream,
                                         void **memory);
    enum gpumem_status (*deallocate_async)(void *self, void *memory, size_t bytes, size_t alignment,
                                           struct gpumem_stream_view stream);
    void (*destroy)(void *self); /* called once when the resource is gone; may be NULL */
};

/* Errors: those of struct_size; GPUMEM_INVALID_VALUE (the kind, the name, a missing function, an unknown property, a
 * property that contradicts the kind, GPUMEM_GROWABLE); GPUMEM_OUT_OF_MEMORY. After an error `destroy` is not called.
 */
enum gpumem_status gpumem_resource_create_own(const struct gpumem_resource_author *author,
                                              struct gpumem_resource **resource);

/* For the functions of an author: stores the reason of a failure and returns `status`. The error text of the failed
 * call ends with it. text NULL: no reason. */
enum gpumem_status gpumem_resource_fail(enum gpumem_status status, const char *text);

/* One more owner of the resource, who destroys it as well. */
enum gpumem_status gpumem_resource_share(struct gpumem_resource *resource);

/* Destroys the caller's hold on a resource. The resource goes when it has no other owner and no composed resource
 * uses it any more. It gives free memory that it caches back to the driver, which may wait for work of the program.
 * NULL is no error. Errors: GPUMEM_INVALID_VALUE (blocks are live; the text says how many; the resource stays the
 * caller's), GPUMEM_STREAM_CAPTURE (a stream captures; the same). Only the last owner gets them. */
enum gpumem_status gpumem_resource_destroy(struct gpumem_resource *resource);
/* The same for an owner who cannot take an error. It is logged, and the resource stays until the process ends. */
void gpumem_resource_abandon(struct gpumem_resource *resource);

/* ---- what a resource is */

enum gpumem_kind gpumem_resource_kind(const struct gpumem_resource *resource);
uint64_t gpumem_resource_properties(const struct gpumem_resource *resource); /* bits of enum gpumem_property */
struct gpumem_resource_context gpumem_resource_get_context(const struct gpumem_resource *resource);
/* The resource as text, with what $1 to $9 stood for. A text without own resources builds the same again. Valid until
 * the resource is gone. */
const char *gpumem_resource_text(const struct gpumem_resource *resource);

/* ---- views: a resource that somebody else owns, known by the properties that its user requested */

struct gpumem_resource_view {
    struct gpumem_resource *resource; /* for every call below */
    uint64_t properties;              /* those requested: a part of the resource's */
};

/* A view of a resource. Errors: GPUMEM_INVALID_VALUE (the resource lacks a property; the text names it). */
enum gpumem_status gpumem_resource_view_of(struct gpumem_resource *resource, uint64_t properties,
                                           struct gpumem_resource_view *view);
/* A view made from a view: it can ask for a subset of the view's properties, not for others, even where the resource
 * has them. Errors: GPUMEM_INVALID_VALUE (the view lacks a property; the text names it). */
enum gpumem_status gpumem_resource_view_convert(struct gpumem_resource_view from, uint64_t properties,
                                                struct gpumem_resource_view *to);

/* ---- allocate and free */

#ifdef __cplusplus
#define GPUMEM_DEFAULT_ALIGNMENT (alignof(::max_align_t))
#else
#define GPUMEM_DEFAULT_ALIGNMENT (_Alignof(max_align_t))
#endif

/* Memory of at least `bytes` bytes at an address that is a multiple of `alignment`, a power of two. 0 bytes: *memory
 * becomes NULL, which is no error and no block.
 *
 * The memory can be used at return, in every thread and on every stream (GPUMEM_ANY_CONTEXT). That holds for
 * stream-ordered resources, too: where the memory becomes ready on a stream, the call waits for that. A stream-bound
 * resource allocates in the order of its stream.
 *
 * Errors: GPUMEM_INVALID_VALUE (the alignment), GPUMEM_OUT_OF_MEMORY, GPUMEM_NOT_INITIALIZED (only for memory
 * that a device can access), GPUMEM_NOT_SUPPORTED (by the device or driver, or during a capture). */
enum gpumem_status gpumem_resource_allocate(struct gpumem_resource *resource, size_t bytes, size_t alignment,
                                            void **memory);

/* Frees memory of this resource after all work that was submitted before and may use it, as cuMemFree does. `bytes` and
 * `alignment` are those of the allocation. A stream-bound resource frees in the order of its stream. NULL is no error.
 *
 * Errors, each of which is logged: GPUMEM_NOT_FOUND: no live block of this resource begins at `memory`; nothing is
 * freed. GPUMEM_INVALID_VALUE: bytes or alignment are not those of the allocation; the text names both values. The
 * memory is freed all the same, as it was allocated. Both are tracked errors: they are counted
 * (gpumem_resource_get_info). Any other error: the driver's or the author's; the block stays live. */
enum gpumem_status gpumem_resource_deallocate(struct gpumem_resource *resource, void *memory, size_t bytes,
                                              size_t alignment);

/* The same in the order of `stream`, as cuMemAllocAsync and cuMemFreeAsync: the memory can be used by work submitted to
 * the stream after the allocation and before the free. Other streams have to be ordered by the caller. Memory of one
 * call may be freed by the other: of gpumem_resource_allocate() by deallocate_async, and the reverse. Each has two
 * forms: with GPUMEM_DEFAULT_ALIGNMENT, and with an alignment.
 *
 * Further errors: GPUMEM_INVALID_VALUE (the resource is not stream-ordered; one that is bound to a stream is not). Of a
 * free that is a tracked error, too: the memory is freed all the same, by a stream-bound resource after all work that
 * was submitted before. */
enum gpumem_status gpumem_resource_allocate_async(struct gpumem_resource *resource, size_t bytes,
                                                  struct gpumem_stream_view stream, void **memory);
enum gpumem_status gpumem_resource_allocate_async_aligned(struct gpumem_resource *resource, size_t bytes,
                                                          size_t alignment, struct gpumem_stream_view stream,
                                                          void **memory);
enum gpumem_status gpumem_resource_deallocate_async(struct gpumem_resource *resource, void *memory, size_t bytes,
                                                    struct gpumem_stream_view stream);
enum gpumem_status gpumem_resource_deallocate_async_aligned(struct gpumem_resource *resource, void *memory,
                                                            size_t bytes, size_t alignment,
                                                            struct gpumem_stream_view stream);

/* Makes a live block of `bytes` bytes at least `wanted` bytes long, at its place: address and content stay. The block
 * is freed with `wanted` bytes afterwards. Does not wait. On failure the block is as it was. Errors:
 * GPUMEM_INVALID_VALUE (the resource is not growable; `wanted` is less than `bytes`; `bytes` is not the block's),
 * GPUMEM_NOT_FOUND, GPUMEM_OUT_OF_MEMORY (of the device, or of addresses behind the block). */
enum gpumem_status gpumem_resource_grow(struct gpumem_resource *resource, void *memory, size_t bytes, size_t wanted);

/* Gives free memory that the resource caches back to the driver, as gpumem_trim(). *released (may be NULL): bytes. */
enum gpumem_status gpumem_resource_trim(struct gpumem_resource *resource, size_t bytes, size_t *released);

/* ---- what a resource counts */

/* Of every resource, by the calls of this header. */
struct gpumem_resource_info {
    size_t struct_size;  /* sizeof(struct gpumem_resource_info), set by the caller */
    uint64_t live_count; /* blocks */
    uint64_t live_bytes; /* as requested */
    uint64_t mismatches; /* tracked errors of frees: wrong size, alignment or order; no such block */
};
enum gpumem_status gpumem_resource_get_info(const struct gpumem_resource *resource, struct gpumem_resource_info *info);

/* Of the outermost adaptor "statistics". It counts where it stands: inside a cache it sees what the cache allocates. */
struct gpumem_statistics {
    size_t struct_size;     /* sizeof(struct gpumem_statistics), set by the caller */
    uint64_t allocations;   /* that succeeded */
    uint64_t failures;      /* allocations that failed */
    uint64_t deallocations; /* that succeeded */
    uint64_t total_bytes;   /* of all allocations */
    uint64_t live_count, live_bytes;
    uint64_t peak_count, peak_bytes; /* the most at one time */
};
/* Errors: GPUMEM_NOT_FOUND (the resource has no adaptor "statistics"), those of struct_size. */
enum gpumem_status gpumem_resource_get_statistics(const struct gpumem_resource *resource,
                                                  struct gpumem_statistics *statistics);

/* A live block of the outermost adaptor "track". */
struct gpumem_tracked {
    void *memory;
    size_t bytes;
    uint64_t number;         /* of the allocation, from 1 */
    const uintptr_t *frames; /* return addresses above the allocation, innermost first */
    size_t frame_count;      /* 0: unknown */
};
/* Calls `visit` for each live block, the oldest first, until it returns something other than 0. *count (may be NULL):
 * number of live blocks. `visit` NULL: only counts. `visit` must not use the resource. Errors: GPUMEM_NOT_FOUND (the
 * resource has no adaptor "track"), GPUMEM_OUT_OF_MEMORY. */
enum gpumem_status gpumem_resource_tracked(const struct gpumem_resource *resource,
                                           int (*visit)(const struct gpumem_tracked *block, void *arg), void *arg,
                                           size_t *count);

#ifdef __cplusplus
}
#endif

#endif
