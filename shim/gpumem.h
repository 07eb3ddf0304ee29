/* gpumem: what programs may call that know of it. None of it is needed to run under `LD_PRELOAD=libgpumem.so`.
 *
 * Link with -lgpumem-core (pkg-config gpumem). Where the preloaded library is in the process too, both share one
 * registry. All functions may be called from any thread, except where noted. Sizes are bytes. */
#ifndef GPUMEM_H
#define GPUMEM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Version of the library, e.g. "0.1.0"; static storage. */
const char *gpumem_version(void);

/* A live block as gpumem knows it. */
struct gpumem_block {
    uint64_t address; /* start */
    size_t size;      /* bytes asked by the program */
    int device;       /* ordinal, -1 unknown */
    const char *kind; /* which memory serves it: "native", "async", "managed", ...; static storage */
    const char *call; /* driver call that made it, e.g. "cuMemAlloc"; static storage */
};

/* Describes the block that contains `address` (interior addresses too). Returns 0 and fills *block, or -1 when no live
 * block contains it; *block is then untouched. */
int gpumem_block_of(const void *address, struct gpumem_block *block);

/* Number of live blocks of this process that gpumem knows. */
size_t gpumem_live_count(void);

/* Gives device memory that gpumem keeps for reuse back to the driver, until `bytes` are free or nothing is left;
 * returns the bytes given back. Waits for work of the program that may still use such memory. 0 where nothing is kept.
 */
size_t gpumem_trim(size_t bytes);

/* Writes a mark with this text (up to 1000 bytes are kept) to the trace, where one is written: phases of the program. A
 * trace begins with the process's first CUDA call; marks before it are lost. */
void gpumem_mark(const char *text);

/* What went wrong in the calling thread's last failing call below, with the bytes asked and free; "" when none did.
 * Valid until the thread's next such call. The calls return 0 or the number of a CUresult (2: out of memory, 801: not
 * supported, 900: a stream is being captured and what had to wait could not). */
const char *gpumem_last_error(void);

/* ---- regions: device memory that grows and shrinks at its end without moving.
 *
 * A region reserves addresses, ample and free of cost, and maps memory to their start as it grows: a step makes one
 * handle of the size it adds, opens exactly that, copies nothing, and costs the same whatever the region holds. A
 * region that outgrows its addresses takes those behind, or moves its pages to new and larger ones: its base changes
 * then, and no byte is copied. (Dynamic SpGEMM thesis, 3.1.1.)
 *
 * A region belongs to the context that was current when it was created and is used by one thread at a time. Growing
 * does not wait for the device. Whatever unmaps - shrinking, releasing, moving to larger addresses - waits for the work
 * submitted before, of all streams of the device and of the peers given access; it is refused (900) while a stream is
 * captured. A program that runs without the preloaded library must not do it during a capture. */
struct gpumem_region;

enum gpumem_region_flags {
    GPUMEM_REGION_HOST = 1,       /* memory of the host's node beside the device, read and written across the bus */
    GPUMEM_REGION_EXPORTABLE = 2, /* handles that other processes can map (gpumem_region_export) */
    GPUMEM_REGION_EXACT = 4,      /* map nothing ahead */
};

/* Zeroed: memory of the current device, ample addresses. */
struct gpumem_region_options {
    size_t reserve; /* bytes of addresses; 0: as much as the device has memory */
    unsigned flags; /* enum gpumem_region_flags */
    uint64_t peers; /* bit p: device p may access it, too */
};

struct gpumem_view {
    void *base;       /* NULL in an error */
    size_t size;      /* bytes asked by the last grow or shrink */
    size_t mapped;    /* bytes backed by memory from `base` on, at least `size` */
    size_t capacity;  /* bytes up to which the base stays as it is */
    unsigned handles; /* physical pieces */
};

/* Reserves addresses; no memory yet. *region is written on success only, the caller's to release. Errors: 201 no
 * context is current, 801 the device or driver has no virtual memory management or no such tier, the driver's own. */
int gpumem_region_create(const struct gpumem_region_options *options, struct gpumem_region **region);
/* Makes it at least `size` bytes. Added memory is not initialised. Small steps map ahead: at most 5 % of what is mapped
 * and 64 MiB beyond what was asked, unless GPUMEM_REGION_EXACT. On failure region and view are as they were. */
int gpumem_region_grow(struct gpumem_region *region, size_t size);
/* Makes it at most `size` bytes and gives back the handles that lie wholly behind; a handle is never split. On failure
 * nothing that `size` bytes need is gone. */
int gpumem_region_shrink(struct gpumem_region *region, size_t size);
void gpumem_region_view(const struct gpumem_region *region, struct gpumem_view *view);
/* The same memory at other addresses that kernels can read only; it follows the region's growth, may change its base
 * with the region's, and ends with it. Writes become visible there to kernels that start later. Errors: the driver's
 * own where the device knows no read-only access. */
int gpumem_region_view_read_only(struct gpumem_region *region, struct gpumem_view *view);
/* Device `peer` may read and write it from now on. */
int gpumem_region_allow(struct gpumem_region *region, int peer);
/* A file descriptor for handle `index` (< view.handles) and its size, the caller's to close; other processes import it
 * by cuMemImportFromShareableHandle. Errors: 801 the region was not made GPUMEM_REGION_EXPORTABLE. */
int gpumem_region_export(const struct gpumem_region *region, unsigned index, int *descriptor, size_t *size);
/* Gives memory and addresses back; NULL is no error. Only error 900 leaves the region as it was; other errors are those
 * of the work it waited for. */
int gpumem_region_release(struct gpumem_region *region);

/* ---- vectors: an array of elements of one size in a region (dynamic SpGEMM thesis, A.2).
 *
 * What a vector does to its elements is ordered in its stream, by copies and fills of the driver; other streams are the
 * caller's to order. Values are given by address: of the host, of the device, or of an element of the same vector. A
 * value in pinned host memory has to stay until the stream has read it. Addresses of elements change only with the base
 * of the region: ask gpumem_vector_data() again after a call that may grow. Positions and counts are in elements; used
 * by one thread at a time. */
struct gpumem_vector;

/* `stream` is a CUstream or cudaStream_t, NULL the legacy default stream. Errors: as gpumem_region_create; 1
 * element_size is 0. */
int gpumem_vector_create(const struct gpumem_region_options *options, size_t element_size, void *stream,
                         struct gpumem_vector **vector);
int gpumem_vector_destroy(struct gpumem_vector *vector); /* as gpumem_region_release */
void *gpumem_vector_data(const struct gpumem_vector *vector);
size_t gpumem_vector_count(const struct gpumem_vector *vector);
size_t gpumem_vector_capacity(const struct gpumem_vector *vector); /* elements that fit into the memory mapped now */
struct gpumem_region *gpumem_vector_region(struct gpumem_vector *vector); /* the vector's own; not to be resized */
void gpumem_vector_set_stream(struct gpumem_vector *vector, void *stream);

/* Memory for `count` elements in all. */
int gpumem_vector_reserve(struct gpumem_vector *vector, size_t count);
/* Elements added get *value, or zero bytes when it is NULL. Shrinking keeps the memory. */
int gpumem_vector_resize(struct gpumem_vector *vector, size_t count, const void *value);
/* `count` more elements, uninitialised; maps what they need and no more (in whole granules, and ahead as a region
 * does). */
int gpumem_vector_append(struct gpumem_vector *vector, size_t count);
int gpumem_vector_push_back(struct gpumem_vector *vector, const void *value);
/* `count` copies of *value before `position` (<= the vector's count). */
int gpumem_vector_insert(struct gpumem_vector *vector, size_t position, size_t count, const void *value);
/* `count` elements from `source`, which lies outside the vector, before `position`. */
int gpumem_vector_insert_from(struct gpumem_vector *vector, size_t position, const void *source, size_t count);
int gpumem_vector_fill(struct gpumem_vector *vector, size_t first, size_t count, const void *value);
int gpumem_vector_erase(struct gpumem_vector *vector, size_t first, size_t count);
/* The vector becomes `count` copies of *value; elements from `source`, which lies outside; a copy of another vector. */
int gpumem_vector_assign(struct gpumem_vector *vector, size_t count, const void *value);
int gpumem_vector_assign_from(struct gpumem_vector *vector, const void *source, size_t count);
int gpumem_vector_copy(struct gpumem_vector *vector, const struct gpumem_vector *other);
void gpumem_vector_swap(struct gpumem_vector *one, struct gpumem_vector *other);
/* Gives memory behind the last element back, and what insert and erase kept for themselves. */
int gpumem_vector_shrink(struct gpumem_vector *vector);

#ifdef __cplusplus
}
#endif

#endif
