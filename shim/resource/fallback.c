/* Adaptor "fallback": wraps two resources. The second serves what the first cannot: it is out of memory, or it does not
 * support the request. Any other error reaches the program.
 *
 * It remembers the live blocks of the second resource. */
#include "shim/base/error.h"
#include "shim/resource/adaptor.h"
#include "shim/resource/registry.h"
#include "shim/resource/rows.h"

static void free_in_second(struct gm_resource *self, const struct gm_request *request, const struct gm_block *block) {
    struct gm_resource only = {.ops = self->ops, .upstream = self->second};
    gm_adaptor_undo(&only, request, block);
}

static gm_status serve_by_second(struct gm_resource *self, const struct gm_request *request,
                                 const struct gm_decision *decision, struct gm_block *block) {
    struct gm_block got = *block;
    *gm_error_by_author() = false; /* of the first one */
    gm_status status = gm_resource_alloc(self->second, request, decision, &got);
    if (status)
        return status;
    if (gm_registry_add(self->blocks, &got, NULL)) {
        free_in_second(self, request, &got);
        return GM_OUT_OF_MEMORY;
    }
    got.owner = self;
    *block = got;
    return GM_OK;
}

static gm_status fallback_alloc(struct gm_resource *self, const struct gm_request *request,
                                const struct gm_decision *decision, struct gm_block *block) {
    gm_status status = gm_adaptor_alloc(self, request, decision, block);
    return status == GM_OUT_OF_MEMORY || status == GM_NOT_SUPPORTED ? serve_by_second(self, request, decision, block)
                                                                    : status;
}

static gm_status fallback_free(struct gm_resource *self, const struct gm_block *block,
                               const struct gm_free_request *how) {
    struct gm_block own;
    if (!gm_registry_take(self->blocks, block->address, &own))
        return gm_adaptor_free(self, block, how);
    own.pinned_native = block->pinned_native;
    gm_status status = gm_resource_free(self->second, &own, how);
    if (status)
        gm_registry_add(self->blocks, &own, NULL);
    return status;
}

static gm_status fallback_grow(struct gm_resource *self, struct gm_block *block, size_t size) {
    struct gm_block own;
    if (!gm_registry_take(self->blocks, block->address, &own))
        return gm_adaptor_grow(self, block, size);
    gm_status status = self->second->ops->grow(self->second, &own, size);
    gm_registry_add(self->blocks, &own, NULL);
    block->size = own.size;
    block->reserved = own.reserved;
    return status;
}

const struct gm_resource_ops gm_resource_fallback = {
    .name = "fallback",
    .summary = "the second resource serves what the first cannot: out of memory, or not supported",
    .properties = ~0u,
    .breaks = "its memory has only the properties that both have",
    .adaptor = true,
    .two = true,
    .needs = GM_PROP_READY_ANYWHERE,
    .open = gm_adaptor_remember,
    .alloc = fallback_alloc,
    .free = fallback_free,
    .grow = fallback_grow,
    GM_ADAPTOR_REMEMBERS,
};
