/* Adaptor "fail-nth": the N-th allocation fails with out of memory, all others pass. With N = 1, 2, 3 ... one can test
 * how a program handles each failure. */
#include "shim/base/options.h"
#include "shim/resource/adaptor.h"
#include "shim/resource/rows.h"

struct state {
    uint64_t number; /* of the allocation that fails, from 1 */
    uint64_t seen;
};

static const struct gm_option argument_row = {
    .type = GM_OPTION_COUNT, .name = "fail-nth", .initial = "3", .low = 1, .high = UINT64_MAX};

static gm_status fail_nth_alloc(struct gm_resource *self, const struct gm_request *request,
                                const struct gm_decision *decision, struct gm_block *block) {
    struct state *state = self->state;
    if (__atomic_add_fetch(&state->seen, 1, __ATOMIC_RELAXED) == state->number)
        return GM_OUT_OF_MEMORY;
    return gm_adaptor_alloc(self, request, decision, block);
}

const struct gm_resource_ops gm_resource_fail_nth = {
    .name = "fail-nth",
    .summary = "the N-th allocation, counted from 1, fails with out of memory; all others pass",
    .properties = ~0u,
    .breaks = "",
    .adaptor = true,
    .arguments = "N",
    .number = &argument_row,
    .state_size = sizeof(struct state),
    .alloc = fail_nth_alloc,
    .free = gm_adaptor_free,
    .grow = gm_adaptor_grow,
};
