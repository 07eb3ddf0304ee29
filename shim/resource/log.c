/* Adaptor "log": writes one line to the log for each allocation, growth and free of the wrapped resource. The lines
 * have level warn, so that they show by default: the user named the adaptor. */
#include "shim/resource/adaptor.h"
#include "shim/resource/rows.h"

static gm_status log_alloc(struct gm_resource *self, const struct gm_request *request,
                           const struct gm_decision *decision, struct gm_block *block) {
    gm_status status = gm_adaptor_alloc(self, request, decision, block);
    if (status)
        gm_log(GM_LOG_WARN, "%s: %s of %zu bytes on device %d: error %d", self->upstream->ops->name,
               gm_call_name(request->call), request->size, request->device, status);
    else
        gm_log(GM_LOG_WARN, "%s: %s of %zu bytes on device %d: %p", self->upstream->ops->name,
               gm_call_name(request->call), request->size, request->device, (void *)(uintptr_t)block->address);
    return status;
}

static void log_end(struct gm_resource *self, const char *what, const struct gm_block *block, gm_status status) {
    char error[32] = "";
    if (status)
        gm_format(error, sizeof error, ": error %d", status);
    gm_log(GM_LOG_WARN, "%s: %s of %zu bytes at %p%s", self->upstream->ops->name, what, block->size,
           (void *)(uintptr_t)block->address, error);
}

static gm_status log_free(struct gm_resource *self, const struct gm_block *block, const struct gm_free_request *how) {
    gm_status status = gm_adaptor_free(self, block, how);
    log_end(self, gm_call_name(how->call), block, status);
    return status;
}

static gm_status log_grow(struct gm_resource *self, struct gm_block *block, size_t size) {
    gm_status status = gm_adaptor_grow(self, block, size);
    log_end(self, "growth", block, status);
    return status;
}

const struct gm_resource_ops gm_resource_log = {
    .name = "log",
    .summary = "writes a line to the log for each allocation and free of the wrapped resource",
    .properties = ~0u,
    .breaks = "each line is one write to standard error",
    .adaptor = true,
    .alloc = log_alloc,
    .free = log_free,
    .grow = log_grow,
};
