/* Resource "native": passes each request to the same driver call that the program made. It adds no guard and no wait,
 * so results and errors are those of the driver. */
#include "shim/driver/driver.h"
#include "shim/resource/block.h"
#include "shim/resource/rows.h"

static gm_status alloc_async(const struct gm_request *request, CUdeviceptr *address) {
    __typeof__(gm_drv.mem_alloc_async) alloc =
        request->per_thread ? gm_drv.mem_alloc_async_ptsz : gm_drv.mem_alloc_async;
    return alloc ? (gm_status)alloc(address, request->size, (CUstream)request->stream) : GM_NOT_SUPPORTED;
}

static gm_status native_alloc(struct gm_resource *self, const struct gm_request *request,
                              const struct gm_decision *decision, struct gm_block *block) {
    struct gm_piece piece = {.reserved = request->size};
    CUdeviceptr address = 0;
    gm_status status;
    if (!gm_driver_ready(true))
        return GM_NOT_INITIALIZED;
    switch (request->call) {
    case GM_CALL_ALLOC: status = gm_drv.mem_alloc(&address, request->size); break;
    case GM_CALL_ALLOC_PITCH:
        status = gm_drv.mem_alloc_pitch(&address, &piece.pitch, request->width, request->height, request->element_size);
        piece.reserved = piece.pitch * request->height;
        break;
    case GM_CALL_ALLOC_ASYNC: status = alloc_async(request, &address); break;
    default: return GM_NOT_SUPPORTED;
    }
    if (status)
        return status;
    piece.address = address;
    gm_block_fill(block, self, request, &piece);
    return GM_OK;
}

static gm_status native_free(struct gm_resource *self, const struct gm_block *block,
                             const struct gm_free_request *how) {
    if (!gm_driver_ready(true))
        return GM_NOT_INITIALIZED;
    if (how->call == GM_CALL_FREE)
        return gm_drv.mem_free(block->address);
    if (how->call != GM_CALL_FREE_ASYNC)
        return GM_INVALID_VALUE;
    __typeof__(gm_drv.mem_free_async) release = how->per_thread ? gm_drv.mem_free_async_ptsz : gm_drv.mem_free_async;
    return release ? (gm_status)release(block->address, (CUstream)how->stream) : GM_NOT_SUPPORTED;
}

const struct gm_resource_ops gm_resource_native = {
    .name = "native",
    .summary = "the same memory as the program's own call",
    .properties = GM_PROP_DEVICE_ACCESSIBLE | GM_PROP_RESIDENT | GM_PROP_DEVICE_STORAGE | GM_PROP_READY_ANYWHERE |
                  GM_PROP_STREAM_ORDERED | GM_PROP_CAPTURABLE | GM_PROP_IPC | GM_PROP_PEER | GM_PROP_RDMA,
    .breaks = "",
    .kind = GM_KIND_NATIVE,
    .serves = "native",
    .page = (size_t)2 << 20, /* smaller blocks share pages */
    .alloc = native_alloc,
    .free = native_free,
};
