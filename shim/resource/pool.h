/* Private memory pools that stand in for plain allocation: what the async and the managed-pool resource share.
 *
 * A pool follows events and inserts dependencies by itself, so its pointers are good in the order of one stream only.
 * These pools follow no events, have no internal dependencies, and reuse opportunistically only. Allocation on a stream
 * that never waits, returned when complete: ready everywhere. Free behind a context-wide event on a second stream:
 * returned at once, reused only when all earlier work is done. Requests in stream order go to the program's own stream.
 *
 * Only where all devices reach each other (reach.h): each pool is open to every device that has a context. */
#ifndef GM_RESOURCE_POOL_H
#define GM_RESOURCE_POOL_H

#include "shim/resource/block.h"
#include "shim/driver/internal_stream.h"
#include "shim/resource/deferred_queue.h"

#define GM_POOL_DEVICES 64

/* One kind of pool, for the whole process: one pool a device. */
struct gm_pool_family {
    const char *name;
    /* Writes the properties of a device's pool. GM_NOT_SUPPORTED, which is remembered: device or driver cannot. */
    gm_status (*describe)(int device, CUmemPoolProps *props);
    /* Devices that get access when the pool is made, besides those with contexts; bit d = device d. May be NULL. */
    uint64_t (*reach)(int device);
    /* Told of each piece before it is handed out, under the capture guard with the request's context current. May be
     * NULL. */
    void (*served)(const struct gm_request *request, const struct gm_piece *piece);

    gm_spin lock;
    struct {
        CUmemoryPool pool;
        bool unsupported;
    } devices[GM_POOL_DEVICES];
    struct gm_deferred_queue after_capture; /* given back during a capture */
};

/* True when the request is of a kind that a pool serves, outside capture. */
GM_INTERNAL bool gm_pool_serves(const struct gm_request *request);
/* Serves it with piece->reserved bytes and writes piece->address; its context must be current. Errors:
 * GM_NOT_SUPPORTED, GM_OUT_OF_MEMORY after a trim and a second try, the driver's own; nothing is kept then. */
GM_INTERNAL gm_status gm_pool_alloc(struct gm_pool_family *family, const struct gm_request *request,
                                    struct gm_piece *piece);
GM_INTERNAL gm_status gm_pool_free(struct gm_pool_family *family, const struct gm_block *block,
                                   const struct gm_free_request *how);
/* Gives memory that the current device's pool keeps back to the driver, after waiting for the frees in flight. */
GM_INTERNAL size_t gm_pool_trim(struct gm_pool_family *family, size_t bytes);
/* Gives back what the device's pool can without waiting for work. */
GM_INTERNAL void gm_pool_give_idle(struct gm_pool_family *family, int device);
/* Bytes that the pools of all devices hold, in use or kept. */
GM_INTERNAL uint64_t gm_pool_reserved(struct gm_pool_family *family);
GM_INTERNAL void gm_pool_context_destroyed(struct gm_pool_family *family, uint64_t context_id);
/* Opens the pools of all devices to `device`. */
GM_INTERNAL void gm_pool_open_to(struct gm_pool_family *family, int device);
/* True when the address lies in one of the family's pools: where no block of the program lives there, its memory is
 * only kept. */
GM_INTERNAL bool gm_pool_holds(struct gm_pool_family *family, uint64_t address);
/* Frees what was given back during a capture, once none runs. */
GM_INTERNAL void gm_pool_flush(struct gm_pool_family *family);

#endif
