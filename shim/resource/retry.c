/* Adaptor "retry": where memory is out, it asks the program, which may free something, and tries again for as long as
 * the program says so. */
#include "shim/resource/asked.h"

#include "shim/resource/adaptor.h"
#include "shim/resource/rows.h"

struct state {
    int (*callback)(size_t bytes, void *user);
    void *user;
};

void gm_retry_by(struct gm_resource *retry, int (*callback)(size_t bytes, void *user), void *user) {
    *(struct state *)retry->state = (struct state){callback, user};
}

static gm_status retry_alloc(struct gm_resource *self, const struct gm_request *request,
                             const struct gm_decision *decision, struct gm_block *block) {
    const struct state *state = self->state;
    gm_status status = gm_adaptor_alloc(self, request, decision, block);
    while (status == GM_OUT_OF_MEMORY && state->callback && state->callback(request->size, state->user))
        status = gm_adaptor_alloc(self, request, decision, block);
    return status;
}

const struct gm_resource_ops gm_resource_retry = {
    .name = "retry",
    .summary = "asks the program where memory is out, and tries again (gpumem_resource_on_failure)",
    .properties = ~0u,
    .breaks = "",
    .adaptor = true,
    .state_size = sizeof(struct state),
    .alloc = retry_alloc,
    .free = gm_adaptor_free,
    .grow = gm_adaptor_grow,
};
