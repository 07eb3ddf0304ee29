/* Resource "native": passes each request to the same driver call that the program made. It adds no guard and no wait,
 * so results and errors are those of the driver. */
#include "shim/driver/driver.h"
#include "shim/resource/block.h"
#include "shim/resource/rows.h"

static gm_status alloc_pitch(const struct gm_request *request, struct gm_piece *piece) {
    CUdeviceptr address;
    size_t pitch;
    gm_status status =
        (gm_status)gm_drv.mem_alloc_pitch(&address, &pitch, request->width, request->height, request->element_size);
    if (!status)
        *piece = (struct gm_piece){address, pitch * request->height, pitch};
    return status;
}

static gm_status alloc_plain(const struct gm_request *request, struct gm_piece *piece) {
    CUdeviceptr address;
    gm_status status = gm_drv.mem_alloc(&address, request->size);
    if (!status)
        *piece = (struct gm_piece){address, request->size, 0};
    return status;
}

static gm_status alloc_async(const struct gm_request *request, struct gm_piece *piece) {
    __typeof__(gm_drv.mem_alloc_async) alloc =
        request->per_thread ? gm_drv.mem_alloc_async_ptsz : gm_drv.mem_alloc_async;
    CUdeviceptr address;
    if (!alloc)
        return GM_NOT_SUPPORTED;
    gm_status status = alloc(&address, request->size, (CUstream)request->stream);
    if (!status)
        *piece = (struct gm_piece){address, request->size, 0};
    return status;
}

static gm_status native_alloc(struct gm_resource *self, const struct gm_request *request,
                              const struct gm_decision *decision, struct gm_block *block) {
    struct gm_piece piece;
    gm_status status;
    if (!gm_driver_ready(true))
        return GM_NOT_INITIALIZED;
    switch (request->call) {
    case GM_CALL_ALLOC: status = alloc_plain(request, &piece); break;
    case GM_CALL_ALLOC_PITCH: status = alloc_pitch(request, &piece); break;
    case GM_CALL_ALLOC_ASYNC: status = alloc_async(request, &piece); break;
    default: return GM_NOT_SUPPORTED;
    }
    if (!status)
        gm_block_fill(block, self, request, &piece);
    return status;
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
