/* A cache for tests: its upstream hands out made-up addresses, and its driver is always idle. */
#ifndef IDLE_DRIVER_H
#define IDLE_DRIVER_H

#include "shim/base/base.h"
#include "shim/driver/driver.h"
#include "shim/resource/resource.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

static CUcontext current = (CUcontext)0x1000;
static size_t card_bytes = MIB * MIB;

static CUresult get_current(CUcontext *context) { return *context = current, CUDA_SUCCESS; }
static CUresult push(CUcontext context) { return (void)context, CUDA_SUCCESS; }
static CUresult pop(CUcontext *context) { return *context = current, CUDA_SUCCESS; }
static CUresult get_device(CUdevice *device) { return *device = 0, CUDA_SUCCESS; }
static CUresult exchange(CUstreamCaptureMode *mode) { return (void)mode, CUDA_SUCCESS; }
static CUresult get_info(size_t *free_bytes, size_t *total) { return *free_bytes = *total = card_bytes, CUDA_SUCCESS; }
static CUresult total_mem(size_t *total, CUdevice device) { return *total = card_bytes, (void)device, CUDA_SUCCESS; }
static CUresult create(CUevent *event, unsigned flags) {
    static uintptr_t made;
    return *event = (CUevent)__atomic_add_fetch(&made, 1, __ATOMIC_RELAXED), (void)flags, CUDA_SUCCESS;
}
static CUresult record(CUcontext context, CUevent event) { return (void)context, (void)event, CUDA_SUCCESS; }
static CUresult query(CUevent event) { return (void)event, CUDA_SUCCESS; }

/* ---- memory */

static size_t got, freed; /* bytes */

static gm_status bump(struct gm_resource *self, const struct gm_request *request, const struct gm_decision *decision,
                      struct gm_block *block) {
    static uint64_t next = 0x7d0000000000;
    block->address = __atomic_fetch_add(&next, request->size, __ATOMIC_RELAXED);
    block->reserved = request->size;
    __atomic_add_fetch(&got, request->size, __ATOMIC_RELAXED);
    return (void)self, GM_OK;
}
static gm_status forget(struct gm_resource *self, const struct gm_block *block, const struct gm_free_request *how) {
    __atomic_add_fetch(&freed, block->reserved, __ATOMIC_RELAXED);
    return (void)self, (void)how, GM_OK;
}

static struct gm_context contexts[2]; /* set by open_idle_cache; the first is current */

/* Builds the cache and the driver's table. NULL: there is no memory. */
static struct gm_resource *open_idle_cache(void) {
    static const struct gm_resource_ops row = {
        .name = "bump", .summary = "", .breaks = "", .properties = ~0u, .alloc = bump, .free = forget};
    static struct gm_resource maker = {.ops = &row, .properties = ~0u, .kind = GM_KIND_NATIVE};
    char error[200];
    gm_drv = (struct gm_driver){
        .ctx_get_current = get_current,
        .ctx_push = push,
        .ctx_pop = pop,
        .ctx_get_device = get_device,
        .thread_exchange_capture_mode = exchange,
        .mem_get_info = get_info,
        .device_total_mem = total_mem,
        .event_create = create,
        .event_query = query,
        .event_synchronize = query,
        .ctx_record_event = record,
    };
    struct gm_resource *cache = gm_resource_build("cache(sim)", error, sizeof error);
    if (cache)
        cache->upstream = &maker;
    current = (CUcontext)0x2000;
    bool known = gm_context_current(&contexts[1]);
    current = (CUcontext)0x1000;
    return gm_context_current(&contexts[0]) && known ? cache : NULL;
}

#endif
