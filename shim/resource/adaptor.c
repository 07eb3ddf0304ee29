/* Ops that pass a call on to the upstream resource (adaptor.h). */
#include "shim/resource/adaptor.h"

gm_status gm_adaptor_alloc(struct gm_resource *self, const struct gm_request *request,
                           const struct gm_decision *decision, struct gm_block *block) {
    gm_status status = self->upstream->ops->alloc(self->upstream, request, decision, block);
    if (!status)
        block->owner = self;
    return status;
}

gm_status gm_adaptor_free(struct gm_resource *self, const struct gm_block *block, const struct gm_free_request *how) {
    return self->upstream->ops->free(self->upstream, block, how);
}

size_t gm_adaptor_trim(struct gm_resource *self, size_t bytes) {
    struct gm_resource *upstream = self->upstream;
    return upstream->ops->trim ? upstream->ops->trim(upstream, bytes) : 0;
}

size_t gm_adaptor_releasable(struct gm_resource *self, int device) {
    struct gm_resource *upstream = self->upstream;
    return upstream->ops->releasable ? upstream->ops->releasable(upstream, device) : 0;
}

bool gm_adaptor_keeps(struct gm_resource *self, uint64_t address) {
    struct gm_resource *upstream = self->upstream;
    return upstream->ops->keeps && upstream->ops->keeps(upstream, address);
}

void gm_adaptor_after_fork(struct gm_resource *self) {
    struct gm_resource *upstream = self->upstream;
    if (upstream->ops->after_fork)
        upstream->ops->after_fork(upstream);
}

void gm_adaptor_context_ending(struct gm_resource *self, uint64_t context_id) {
    struct gm_resource *upstream = self->upstream;
    if (upstream->ops->context_ending)
        upstream->ops->context_ending(upstream, context_id);
}

void gm_adaptor_context_destroyed(struct gm_resource *self, uint64_t context_id) {
    struct gm_resource *upstream = self->upstream;
    if (upstream->ops->context_destroyed)
        upstream->ops->context_destroyed(upstream, context_id);
}

void gm_adaptor_capture(struct gm_resource *self, int change) {
    struct gm_resource *upstream = self->upstream;
    if (upstream->ops->capture)
        upstream->ops->capture(upstream, change);
}

void gm_adaptor_open_to(struct gm_resource *self, int device) {
    struct gm_resource *upstream = self->upstream;
    if (upstream->ops->open_to)
        upstream->ops->open_to(upstream, device);
}
