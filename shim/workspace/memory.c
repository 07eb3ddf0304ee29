/* The memory of a workspace: one allocation, obtained and freed in the order of the stream where the device has memory
 * pools. A stream-ordered free and allocation do not wait, and the pool may serve the second from the first. Without
 * pools cuMemFree waits for the work that may use the memory. Growth makes six driver calls. */
#include "shim/base/base.h"
#include "shim/driver/program_driver.h"
#include "shim/workspace/workspace.h"

void gm_workspace_probe_pools(struct gpumem_workspace *workspace) {
    const struct gm_driver *driver = gm_program_driver();
    int has = 0;
    workspace->has_pools =
        driver->mem_alloc_async && driver->mem_free_async &&
        !gm_drv.device_get_attribute(&has, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, workspace->context.device) &&
        has;
}

static void release(struct gpumem_workspace *workspace) {
    const struct gm_driver *driver = gm_program_driver();
    CUdeviceptr address = (CUdeviceptr)(uintptr_t)workspace->address;
    CUresult result = CUDA_SUCCESS;
    if (!workspace->address)
        return;
    if (workspace->foreign)
        workspace->foreign = false;
    else if (workspace->options.release)
        workspace->options.release(workspace->address, workspace->size, workspace->stream, workspace->options.user);
    else if (workspace->has_pools)
        result = GM_TWICE(driver->mem_free_async(address, workspace->stream));
    else
        result = GM_TWICE(driver->mem_free(address));
    if (result)
        gm_log(GM_LOG_ERROR, "a workspace of %zu bytes cannot be freed: CUresult %d", workspace->size, (int)result);
    workspace->address = NULL;
    workspace->size = 0;
}

static gm_status obtain(struct gpumem_workspace *workspace, size_t size) {
    const struct gm_driver *driver = gm_program_driver();
    CUdeviceptr address = 0;
    CUresult result = CUDA_SUCCESS;
    if (workspace->options.allocate) {
        address = (CUdeviceptr)(uintptr_t)workspace->options.allocate(size, workspace->stream, workspace->options.user);
        result = address ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    } else if (workspace->has_pools) {
        result = driver->mem_alloc_async(&address, size, workspace->stream);
    } else {
        result = driver->mem_alloc(&address, size);
    }
    if (result)
        return result;
    workspace->address = (char *)(uintptr_t)address;
    workspace->size = size;
    return GM_OK;
}

gm_status gm_workspace_renew(struct gpumem_workspace *workspace, size_t size) {
    CUstreamCaptureMode mode = gm_capture_relax(); /* other streams may be capturing */
    release(workspace);
    gm_status status = size ? obtain(workspace, size) : GM_OK;
    gm_capture_unrelax(mode);
    return status;
}

gm_status gm_workspace_order(struct gpumem_workspace *workspace, CUstream stream) {
    const struct gm_driver *driver = gm_program_driver();
    CUresult result = CUDA_SUCCESS;
    if (!workspace->order)
        result = driver->event_create(&workspace->order, CU_EVENT_DISABLE_TIMING);
    if (!result)
        result = driver->event_record(workspace->order, workspace->stream);
    if (!result)
        result = driver->stream_wait_event(stream, workspace->order, 0);
    return result;
}
