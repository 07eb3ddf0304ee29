/* Linked by add_kind.py with a copy of the sources that knows one kind more: everything follows from the two rows. */
#include <assert.h>
#include <string.h>

#include "shim/accounts/stats.h"
#include "shim/pipeline/pipeline.h"
#include "shim/placement/router.h"
#include "shim/resource/rows.h"

static void decide(const struct gm_request *request, struct gm_decision *decision) {
    decision->kind = GM_KIND_TOY;
    decision->reason = GM_REASON_POLICY;
}

static gm_status no_native(const struct gm_scope *scope, uint64_t key) { return GM_INVALID_VALUE; }

int main(void) {
    static const struct gm_policy policy = {.name = "toy", .decide = decide};
    char error[160];
    gm_stats_open("");
    for (const struct gm_resource_ops *const *row = gm_resource_rows; *row; row++)
        if ((*row)->serves)
            gm_router_serve((*row)->kind, gm_resource_build((*row)->serves, error, sizeof error));
    const struct gm_pipeline_setup setup = {.policy = &policy,
                                            .root = gm_resource_build("router", error, sizeof error)};
    gm_pipeline_setup(&setup);

    struct gm_scope scope;
    gm_scope_begin(&scope, GM_CALL_ALLOC, 4096, 0);
    scope.request.context = scope.request.context_id = 7;
    assert(gm_pipeline_alloc(&scope) == GM_OK);
    uint64_t address = scope.block.address;
    assert(scope.block.kind == GM_KIND_TOY && strcmp(gm_kind_name(GM_KIND_TOY), "toy") == 0);
    assert(strcmp(gm_kind_colour(GM_KIND_TOY), "#123456") == 0);
    assert(gm_stats_live_on_devices(gm_stats) == 4096 && gm_stats_mine()->moved == 1);

    gm_scope_begin(&scope, GM_CALL_FREE, 0, 0);
    assert(gm_pipeline_free(&scope, GM_ACT_FREE, address, no_native) == GM_OK);
    assert(gm_stats_live_on_devices(gm_stats) == 0);
    return 0;
}
