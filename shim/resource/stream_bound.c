/* Adaptor "stream-bound": allocates and frees everything in the order of one stream, also by the calls that name no
 * stream. The memory can be used without synchronisation on that stream only. */
#include "shim/resource/asked.h"
#include "shim/base/error.h"

#include <string.h>

#include "shim/resource/adaptor.h"
#include "shim/resource/rows.h"

enum { LEGACY = 1, PER_THREAD = 2 }; /* CU_STREAM_LEGACY, CU_STREAM_PER_THREAD */

struct state {
    uint64_t stream;
};

static bool parse_handle(const char *text, uint64_t *handle) {
    static const char digits[] = "0123456789abcdef";
    unsigned base = !strncmp(text, "0x", 2) ? 16 : 10;
    text += base == 16 ? 2 : 0;
    const char *begin = text;
    for (*handle = 0; *text; text++) {
        const char *digit = memchr(digits, *text, base);
        if (!digit || __builtin_mul_overflow(*handle, (uint64_t)base, handle) ||
            __builtin_add_overflow(*handle, (uint64_t)(digit - digits), handle))
            return false;
    }
    return text != begin;
}

static gm_status bound_open(struct gm_resource *self, const char *argument, char *error, size_t error_size) {
    struct state *state = self->state;
    if (argument && !strcmp(argument, "legacy"))
        state->stream = LEGACY;
    else if (argument && !strcmp(argument, "per-thread"))
        state->stream = PER_THREAD;
    else if (!argument || !parse_handle(argument, &state->stream))
        return gm_refuse(error, error_size, "\"%s\" is not a stream; accepted: legacy, per-thread, a handle as 0x...",
                         argument ? argument : "");
    return GM_OK;
}

uint64_t gm_stream_bound_to(const struct gm_resource *bound) { return ((const struct state *)bound->state)->stream; }

static gm_status bound_alloc(struct gm_resource *self, const struct gm_request *request,
                             const struct gm_decision *decision, struct gm_block *block) {
    struct gm_request ordered = *request;
    if (request->call != GM_CALL_ALLOC)
        return GM_NOT_SUPPORTED;
    ordered.call = GM_CALL_ALLOC_ASYNC;
    ordered.promises = GM_PROMISE_STREAM_ORDER | GM_PROMISE_DEVICE_ACCESS;
    ordered.stream = gm_stream_bound_to(self);
    return gm_adaptor_alloc(self, &ordered, decision, block);
}

/* A free that names another stream is a mistake of the program: work of both streams may use the memory. */
static gm_status bound_free(struct gm_resource *self, const struct gm_block *block, const struct gm_free_request *how) {
    struct gm_free_request ordered = {.call = GM_CALL_FREE_ASYNC, .stream = gm_stream_bound_to(self)};
    if (how->call == GM_CALL_FREE_ASYNC && how->stream != ordered.stream)
        ordered = (struct gm_free_request){.call = GM_CALL_FREE};
    return gm_adaptor_free(self, block, &ordered);
}

const struct gm_resource_ops gm_resource_stream_bound = {
    .name = "stream-bound",
    .summary = "allocates and frees in the order of one stream: legacy, per-thread or a handle",
    .properties = ~(uint32_t)(GM_PROP_READY_ANYWHERE | GM_PROP_STREAM_ORDERED | GM_PROP_CAPTURABLE | GM_PROP_GROWABLE),
    .needs = GM_PROP_STREAM_ORDERED,
    .breaks = "the memory can be used without synchronisation on that stream only",
    .adaptor = true,
    .arguments = "STREAM",
    .state_size = sizeof(struct state),
    .open = bound_open,
    .alloc = bound_alloc,
    .free = bound_free,
};
