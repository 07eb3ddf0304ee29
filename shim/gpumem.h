/* gpumem: calls for programs that cooperate. A program needs none of them to run under `LD_PRELOAD=libgpumem.so`.
 *
 * Link with -lgpumem-core (pkg-config gpumem). In a process that also preloads libgpumem.so, both libraries share one
 * registry of blocks.
 *
 * Errors. A call that can fail returns enum gpumem_status and writes its results only on success, unless its
 * declaration says otherwise. A pointer that must not be NULL is refused with GPUMEM_INVALID_VALUE; a call without a
 * status then answers 0 or NULL, or does nothing. A call that cannot fail returns its result, or nothing.
 * gpumem_last_error() has the text. Every call on a region or a vector may also return the driver's own error, for
 * example one that earlier work left behind.
 *
 * Threads. Any thread may call, at any time. One region or one vector is used by one thread at a time.
 *
 * Contexts. A call that makes something on a device makes it in the current context. Where the thread has none, the
 * primary context of device 0 becomes current, as in the CUDA runtime, and is retained until the process ends.
 *
 * Units. Sizes are bytes. Counts and positions of vectors are elements.
 *
 * Ownership. The caller owns what a create call returns and destroys it. After a create call that failed there is
 * nothing to destroy. Any other call that failed leaves the caller with what it had, unless its declaration says
 * otherwise.
 *
 * Structs. Each struct begins with `struct_size`. The caller sets it to sizeof(struct ...) before the call:
 *
 *     struct gpumem_region_options options = {.struct_size = sizeof options, .flags = GPUMEM_REGION_EXACT};
 *
 * So later versions can add fields at the end. A field that the caller's struct lacks counts as 0. A field that the
 * library does not know must be 0 in a struct that it reads (else GPUMEM_NOT_SUPPORTED), and becomes 0 in a struct that
 * it writes. GPUMEM_INVALID_VALUE: struct_size is less than sizeof(size_t) or more than 4096. */
#ifndef GPUMEM_H
#define GPUMEM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- version */

#define GPUMEM_VERSION_MAJOR 0
#define GPUMEM_VERSION_MINOR 1
#define GPUMEM_VERSION_PATCH 0

/* Version of the library that runs, as "MAJOR.MINOR.PATCH"; static storage. The macros are the header's version. */
const char *gpumem_version(void);

/* ---- errors */

/* Each value is the number of the CUresult with the same meaning: (CUresult)status is the driver's error, and a status
 * may be any CUresult, also one without a name here. */
enum gpumem_status {
    GPUMEM_OK = 0,
    GPUMEM_INVALID_VALUE = 1,     /* an argument is out of its range */
    GPUMEM_OUT_OF_MEMORY = 2,     /* of the device, the host, or addresses */
    GPUMEM_NOT_INITIALIZED = 3,   /* there is no driver: libcuda.so.1 cannot be loaded */
    GPUMEM_INVALID_CONTEXT = 201, /* no context is current in the calling thread, or not the right one */
    GPUMEM_NOT_FOUND = 500,       /* no live block contains the address */
    GPUMEM_NOT_SUPPORTED = 801,   /* the device, the driver or this version of gpumem cannot do it */
    GPUMEM_STREAM_CAPTURE = 900,  /* the call has to wait for work, and a stream is being captured */
    GPUMEM_UNKNOWN = 999,         /* the largest number of a CUresult */
    GPUMEM_TOO_SMALL = 1000,      /* an array of the caller does not hold the result */
};

/* "GPUMEM_OUT_OF_MEMORY" and so on. Other numbers have the driver's name ("CUDA_ERROR_ILLEGAL_ADDRESS"), or "unknown
 * status" where the driver is not loaded or has none. Static storage; never NULL. */
const char *gpumem_status_name(enum gpumem_status status);

/* What went wrong in the calling thread's last call that failed, with the bytes requested and the bytes free; "" when
 * none failed. Valid until the thread's next call that fails. */
const char *gpumem_last_error(void);

/* ---- blocks of the process */

/* A live block: memory that the program allocated, imported, registered or mapped, and did not free yet. */
struct gpumem_block {
    size_t struct_size; /* sizeof(struct gpumem_block), set by the caller */
    uint64_t address;   /* start */
    size_t size;        /* bytes that the program requested */
    const char *kind;   /* which memory serves it: "native", "async", "managed", ...; static storage */
    const char *call;   /* driver call that made it, e.g. "cuMemAlloc"; static storage */
    int device;         /* ordinal; -1: unknown */
    int reserved;       /* 0 */
};

/* Describes the block that contains `address`, which may lie inside it. Errors: GPUMEM_NOT_FOUND, and those of
 * struct_size. */
enum gpumem_status gpumem_block_of(const void *address, struct gpumem_block *block);

/* Number of live blocks: those that gpumem_block_of() finds. Address reservations, memory handles, pools and arrays are
 * not blocks. Takes time in proportion to the blocks. As a CUDA call it answers `gpumem trace start` and `stop`. */
size_t gpumem_live_count(void);

/* Releases free memory that gpumem caches, until `bytes` (SIZE_MAX: all) are back at the driver or nothing is left. It
 * is memory of the current context's device, and with it memory of any device whose free was deferred. Waits for work
 * of the program that may still use such memory. *released (may be NULL): bytes released, of all devices, possibly 0.
 * Without the preloaded library nothing is cached. Errors: GPUMEM_INVALID_CONTEXT under the preloaded library. */
enum gpumem_status gpumem_trim(size_t bytes, size_t *released);

/* Begins a phase of the program in the trace: a mark with this text, of which the first 1000 bytes are written. Does
 * nothing where no trace is written. A trace begins with the process's first CUDA call; marks before it are lost. */
void gpumem_mark(const char *text);

/* ---- suspend and resume (GPUMEM_SUSPEND=on): the process gives its device memory back and gets it again, with its
 * contents and under the same addresses.
 *
 * Blocks of cudaMalloc take part, and what the program maps itself (cuMemMap). All other memory stays on the device: of
 * cudaMallocAsync and pools, pitched, managed, pinned and imported memory, arrays, and what was exported. A suspended
 * process runs on: calls that allocate, free, query and wait are served, and the first call that submits work (a
 * launch, a copy, an event) resumes it. Without the preloaded library, or without GPUMEM_SUSPEND, the first three calls
 * of this part answer GPUMEM_NOT_SUPPORTED and 0. */

enum gpumem_suspend_flags {
    GPUMEM_SUSPEND_WAIT = 1, /* calls that submit work wait until gpumem_resume, or gpumem resume PID */
    /* No call is held: the process goes on without this memory, and must not use it before gpumem_resume brought it
     * back. It can be freed meanwhile. Blocks of up to 1 MiB stay. */
    GPUMEM_SUSPEND_ASIDE = 2,
};

/* Zero in all fields but the first: everything is copied, and comes back with the first call that submits work. A glob
 * (* stands for any text, ? for one character) names blocks by their tag, by their NVTX range (gpumem run --nvtx), or
 * by a part of their call site's text, such as "load_weights". NULL: none. */
struct gpumem_suspend_options {
    size_t struct_size;   /* sizeof(struct gpumem_suspend_options), set by the caller */
    const char *keep;     /* these blocks stay on the device */
    const char *drop;     /* these are not copied, and come back as zeros */
    uint64_t flags;       /* enum gpumem_suspend_flags */
    uint64_t patience_ns; /* how long to wait for the work in flight, nanoseconds; 0: 10 s */
    const char *to;       /* folder for a file that holds the contents instead of host memory */
    const char *only;     /* these alone leave; NULL: all */
};

/* Waits for the work in flight, copies the memory to the host and gives it back to the device. Returns when that is
 * done; calls of other threads that submit work wait meanwhile. Not to be called by a function that the driver calls.
 * *bytes (may be NULL): bytes that left the device. After an error the process is as before. options NULL: all fields
 * zero. Errors: GPUMEM_NOT_SUPPORTED (see above, and for an unknown flag), GPUMEM_STREAM_CAPTURE, GPUMEM_OUT_OF_MEMORY
 * (of the host), those of struct_size, and the driver's own. CUDA_ERROR_OPERATING_SYSTEM (304): the file cannot be
 * made, written or read, or its file system is too full. CUDA_ERROR_NOT_READY (600): the work in flight does not
 * end. GPUMEM_NOT_SUPPORTED, too: a network card may know the memory. */
enum gpumem_status gpumem_suspend(const struct gpumem_suspend_options *options, size_t *bytes);

/* Brings back what `glob` names (NULL: everything), and lets held calls go on when everything is back. A process that
 * is not suspended stays as it is. *bytes (may be NULL): bytes that came back. GPUMEM_OUT_OF_MEMORY: the device has too
 * little free memory, the process stays suspended, and a later call can succeed. Under GPUMEM_SHARE the call first
 * waits until other processes leave the device. Other errors: the driver's own. */
enum gpumem_status gpumem_resume(const char *glob, size_t *bytes);

/* 1 while calls that submit work are held, else 0. */
int gpumem_suspended(void);

/* Blocks that the calling thread allocates from now on have this tag, until gpumem_tag_pop returns to the tag before: a
 * word of at most 31 bytes. Tags may be nested, at most 8. At most 255 different tags have an effect; with each
 * NVTX range in which it is used a tag counts anew. */
void gpumem_tag_push(const char *tag);
/* GPUMEM_INVALID_VALUE: the thread has no tag. */
enum gpumem_status gpumem_tag_pop(void);

/* ---- regions: device memory that grows and shrinks at its end without moving.
 *
 * A region reserves addresses, which cost no memory, and maps memory to their start as it grows. A step makes one
 * physical handle of the size that it adds, gives access to exactly that, copies nothing, and costs the same whatever
 * the region holds. A region that outgrows its addresses takes those behind it, or maps its pages to new and larger
 * ones: its base changes then, and no byte is copied. (Dynamic SpGEMM thesis, 3.1.1.)
 *
 * A region belongs to the context that was current when it was created (Contexts, above). Growing in place does not
 * wait for the device. A step that unmaps waits for the work submitted before, of all streams of the device and of the
 * peers given access: shrinking, destroying, and growing that moves the base. Such a step fails with
 * GPUMEM_STREAM_CAPTURE while a stream is captured. A program that runs without the preloaded library must not take
 * such a step during a capture, because the captures are not known then. */
struct gpumem_region;

enum gpumem_region_flags {
    GPUMEM_REGION_HOST = 1,       /* memory of the host's node beside the device, read and written across the bus */
    GPUMEM_REGION_EXPORTABLE = 2, /* handles that other processes can map (gpumem_region_export) */
    GPUMEM_REGION_EXACT = 4,      /* map nothing ahead */
};

/* Zero in all fields but the first: memory of the current device, ample addresses. */
struct gpumem_region_options {
    size_t struct_size; /* sizeof(struct gpumem_region_options), set by the caller */
    size_t reserve;     /* bytes of addresses; 0: as many as the device has memory */
    uint64_t peers;     /* bit p: device p may access the region, too */
    uint64_t flags;     /* enum gpumem_region_flags */
};

struct gpumem_view {
    size_t struct_size; /* sizeof(struct gpumem_view), set by the caller */
    void *base;         /* first address */
    size_t size;        /* bytes requested by the last grow or shrink */
    size_t mapped;      /* bytes backed by memory from `base` on, at least `size` */
    size_t capacity;    /* bytes up to which the base stays as it is */
    size_t handles;     /* physical handles */
};

/* Reserves addresses, and no memory yet. options NULL: all fields zero. Errors: GPUMEM_NOT_INITIALIZED,
 * GPUMEM_OUT_OF_MEMORY, GPUMEM_NOT_SUPPORTED, and those of struct_size. GPUMEM_NOT_SUPPORTED: the device or driver has
 * no virtual memory management, or not of host memory, or this version does not know an option. GPUMEM_INVALID_VALUE:
 * a peer that does not exist. */
enum gpumem_status gpumem_region_create(const struct gpumem_region_options *options, struct gpumem_region **region);

/* Waits for the work that may use the region, and releases memory and addresses. NULL is no error.
 * GPUMEM_STREAM_CAPTURE: the region is unchanged and still belongs to the caller. After any other error the region is
 * destroyed, and the error is that of the work waited for. */
enum gpumem_status gpumem_region_destroy(struct gpumem_region *region);

/* Makes the region at least `size` bytes. Added memory is not initialised. Small steps map ahead, at most 5 % of what
 * is mapped and 64 MiB beyond the request, unless GPUMEM_REGION_EXACT. On failure region and view are as they were.
 * Errors: GPUMEM_OUT_OF_MEMORY, GPUMEM_STREAM_CAPTURE (the base would move). */
enum gpumem_status gpumem_region_grow(struct gpumem_region *region, size_t size);

/* Makes the region at most `size` bytes and releases the handles that lie wholly behind them. A handle is never split.
 * After a failure the first `size` bytes are still mapped. Errors: GPUMEM_STREAM_CAPTURE. */
enum gpumem_status gpumem_region_shrink(struct gpumem_region *region, size_t size);

/* Where the region lies and what it holds. Errors: only those of struct_size. */
enum gpumem_status gpumem_region_view(const struct gpumem_region *region, struct gpumem_view *view);

/* The same memory at other addresses that kernels can only read. They follow the region's growth, may change when its
 * base does, and end with the region. Kernels that start later see there what was written before. Errors:
 * GPUMEM_OUT_OF_MEMORY, those of struct_size, and the driver's own where the device has no read-only access. */
enum gpumem_status gpumem_region_view_read_only(struct gpumem_region *region, struct gpumem_view *view);

/* Lets device `peer` read and write the region from now on. After a failure it may access a part of it. Errors:
 * GPUMEM_INVALID_VALUE (there is no such device, or it is above 63), the driver's own where the devices are no peers.
 */
enum gpumem_status gpumem_region_allow(struct gpumem_region *region, int peer);

/* A file descriptor for the handle `index` (< view.handles) and the handle's size. The caller closes it; other
 * processes import it by cuMemImportFromShareableHandle. Errors: GPUMEM_NOT_SUPPORTED (the region was created without
 * GPUMEM_REGION_EXPORTABLE), GPUMEM_INVALID_VALUE (no such handle). */
enum gpumem_status gpumem_region_export(const struct gpumem_region *region, size_t index, int *descriptor,
                                        size_t *size);

/* ---- vectors: an array of elements of one size in a region (dynamic SpGEMM thesis, A.2).
 *
 * A vector changes its elements by copies and fills of the driver, ordered in its stream. The caller orders other
 * streams. Values are given by address: of the host, of the device, or of an element of the same vector. A value in
 * pinned host memory must stay until the stream has read it. Addresses of elements change only with the base of the
 * region: call gpumem_vector_data() again after a call that may grow.
 *
 * Errors of every call that may add elements: GPUMEM_OUT_OF_MEMORY, GPUMEM_STREAM_CAPTURE (the base would move). Of
 * every call with positions or values: GPUMEM_INVALID_VALUE (a position behind the end; a value that lies across two
 * elements of the vector). On failure the count is as it was. So are the elements, except that a driver's error during
 * copies may leave those from `position` or `first` on undefined. */
struct gpumem_vector;

struct CUstream_st; /* CUstream and cudaStream_t are pointers to it */

/* `options` are those of the vector's region. `stream` NULL: the legacy default stream; the caller keeps it alive while
 * the vector uses it. Errors: those of gpumem_region_create(), GPUMEM_INVALID_VALUE (element_size is 0). */
enum gpumem_status gpumem_vector_create(const struct gpumem_region_options *options, size_t element_size,
                                        struct CUstream_st *stream, struct gpumem_vector **vector);

/* As gpumem_region_destroy(), for the vector and its region. */
enum gpumem_status gpumem_vector_destroy(struct gpumem_vector *vector);

void *
gpumem_vector_data(const struct gpumem_vector *vector); /* the first element; an address also when there is none */
size_t gpumem_vector_count(const struct gpumem_vector *vector);
size_t gpumem_vector_capacity(const struct gpumem_vector *vector); /* elements that fit into the memory mapped now */
/* The vector owns its region. The caller may view, allow and export it, and must not resize or destroy it. */
struct gpumem_region *gpumem_vector_region(struct gpumem_vector *vector);
/* Later operations are ordered in `stream`. The caller orders it after the stream used so far. */
void gpumem_vector_set_stream(struct gpumem_vector *vector, struct CUstream_st *stream);

/* Maps memory for `count` elements in all. */
enum gpumem_status gpumem_vector_reserve(struct gpumem_vector *vector, size_t count);
/* Added elements become *value, or zero bytes when it is NULL. Shrinking keeps the memory. */
enum gpumem_status gpumem_vector_resize(struct gpumem_vector *vector, size_t count, const void *value);
/* Adds `count` elements, uninitialised. Maps what they need in whole granules, and ahead as a region does. */
enum gpumem_status gpumem_vector_append(struct gpumem_vector *vector, size_t count);
enum gpumem_status gpumem_vector_push_back(struct gpumem_vector *vector, const void *value);
/* `count` copies of *value before `position` (<= the vector's count). */
enum gpumem_status gpumem_vector_insert(struct gpumem_vector *vector, size_t position, size_t count, const void *value);
/* `count` elements from `source`, which lies outside the vector, before `position`. */
enum gpumem_status gpumem_vector_insert_from(struct gpumem_vector *vector, size_t position, const void *source,
                                             size_t count);
/* The `count` elements from `first` on become *value. */
enum gpumem_status gpumem_vector_fill(struct gpumem_vector *vector, size_t first, size_t count, const void *value);
/* Removes the `count` elements from `first` on. Keeps the memory. */
enum gpumem_status gpumem_vector_erase(struct gpumem_vector *vector, size_t first, size_t count);
/* The vector becomes `count` copies of *value. */
enum gpumem_status gpumem_vector_assign(struct gpumem_vector *vector, size_t count, const void *value);
/* The vector becomes `count` elements from `source`, which lies outside it. */
enum gpumem_status gpumem_vector_assign_from(struct gpumem_vector *vector, const void *source, size_t count);
/* The vector becomes a copy of `other`, whose elements have the same size (else GPUMEM_INVALID_VALUE). */
enum gpumem_status gpumem_vector_copy(struct gpumem_vector *vector, const struct gpumem_vector *other);
/* The vectors exchange elements, regions and streams. */
void gpumem_vector_swap(struct gpumem_vector *one, struct gpumem_vector *other);
/* Releases the memory behind the last element, and the memory that insert and erase kept for their copies. Waits as
 * gpumem_region_shrink(). */
enum gpumem_status gpumem_vector_shrink(struct gpumem_vector *vector);

#ifdef __cplusplus
}
#endif

#endif
