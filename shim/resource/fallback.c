/* Adaptor "fallback": wraps two resources. The second serves what the first cannot: it is out of memory, or it does not
 * support the request. Any other error reaches the program. */
#include "shim/resource/adaptor.h"
#include "shim/resource/registry.h"
#include "shim/resource/rows.h"

struct state {
    struct gm_registry *of_second; /* live blocks of the second resource */
};

static gm_status fallback_open(struct gm_resource *self, const char *argument, char *error, size_t error_size) {
    struct state *state = self->state;
    state->of_second = gm_registry_new();
    if (!state->of_second)
        gm_format(error, error_size, "\"fallback\": no memory");
    return state->of_second ? GM_OK : GM_OUT_OF_MEMORY;
}

static void fallback_close(struct gm_resource *self) { gm_registry_discard(((struct state *)self->state)->of_second); }

static void free_in_second(struct gm_resource *self, const struct gm_request *request, const struct gm_block *block) {
    struct gm_resource only = {.ops = self->ops, .upstream = self->second};
    gm_adaptor_undo(&only, request, block);
}

static gm_status serve_by_second(struct gm_resource *self, const struct gm_request *request,
                                 const struct gm_decision *decision, struct gm_block *block) {
    struct state *state = self->state;
    struct gm_block got = *block;
    gm_status status = self->second->ops->alloc(self->second, request, decision, &got);
    if (status)
        return status;
    if (gm_registry_add(state->of_second, &got, NULL)) {
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
    struct state *state = self->state;
    struct gm_block own;
    if (!gm_registry_take(state->of_second, block->address, &own))
        return gm_adaptor_free(self, block, how);
    own.pinned_native = block->pinned_native;
    gm_status status = self->second->ops->free(self->second, &own, how);
    if (status)
        gm_registry_add(state->of_second, &own, NULL);
    return status;
}

static gm_status fallback_grow(struct gm_resource *self, struct gm_block *block, size_t size) {
    struct state *state = self->state;
    struct gm_block own;
    if (!gm_registry_take(state->of_second, block->address, &own))
        return gm_adaptor_grow(self, block, size);
    gm_status status = self->second->ops->grow(self->second, &own, size);
    gm_registry_add(state->of_second, &own, NULL);
    block->size = own.size;
    block->reserved = own.reserved;
    return status;
}

static void forget(const struct gm_block *block, void *arg) {}

static void fallback_context_destroyed(struct gm_resource *self, uint64_t context_id) {
    gm_registry_drop_context(((struct state *)self->state)->of_second, context_id, NULL, forget, NULL);
    gm_adaptor_context_destroyed(self, context_id);
}

static void fallback_after_fork(struct gm_resource *self) {
    gm_registry_after_fork(((struct state *)self->state)->of_second);
    gm_adaptor_after_fork(self);
}

const struct gm_resource_ops gm_resource_fallback = {
    .name = "fallback",
    .summary = "the second resource serves what the first cannot: out of memory, or not supported",
    .properties = ~0u,
    .breaks = "its memory has only the properties that both have",
    .two = true,
    .needs = GM_PROP_READY_ANYWHERE,
    .state_size = sizeof(struct state),
    .open = fallback_open,
    .alloc = fallback_alloc,
    .free = fallback_free,
    .grow = fallback_grow,
    .after_fork = fallback_after_fork,
    .context_destroyed = fallback_context_destroyed,
    .report = gm_adaptor_report,
    .close = fallback_close,
    GM_ADAPTOR_HANDS_ON,
};
