/* Adaptor "prime": before the first block it allocates BYTES and frees them again, so that a resource that keeps freed
 * memory, such as "async", starts with so much. Where this fails, the first block is allocated all the same. */
#include "shim/base/options.h"
#include "shim/resource/adaptor.h"
#include "shim/resource/rows.h"

struct state {
    uint64_t bytes;
    uint32_t primed;
};

static const struct gm_option argument_row = {.type = GM_OPTION_BYTES, .name = "prime", .initial = "1GiB"};

static void prime(struct gm_resource *self, const struct gm_request *request, const struct gm_decision *decision) {
    struct state *state = self->state;
    struct gm_request first = *request;
    struct gm_block block = {0};
    if (__atomic_exchange_n(&state->primed, 1, __ATOMIC_RELAXED))
        return;
    first.size = state->bytes;
    gm_status status = gm_adaptor_alloc(self, &first, decision, &block);
    if (status)
        gm_log(GM_LOG_WARN, "prime: %llu bytes cannot be allocated, the resource begins without them (error %d)",
               (unsigned long long)state->bytes, (int)status);
    else
        gm_adaptor_undo(self, &first, &block);
}

static gm_status prime_alloc(struct gm_resource *self, const struct gm_request *request,
                             const struct gm_decision *decision, struct gm_block *block) {
    struct state *state = self->state;
    if (GM_UNLIKELY(!__atomic_load_n(&state->primed, __ATOMIC_RELAXED)) && request->call != GM_CALL_ALLOC_PITCH)
        prime(self, request, decision);
    return gm_adaptor_alloc(self, request, decision, block);
}

const struct gm_resource_ops gm_resource_prime = {
    .name = "prime",
    .summary = "allocates and frees so many bytes before the first block: what the wrapped resource begins with",
    .properties = ~0u,
    .breaks = "",
    .adaptor = true,
    .arguments = "BYTES",
    .number = &argument_row,
    .state_size = sizeof(struct state),
    .alloc = prime_alloc,
    .free = gm_adaptor_free,
    .grow = gm_adaptor_grow,
};
