/* gpumem residency: keeps copies of host objects on the device under a budget of bytes.
 *
 * A program registers its objects, acquires the operands of an operation before it submits the work, and releases them
 * behind the work. A copy that is already on the device is found: nothing is allocated and nothing is transferred.
 * Otherwise it gets memory from the free pool (memory of the same size that was released lazily) or from the driver.
 * Where the budget is used up, gpumem first gives the free pool back, the largest block first, and then evicts copies
 * by a policy. After MemHC (Wang et al., ACM TACO 19(2), 2022), section 5.
 *
 *     struct gpumem_use uses[] = {{a, GPUMEM_READ}, {b, GPUMEM_READ}, {c, GPUMEM_WRITE}};
 *     gpumem_residency_acquire(residency, uses, 3, stream);
 *     multiply<<<grid, block, 0, stream>>>(uses[0].address, uses[1].address, uses[2].address);
 *     gpumem_residency_release(residency, uses, 3, stream, 0);
 *
 * Errors, units, ownership and structs: the conventions of gpumem.h hold here. A pointer that must not be NULL is
 * refused with GPUMEM_INVALID_VALUE. In addition each call that names an object returns GPUMEM_NOT_FOUND where the
 * object is not registered, or not any more.
 *
 * Threads. Any thread may call, at any time, with one residency too. An acquire that finds all its objects, a release
 * and an announce never wait for the device. Acquires place objects one at a time, and may wait for the device: for
 * memory that work still uses. Their transfers to the device then run beside each other, and may wait for staging
 * memory, or for another acquire that transfers the same object. Transfers to pageable memory run one at a time with
 * the placements, also those of a release. So does a release that frees (GPUMEM_RESIDENCY_NO_LAZY_RELEASE). An acquire
 * waits for another thread to release only under GPUMEM_RESIDENCY_WAIT.
 *
 * Streams. The residency belongs to the context that was current when it was created; streams are of that context. The
 * caller orders nothing: an acquire makes the stream wait for the transfers and the earlier uses that it depends on, in
 * whichever stream they run. The transfers run in two own streams, one each way, beside the work of the program. No
 * call that names a stream or transfers may be made while that stream captures (GPUMEM_STREAM_CAPTURE). Captures of
 * other streams are not disturbed. After the driver failed to record an event, the next use of that memory waits for
 * the whole context.
 *
 * Host memory. Contiguous pinned memory is copied directly. Pageable memory, and parts that are not contiguous, pass a
 * ring of pinned staging memory in chunks. One thread copies slower than the bus transfers, so up to
 * options.copy_threads threads copy a transfer of 1 MiB or more. All but the calling one are made at the first such
 * transfer, block all signals, and end in gpumem_residency_destroy(). In a process without pthread_create the calling
 * thread copies alone. gpumem does not pin the program's own memory: a program that frees it, and gets other memory at
 * that address, would transfer old bytes. A program that can rule this out pins its memory itself, and saves the
 * staging.
 *
 * Memory that was unmapped is detected before it is read or written (GPUMEM_NOT_FOUND). Memory that was freed but stays
 * mapped cannot be detected. The host must not change registered memory between an acquire and the end of the transfer
 * that it caused: gpumem_residency_sync() waits for that. */
#ifndef GPUMEM_RESIDENCY_H
#define GPUMEM_RESIDENCY_H

#include "gpumem_resource.h"

#ifdef __cplusplus
extern "C" {
#endif

struct gpumem_residency;

/* Each flag switches one of the optimisations off, so that its share can be measured. All are on by default. */
enum gpumem_residency_flags {
    /* No reuse of duplicates: every last release ends the copy, so the next acquire allocates and transfers again. A
     * changed copy is written to the host first, also that of a GPU-only object. */
    GPUMEM_RESIDENCY_NO_REUSE = 1,
    /* No free pool: memory of a copy that ended, or was evicted, is freed at once, behind the work that uses it. */
    GPUMEM_RESIDENCY_NO_LAZY_RELEASE = 2,
    /* No on-demand synchronisation: every release of an object that was acquired for writing writes it to the host,
     * also a GPU-only object. The copy stays. */
    GPUMEM_RESIDENCY_NO_ON_DEMAND = 4,
    /* Not an optimisation: an acquire that finds no room, because other uses hold all copies, waits for releases by
     * other threads. It returns GPUMEM_OUT_OF_MEMORY only where nothing is in use. A thread that waits should hold no
     * use itself: two threads that do, and wait for each other, wait for ever. */
    GPUMEM_RESIDENCY_WAIT = 8,
};

/* Zero in all fields but the first means the defaults. */
struct gpumem_residency_options {
    size_t struct_size;   /* sizeof(struct gpumem_residency_options), set by the caller */
    size_t budget;        /* bytes of device memory: copies and free pool; 0: nine tenths of what is free at creation */
    const char *eviction; /* "random", "mru", "lru", "car", "clock_pro", "preprotected_lru" or "window"; NULL: "window",
                             which is LRU where nothing is announced */
    size_t staging;       /* bytes of pinned host memory, half of it for each direction; 0: 32 MiB */
    size_t objects;       /* most objects registered at one time; 0: 65536 */
    size_t window;        /* most objects of an announced vector; 0: 4096 */
    uint64_t seed;        /* of the policy "random" */
    uint64_t flags;       /* enum gpumem_residency_flags */
    size_t copy_threads;  /* threads that copy a large transfer of pageable memory, the calling one included; 0: one for
                             each processor that the creating thread may use, at most 8; at most 64 */
    /* Device memory from elsewhere, both or none; gpumem_residency_use_resource() sets them. `allocate` returns memory
     * that every stream can use at once, or NULL; copies are evicted then. No work uses the memory any more when it is
     * released. Any thread may call, and the context of the residency is current. */
    void *(*allocate)(size_t bytes, void *user);
    void (*release)(void *address, size_t bytes, void *user);
    void *user;
};

/* Alignment of copies in a resource: that of cudaMalloc. */
enum { GPUMEM_COPY_ALIGNMENT = 256 };

static inline void *gpumem_residency_allocate_(size_t bytes, void *resource) {
    void *memory = NULL;
    (void)gpumem_resource_allocate(GPUMEM_RESOURCE_OF_(resource), bytes, GPUMEM_COPY_ALIGNMENT, &memory);
    return memory;
}
static inline void gpumem_residency_release_(void *address, size_t bytes, void *resource) {
    (void)gpumem_resource_deallocate(GPUMEM_RESOURCE_OF_(resource), address, bytes, GPUMEM_COPY_ALIGNMENT);
}
/* Copies lie in memory of the resource, which the caller keeps until the residency is destroyed. */
static inline void gpumem_residency_use_resource(struct gpumem_residency_options *options,
                                                 struct gpumem_resource *resource) {
    options->allocate = gpumem_residency_allocate_;
    options->release = gpumem_residency_release_;
    options->user = resource;
}

/* options NULL: the defaults. Allocates no device memory yet. Errors: GPUMEM_NOT_INITIALIZED,
 * GPUMEM_INVALID_VALUE (no such policy; too many objects or threads; one of two functions), GPUMEM_OUT_OF_MEMORY, and
 * those of struct_size. GPUMEM_NOT_SUPPORTED: an option that this version does not know. */
enum gpumem_status gpumem_residency_create(const struct gpumem_residency_options *options,
                                           struct gpumem_residency **residency);

/* Waits for the work that may use a copy, frees all memory and ends all objects. Changes that were not synchronised are
 * discarded. No other thread may use the residency any more. NULL is no error. A stream may capture
 * meanwhile. After an error the residency is gone, too: the error is that of the work waited for. */
enum gpumem_status gpumem_residency_destroy(struct gpumem_residency *residency);

/* ---- objects. An object is a number, never 0 and never used again after the object ended. */

enum gpumem_object_flags {
    /* The GPU writes the object first, and the host may never need it: an intermediate result. Nothing is transferred
     * until gpumem_residency_sync() or an eviction. Host memory is only its home then. Where `address` is NULL, gpumem
     * allocates a pinned home at the first such transfer. */
    GPUMEM_OBJECT_GPU_ONLY = 1,
};

/* One of several pieces of an object: the head or a child. An object moves whole; what is needed by the part is
 * registered as several objects. */
struct gpumem_part {
    void *address; /* host memory; NULL in all parts of a GPU-only object without a given home */
    size_t bytes;
};

/* Host memory of the objects must not overlap. */
struct gpumem_object_options {
    size_t struct_size; /* sizeof(struct gpumem_object_options), set by the caller */
    void *address;      /* host memory: not NULL, unless GPU-only or in parts */
    size_t bytes;       /* not 0; with parts 0 or their sum */
    uint64_t version;   /* of the bytes on the host, any number; see gpumem_residency_update() */
    uint64_t flags;     /* enum gpumem_object_flags */
    /* Packs the parts into one allocation, in their order and without gaps. They move and are evicted together, by one
     * transfer where they lie in the same order without gaps on the host, otherwise through staging memory. The array
     * is copied. */
    const struct gpumem_part *parts;
    size_t part_count; /* 0: the object is one piece */
};

/* Makes an object known. Transfers and allocates nothing on the device. Where an object with the same address (of the
 * first part) is registered, *object is that one: `version` acts as gpumem_residency_update(), and the object ends with
 * the last unregister. Errors: GPUMEM_INVALID_VALUE, GPUMEM_OUT_OF_MEMORY (options.objects are registered; host
 * memory), and those of struct_size. GPUMEM_INVALID_VALUE: the object has no bytes or no address, is in device
 * memory, or is larger than the budget. Also: the registered object has another size, other parts or other flags, or is
 * in use and the version differs. */
enum gpumem_status gpumem_residency_register(struct gpumem_residency *residency,
                                             const struct gpumem_object_options *options, uint64_t *object);

/* Ends the object. A change that was not synchronised is discarded. The memory of its copy goes to the free pool. Waits
 * for a transfer of the object's host memory, which the caller may free afterwards. Errors: GPUMEM_INVALID_VALUE (it is
 * in use). After a driver's error the object has ended, too. */
enum gpumem_status gpumem_residency_unregister(struct gpumem_residency *residency, uint64_t object);

/* The host has changed the object's memory. Where `version` is another number than before, the device copy is stale and
 * the next acquire transfers; a change of the copy that was not synchronised is discarded. Errors: GPUMEM_INVALID_VALUE
 * (it is in use; a GPU-only object without host memory). */
enum gpumem_status gpumem_residency_update(struct gpumem_residency *residency, uint64_t object, uint64_t version);

/* ---- uses */

enum gpumem_access {
    GPUMEM_READ = 1,
    GPUMEM_WRITE = 2, /* alone: all bytes are written; nothing is transferred to the device */
    GPUMEM_READ_WRITE = 3,
};

/* Arrays of it are passed, so it has no struct_size and stays as it is. */
struct gpumem_use {
    uint64_t object;
    uint64_t access; /* enum gpumem_access */
    void *address;   /* written by acquire: of the device copy, valid until the release */
    uint64_t number; /* written by acquire: of this use */
};

/* Places the objects of one operation on the device, all or none: none of them is evicted for another one, and on
 * failure none is in use. Work submitted to `stream` afterwards finds their bytes. An object is in use any number of
 * times for reading, or once for writing. Errors: GPUMEM_OUT_OF_MEMORY (nothing can be evicted, because all other
 * copies are in use), GPUMEM_NOT_FOUND (also: host memory was unmapped), GPUMEM_STREAM_CAPTURE, GPUMEM_INVALID_VALUE.
 * GPUMEM_INVALID_VALUE: the objects are together larger than the budget, or an object cannot be used this way. Such an
 * object is in use for writing, or is in use and to be written, or is GPU-only, to be read, and was never written. */
enum gpumem_status gpumem_residency_acquire(struct gpumem_residency *residency, struct gpumem_use *uses, size_t count,
                                            struct CUstream_st *stream);

/* Device addresses of the first `count` parts of an object in use, in the order of registration. Errors:
 * GPUMEM_INVALID_VALUE (it is not in use, or has fewer parts; an object of one piece has one part). */
enum gpumem_status gpumem_residency_parts(struct gpumem_residency *residency, uint64_t object, void **addresses,
                                          size_t count);

enum gpumem_release_flags {
    /* The copies end with their last use, and their memory goes to the free pool for the next object of the same size.
     * A changed object of the host is written to the host first; call gpumem_residency_sync() before the host reads it.
     * A GPU-only object loses its bytes without a transfer and can be written again. */
    GPUMEM_RELEASE_DROP = 1,
    /* With GPUMEM_RELEASE_DROP: a GPU-only object is written to its home first, and keeps its bytes there. So MemHC has
     * it: "synchronizations occur when releasing device memory" (5.3). Without this flag an intermediate result that
     * nobody needs costs no transfer. */
    GPUMEM_RELEASE_KEEP = 2,
};

/* Ends one use of each object, behind the work submitted to `stream` so far, which is the stream of the acquire or one
 * that the caller ordered behind it. The release is lazy: a copy stays until it is dropped or evicted, also a changed
 * one, and nothing is transferred (unless GPUMEM_RESIDENCY_NO_ON_DEMAND or GPUMEM_RESIDENCY_NO_REUSE). `uses` are those
 * as an acquire wrote them, of one or more calls; `object` and `number` are read. Errors: GPUMEM_INVALID_VALUE (a use
 * that was not acquired, or was released before), GPUMEM_NOT_FOUND, GPUMEM_STREAM_CAPTURE, and then no use has ended.
 * After another error all uses have ended, and a copy that could not be written to the host stays on the device. */
enum gpumem_status gpumem_residency_release(struct gpumem_residency *residency, const struct gpumem_use *uses,
                                            size_t count, struct CUstream_st *stream, uint64_t flags);
/* The same for an owner who cannot take an error: ends the uses that have not ended yet. It also does so while the
 * stream is being captured. The end has no place in the stream then, and the next use of that memory waits for the
 * whole context. An error of the driver is logged. */
void gpumem_residency_abandon_uses(struct gpumem_residency *residency, const struct gpumem_use *uses, size_t count,
                                   struct CUstream_st *stream);

/* On-demand synchronisation: afterwards the host memory holds the object's latest bytes, and no transfer uses it. *host
 * (may be NULL): the address of this host memory, of the first part where there are parts. For a GPU-only object
 * without a given home it is the home that gpumem allocated, valid until the object is dropped or ended. Transfers only
 * what is not on the host yet, and waits for it. The copy stays. Errors: GPUMEM_INVALID_VALUE (in use for writing; a
 * GPU-only object that holds nothing), GPUMEM_OUT_OF_MEMORY (a home). */
enum gpumem_status gpumem_residency_sync(struct gpumem_residency *residency, uint64_t object, void **host);

/* Announces the objects of the next operations to the policy, in their order; it replaces what was announced before.
 * Transfers nothing and places nothing: gpumem_residency_prefetch() does. "preprotected_lru" and "window" use it, the
 * others ignore it. Errors: GPUMEM_INVALID_VALUE (more than options.window). */
enum gpumem_status gpumem_residency_announce(struct gpumem_residency *residency, const uint64_t *objects, size_t count);

/* Starts to transfer objects of the host that are to be read soon, beside the work of the program: into own memory, in
 * the stream of the residency's transfers. Nothing is in use afterwards. Objects that are on the device, and GPU-only
 * objects without bytes, are passed over. It evicts as an acquire does, so prefetch what comes next and leave room for
 * what is in use. Pinned memory is transferred after the call, other memory passes staging memory meanwhile. *started
 * (may be NULL): number of objects, from the first, that are on the device or on their way. Ends without an error at
 * the first object that finds no room. Errors: GPUMEM_NOT_FOUND, those of the driver. */
enum gpumem_status gpumem_residency_prefetch(struct gpumem_residency *residency, const uint64_t *objects, size_t count,
                                             size_t *started);

/* ---- statistics: sums since creation, unless said otherwise */

struct gpumem_residency_stats {
    size_t struct_size;      /* sizeof(struct gpumem_residency_stats), set by the caller */
    uint64_t hits;           /* acquired objects that were on the device; a stale copy counts, too */
    uint64_t misses;         /* those that were placed */
    uint64_t allocations;    /* of the driver */
    uint64_t reused;         /* placed in memory of the free pool */
    uint64_t reused_evicted; /* placed in memory of an object evicted for it; MemHC counts these as allocations */
    uint64_t evictions;      /* copies */
    uint64_t written_back;   /* evictions that transferred to the host */
    uint64_t given_back;     /* blocks of the free pool that were freed for want of budget or device memory */
    uint64_t given_back_bytes;
    uint64_t transfers_to_device, bytes_to_device; /* a transfer is one object, in one or more copies */
    uint64_t transfers_to_host, bytes_to_host;
    uint64_t copies;         /* driver copies of all transfers */
    uint64_t objects;        /* registered now */
    uint64_t resident;       /* objects with a copy now */
    uint64_t resident_bytes; /* of copies now */
    uint64_t pool_bytes;     /* of the free pool now */
    uint64_t peak_bytes;     /* most bytes of copies and free pool at any time */
    uint64_t host_bytes;     /* pinned by gpumem now: staging memory and homes */
    uint64_t allocate_ns;    /* host time in allocations and frees of the driver, waits before a free included */
    uint64_t evict_ns;       /* host time in evictions, without the frees */
    uint64_t transfer_ns;    /* host time in transfers that no eviction caused, of all threads */
};

/* Errors: only those of struct_size. */
enum gpumem_status gpumem_residency_get_stats(struct gpumem_residency *residency, struct gpumem_residency_stats *stats);

#ifdef __cplusplus
}
#endif

#endif
