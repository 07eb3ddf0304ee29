/* Private memory pools of the driver that replace plain allocation. Resources "async" and "managed-pool" share this
 * code.
 *
 * By default a pool follows events and inserts dependencies, so its memory is usable only in the order of one stream.
 * The pools here do neither: they reuse memory only after its free is complete (opportunistic reuse). So their memory
 * is usable on every stream:
 *  - An allocation runs on an internal stream that never waits, and returns when it is complete.
 *  - A free returns at once. The block returns to the pool when all work that may use it is done (deferred_free.h). No
 *    stream waits for that work: such a wait would count as work of the context, and the work of another device may
 *    need the next call of this thread.
 *  - A request in stream order runs on the program's own stream.
 *
 * A pool serves only where all devices can access each other (reach.h). Every device with a context has access to it.
 */
#ifndef GM_RESOURCE_POOL_H
#define GM_RESOURCE_POOL_H

#include "shim/resource/block.h"
#include "shim/driver/internal_stream.h"
#include "shim/resource/deferred_free.h"

#define GM_POOL_DEVICES 64

/* One kind of pool. The process has one pool of it for each device. */
struct gm_pool_family {
    const char *name;
    enum gm_kind kind;
    /* Writes the properties of a pool of the device. GM_NOT_SUPPORTED: device or driver has no such pools; the answer
     * is cached. */
    gm_status (*describe)(int device, CUmemPoolProps *props);
    /* Devices that get access when the pool is created, besides those with contexts; bit d = device d. May be NULL. */
    uint64_t (*reach)(int device);
    /* Called for each new piece before the program gets it, under the capture guard and with the request's context
     * current. May be NULL. */
    void (*served)(const struct gm_request *request, const struct gm_piece *piece);

    gm_spin lock;
    struct {
        CUmemoryPool pool;
        bool unsupported;
        unsigned in_order; /* allocations */
        uint64_t counted;  /* bytes that gm_pool_resized counted */
        struct gm_deferred_free frees;
    } devices[GM_POOL_DEVICES];
};

/* The pools are the parent's. */
#define GM_POOLS_IN_CHILD(family)  \
    GM_ZERO_IN_CHILD(family.lock); \
    GM_ZERO_IN_CHILD(family.devices)

/* True when a pool can serve the request; never during a capture. */
GM_INTERNAL bool gm_pool_serves(const struct gm_request *request);
/* Allocates piece->reserved bytes for the request and writes piece->address. The request's context must be current.
 * Errors: GM_NOT_SUPPORTED; GM_OUT_OF_MEMORY after a trim and a second try; the driver's own. After an error nothing
 * stays allocated. */
GM_INTERNAL gm_status gm_pool_alloc(struct gm_pool_family *family, const struct gm_request *request,
                                    struct gm_piece *piece);
/* Waits for the frees of the current device that wait, then releases up to `bytes` of unused memory of the current
 * device's pool to the driver. Returns the bytes released. */
GM_INTERNAL size_t gm_pool_release(struct gm_pool_family *family, size_t bytes);
/* Bytes that the pools of all devices hold, live or unused. */
GM_INTERNAL uint64_t gm_pool_reserved(struct gm_pool_family *family);

/* ---- ops (resource.h) of a resource whose ops name the family as `pool` */

/* Errors: GM_NOT_INITIALIZED without a driver, GM_INVALID_VALUE for another call, the driver's own. */
GM_INTERNAL gm_status gm_pool_free(struct gm_resource *self, const struct gm_block *block,
                                   const struct gm_free_request *how);
GM_INTERNAL size_t gm_pool_trim(struct gm_resource *self, size_t bytes);
GM_INTERNAL size_t gm_pool_lend(struct gm_resource *self, size_t bytes);
/* Releases unused memory of the device's pool to the driver without waiting for work. Returns the unused bytes that the
 * pool still holds; they serve its next blocks. */
GM_INTERNAL size_t gm_pool_releasable(struct gm_resource *self, int device);
/* The unused bytes of the device's pool lie in pages with live blocks. */
GM_INTERNAL void gm_pool_held(struct gm_resource *self, int device, uint64_t bytes[GM_REASON_COUNT]);
GM_INTERNAL bool gm_pool_keeps(struct gm_resource *self, uint64_t address);
/* The end of captures returns the blocks whose work is done to the pools. */
GM_INTERNAL void gm_pool_capture(struct gm_resource *self, int change);
/* Opens the pools of all devices to `device`. */
GM_INTERNAL void gm_pool_open_to(struct gm_resource *self, int device);

#endif
