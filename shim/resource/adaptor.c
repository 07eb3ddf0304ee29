/* What adaptors share (adaptor.h). */
#include "shim/resource/adaptor.h"
#include "shim/base/error.h"

#include "shim/resource/kept.h"
#include "shim/resource/registry.h"

gm_status gm_adaptor_alloc(struct gm_resource *self, const struct gm_request *request,
                           const struct gm_decision *decision, struct gm_block *block) {
    gm_status status = gm_resource_alloc(self->upstream, request, decision, block);
    if (!status)
        block->owner = self;
    return status;
}

gm_status gm_adaptor_free(struct gm_resource *self, const struct gm_block *block, const struct gm_free_request *how) {
    return gm_resource_free(self->upstream, block, how);
}

void gm_adaptor_undo(struct gm_resource *self, const struct gm_request *request, const struct gm_block *block) {
    if (gm_resource_undo(self->upstream, request, block))
        gm_log(GM_LOG_ERROR, "%s: %zu bytes leak", self->ops->name, block->reserved);
}

gm_status gm_adaptor_grow(struct gm_resource *self, struct gm_block *block, size_t size) {
    struct gm_resource *upstream = self->upstream;
    return upstream->ops->grow ? upstream->ops->grow(upstream, block, size) : GM_NOT_SUPPORTED;
}

gm_status gm_adaptor_remember(struct gm_resource *self, const char *argument, char *error, size_t error_size) {
    self->blocks = gm_registry_new();
    if (!self->blocks)
        gm_format(error, error_size, "\"%s\": no memory", self->ops->name);
    return self->blocks ? GM_OK : GM_OUT_OF_MEMORY;
}

static void forget_block(const struct gm_block *block, void *arg) {}

void gm_adaptor_forget_all(struct gm_resource *self, uint64_t context_id) {
    gm_registry_drop_context(self->blocks, context_id, NULL, forget_block, NULL);
}

void gm_adaptor_forget_locks(struct gm_resource *self) { gm_registry_after_fork(self->blocks); }

void gm_adaptor_discard(struct gm_resource *self) { gm_registry_discard(self->blocks); }
