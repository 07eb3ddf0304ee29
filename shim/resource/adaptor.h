/* What adaptors share. Their ops alloc, free and grow call those of the wrapped resource, the upstream. The other ops
 * act on the adaptor alone: whoever calls one calls it for each resource of the stack (GM_TELL in resource.h). */
#ifndef GM_RESOURCE_ADAPTOR_H
#define GM_RESOURCE_ADAPTOR_H

#include "shim/base/base.h"
#include "shim/resource/resource.h"

/* Allocates upstream. Makes the adaptor the owner of the block. */
GM_INTERNAL gm_status gm_adaptor_alloc(struct gm_resource *self, const struct gm_request *request,
                                       const struct gm_decision *decision, struct gm_block *block);
/* Frees upstream. */
GM_INTERNAL gm_status gm_adaptor_free(struct gm_resource *self, const struct gm_block *block,
                                      const struct gm_free_request *how);
/* Frees a block that was just allocated for `request`, because the adaptor cannot serve it after all. */
GM_INTERNAL void gm_adaptor_undo(struct gm_resource *self, const struct gm_request *request,
                                 const struct gm_block *block);
/* Grows upstream. GM_NOT_SUPPORTED: it cannot. */
GM_INTERNAL gm_status gm_adaptor_grow(struct gm_resource *self, struct gm_block *block, size_t size);

/* ---- an adaptor that remembers live blocks, in self->blocks */

/* Its op open, or a part of it. GM_OUT_OF_MEMORY, with a text: there is no memory. */
GM_INTERNAL gm_status gm_adaptor_remember(struct gm_resource *self, const char *argument, char *error,
                                          size_t error_size);
GM_INTERNAL void gm_adaptor_forget_all(struct gm_resource *self, uint64_t context_id);
/* The child has the parent's device memory no more than its context. */
GM_INTERNAL void gm_adaptor_forget_locks(struct gm_resource *self);
GM_INTERNAL void gm_adaptor_discard(struct gm_resource *self);
#define GM_ADAPTOR_REMEMBERS \
    .after_fork = gm_adaptor_forget_locks, .context_destroyed = gm_adaptor_forget_all, .close = gm_adaptor_discard

#endif
