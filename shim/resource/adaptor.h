/* Default ops of an adaptor (resource.h): each calls the same op of the wrapped resource, its upstream, or of both
 * where the adaptor wraps two. A resource without the op does nothing and returns 0 or false. */
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
GM_INTERNAL gm_status gm_adaptor_grow(struct gm_resource *self, struct gm_block *block, size_t size);
GM_INTERNAL size_t gm_adaptor_trim(struct gm_resource *self, size_t bytes);
GM_INTERNAL size_t gm_adaptor_releasable(struct gm_resource *self, int device);
GM_INTERNAL void gm_adaptor_held(struct gm_resource *self, int device, uint64_t bytes[GM_REASON_COUNT]);
GM_INTERNAL bool gm_adaptor_keeps(struct gm_resource *self, uint64_t address);
GM_INTERNAL void gm_adaptor_after_fork(struct gm_resource *self);
GM_INTERNAL void gm_adaptor_context_ending(struct gm_resource *self, uint64_t context_id);
GM_INTERNAL void gm_adaptor_context_destroyed(struct gm_resource *self, uint64_t context_id);
GM_INTERNAL void gm_adaptor_capture(struct gm_resource *self, int change);
GM_INTERNAL void gm_adaptor_open_to(struct gm_resource *self, int device);
GM_INTERNAL void gm_adaptor_report(struct gm_resource *self);

/* Parses the argument of an adaptor that needs a number. The row has its type, the adaptor's name, the bounds of a
 * count, and as `initial` an argument for the error text. */
struct gm_option;
GM_INTERNAL gm_status gm_adaptor_number(const struct gm_option *row, const char *argument, uint64_t *number,
                                        char *error, size_t error_size);

/* The ops that adaptors only hand on. */
#define GM_ADAPTOR_HANDS_ON                                                                                 \
    .adaptor = true, .trim = gm_adaptor_trim, .releasable = gm_adaptor_releasable, .held = gm_adaptor_held, \
    .keeps = gm_adaptor_keeps, .context_ending = gm_adaptor_context_ending, .capture = gm_adaptor_capture,  \
    .open_to = gm_adaptor_open_to
/* Further ones, of an adaptor that remembers no block. */
#define GM_ADAPTOR_REMEMBERS_NONE .after_fork = gm_adaptor_after_fork, .context_destroyed = gm_adaptor_context_destroyed

/* ---- an adaptor that remembers live blocks: its state begins with their registry */

struct gm_registry;
static inline struct gm_registry *gm_adaptor_blocks(const struct gm_resource *self) {
    return *(struct gm_registry **)self->state;
}
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
