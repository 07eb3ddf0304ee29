#include "shim/resource/adaptor.h"

gm_status gm_adaptor_alloc(struct gm_resource *self, const struct gm_request *request, struct gm_block *block) {
    gm_status status = self->upstream->row->alloc(self->upstream, request, block);
    if (!status)
        block->owner = self;
    return status;
}

gm_status gm_adaptor_free(struct gm_resource *self, const struct gm_block *block, const struct gm_free_request *how) {
    return self->upstream->row->free(self->upstream, block, how);
}

size_t gm_adaptor_trim(struct gm_resource *self, size_t bytes) {
    struct gm_resource *upstream = self->upstream;
    return upstream->row->trim ? upstream->row->trim(upstream, bytes) : 0;
}

size_t gm_adaptor_releasable(struct gm_resource *self, int device) {
    struct gm_resource *upstream = self->upstream;
    return upstream->row->releasable ? upstream->row->releasable(upstream, device) : 0;
}

bool gm_adaptor_keeps(struct gm_resource *self, uint64_t address) {
    struct gm_resource *upstream = self->upstream;
    return upstream->row->keeps && upstream->row->keeps(upstream, address);
}

void gm_adaptor_after_fork(struct gm_resource *self) {
    struct gm_resource *upstream = self->upstream;
    if (upstream->row->after_fork)
        upstream->row->after_fork(upstream);
}

void gm_adaptor_context_gone(struct gm_resource *self, uint64_t context_id) {
    struct gm_resource *upstream = self->upstream;
    if (upstream->row->context_gone)
        upstream->row->context_gone(upstream, context_id);
}

void gm_adaptor_capture(struct gm_resource *self, int change) {
    struct gm_resource *upstream = self->upstream;
    if (upstream->row->capture)
        upstream->row->capture(upstream, change);
}

void gm_adaptor_peer_enabled(struct gm_resource *self, int device, int peer) {
    struct gm_resource *upstream = self->upstream;
    if (upstream->row->peer_enabled)
        upstream->row->peer_enabled(upstream, device, peer);
}
