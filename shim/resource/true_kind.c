/* A cache over memory that is not native: blocks keep the kind of the maker that the cache wraps.
 *
 * A pair of a managed pool's own calls costs about 1 us, and a fence for each free 0.3 us more; a kept block costs
 * neither. The kept bytes stay charged with the maker, so that the rule of managed memory (managed.h) counts them. A
 * pool gives memory back in pieces of its own size, and managed memory need not lie on the device: how much a program
 * could have back is known only once it is given back. So a question for free memory gives back what nobody uses any
 * more, and the driver's answer is true. */
#include "shim/resource/adaptor.h"
#include "shim/cache/cache.h"
#include "shim/resource/rows.h"

static gm_status true_kind_alloc(struct gm_resource *self, const struct gm_request *request, struct gm_block *block) {
    gm_status status = gm_adaptor_alloc(self, request, block);
    if (!status)
        block->kind = (uint8_t)self->kind;
    return status;
}

static size_t true_kind_releasable(struct gm_resource *self, int device) {
    return self->upstream->ops == &gm_resource_cache ? gm_cache_give_ready(self->upstream, device)
                                                     : gm_adaptor_releasable(self, device);
}

const struct gm_resource_ops gm_resource_true_kind = {
    .name = "true-kind",
    .summary =
        "blocks of the wrapped cache under the kind of its maker; a question for free memory gives back what it keeps",
    .properties = ~0u,
    .breaks = "",
    .adaptor = true,
    .alloc = true_kind_alloc,
    .free = gm_adaptor_free,
    .trim = gm_adaptor_trim,
    .releasable = true_kind_releasable,
    .keeps = gm_adaptor_keeps,
    .context_destroyed = gm_adaptor_context_destroyed,
    .capture = gm_adaptor_capture,
    .open_to = gm_adaptor_open_to,
    .after_fork = gm_adaptor_after_fork,
};
