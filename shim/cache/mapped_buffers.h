/* The table of mapped buffers (mapped.h), by address and by handle, in the driver's view and in the program's.
 *
 * Every buffer is mapped in the driver's view: the memory of its handle fills its address range. In the program's view
 * it goes through these states:
 *  - in use: the program has the address range and has mapped the memory there.
 *  - partly held: the program has the handle or the address range, but has nothing mapped.
 *  - kept: the program has nothing of it. A cache has it, or a thread is about to take it or to free it.
 *
 * Nothing here calls the driver. The caller of every function holds gm_buffers_lock. */
#ifndef GM_CACHE_MAPPED_BUFFERS_H
#define GM_CACHE_MAPPED_BUFFERS_H

#include "shim/base/base.h"
#include "shim/driver/driver.h"

struct gm_buffer {
    struct gm_buffer *next_address, *next_handle; /* with the same hash; next_address also links unused structs */
    CUdeviceptr address;
    CUmemGenericAllocationHandle handle;
    size_t size;
    CUcontext context; /* in which the program created the handle */
    uint64_t context_id;
    uint64_t serial;     /* differs for each buffer that used the struct */
    uint64_t opened;     /* devices to which the program gave access since it mapped the buffer; bit d = device d */
    uint64_t accessible; /* devices that have access in the driver's view */
    int device;
    int properties;    /* of its handle (mapped.c) */
    unsigned holds;    /* references of the program to the handle */
    bool withheld;     /* the driver counts one reference more, because the last release was not passed on */
    bool address_held; /* the program has the address range */
    bool mapped;       /* the program has mapped it */
    bool counted;      /* among the bytes that the cache owns */
    bool busy;         /* a thread calls the driver for it, and other threads wait */
};

GM_INTERNAL extern gm_spin gm_buffers_lock;
GM_INTERNAL extern unsigned gm_buffers_count, gm_buffers_partly_held;

static inline bool gm_buffer_is_kept(const struct gm_buffer *buffer) {
    return !buffer->mapped && !buffer->holds && !buffer->address_held;
}
/* The program gave back the memory, but still has the address range. */
static inline bool gm_buffer_is_idle(const struct gm_buffer *buffer) {
    return !buffer->mapped && !buffer->holds && buffer->address_held;
}

/* The buffer with this address or handle; NULL: there is none. Waits while the buffer is busy, without the lock. */
GM_INTERNAL struct gm_buffer *gm_buffer_at(CUdeviceptr address);
GM_INTERNAL struct gm_buffer *gm_buffer_of(CUmemGenericAllocationHandle handle);
/* Adds a copy. False: the kernel has no memory. */
GM_INTERNAL bool gm_buffer_add(const struct gm_buffer *buffer);
GM_INTERNAL void gm_buffer_remove(struct gm_buffer *buffer);
/* Changes the state in the program's view. */
GM_INTERNAL void gm_buffer_change(struct gm_buffer *buffer, unsigned holds, bool address_held, bool mapped);
/* Any buffer that is not busy and for which `wanted` is true; NULL: there is none. Looks at all buffers. */
GM_INTERNAL struct gm_buffer *gm_buffer_search(bool (*wanted)(const struct gm_buffer *buffer, const void *argument),
                                               const void *argument);
/* In the child of a fork: forgets the parent's buffers. */
GM_INTERNAL void gm_buffers_after_fork(void);

#endif
