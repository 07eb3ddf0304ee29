/* Adaptor "limit": limits the live bytes of the wrapped resource. Above the limit a request fails with out of memory,
 * as on a smaller device. */
#include "shim/base/options.h"
#include "shim/base/error.h"
#include "shim/resource/adaptor.h"
#include "shim/resource/byte_counters.h"
#include "shim/resource/rows.h"

struct state {
    uint64_t bytes;
    struct gm_byte_counters live;
};

static const struct gm_option argument_row = {.type = GM_OPTION_BYTES, .name = "limit", .initial = "8GiB"};

static gm_status limit_open(struct gm_resource *self, const char *argument, char *error, size_t error_size) {
    if (!((struct state *)self->state)->bytes)
        return gm_refuse(error, error_size, "\"%s\" is not a limit: write at least 1 byte, or omit limit", argument);
    return GM_OK;
}

/* For the calls of gpumem_resource.h: the device has nothing to do with it. */
static gm_status full(const struct state *state) {
    *gm_error_by_author() = true;
    return gm_fail(GM_OUT_OF_MEMORY, "%llu bytes are the limit", (unsigned long long)state->bytes);
}

/* Counts the bytes before it allocates, so that parallel requests cannot exceed the limit together. Pitched memory may
 * be larger than its rows; the difference is counted after the allocation. */
static gm_status limit_alloc(struct gm_resource *self, const struct gm_request *request,
                             const struct gm_decision *decision, struct gm_block *block) {
    struct state *state = self->state;
    struct gm_block got = *block;
    if (!gm_byte_counters_add(&state->live, request->context_id, request->size, state->bytes))
        return full(state);
    *gm_error_by_author() = false; /* set where an earlier attempt was refused */
    gm_status status = gm_adaptor_alloc(self, request, decision, &got);
    size_t more = !status && got.reserved > request->size ? got.reserved - request->size : 0;
    if (more && !gm_byte_counters_add(&state->live, request->context_id, more, state->bytes)) {
        gm_adaptor_undo(self, request, &got);
        status = full(state);
    }
    if (status)
        gm_byte_counters_subtract(&state->live, request->context_id, request->size);
    else
        *block = got;
    return status;
}

static uint64_t taken_by(const struct gm_block *block) {
    return block->reserved > block->size ? block->reserved : block->size;
}

static gm_status limit_free(struct gm_resource *self, const struct gm_block *block, const struct gm_free_request *how) {
    struct state *state = self->state;
    gm_status status = gm_adaptor_free(self, block, how);
    if (!status)
        gm_byte_counters_subtract(&state->live, block->context_id, taken_by(block));
    return status;
}

/* Counts the whole step in advance: the upstream rounds it up by less than its granularity, which may exceed the limit.
 */
static gm_status limit_grow(struct gm_resource *self, struct gm_block *block, size_t size) {
    struct state *state = self->state;
    uint64_t before = taken_by(block), step = size > before ? size - before : 0;
    if (step && !gm_byte_counters_add(&state->live, block->context_id, step, state->bytes))
        return full(state);
    gm_status status = gm_adaptor_grow(self, block, size);
    if (status)
        gm_byte_counters_subtract(&state->live, block->context_id, step);
    else if (taken_by(block) > before + step)
        gm_byte_counters_add(&state->live, block->context_id, taken_by(block) - before - step, UINT64_MAX);
    return status;
}

static void limit_context_destroyed(struct gm_resource *self, uint64_t context_id) {
    struct state *state = self->state;
    gm_byte_counters_forget(&state->live, context_id);
}

static void limit_after_fork(struct gm_resource *self) { ((struct state *)self->state)->live.lock.held = 0; }

const struct gm_resource_ops gm_resource_limit = {
    .name = "limit",
    .summary = "fails with out of memory above this number of live bytes of the wrapped resource",
    .properties = ~0u,
    .breaks = "a block freed in stream order stops counting at the call, before the stream has reached it",
    .adaptor = true,
    .arguments = "BYTES",
    .number = &argument_row,
    .state_size = sizeof(struct state),
    .open = limit_open,
    .alloc = limit_alloc,
    .free = limit_free,
    .after_fork = limit_after_fork,
    .context_destroyed = limit_context_destroyed,
    .grow = limit_grow,
};
