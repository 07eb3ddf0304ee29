/* What serves the requests of the process: one maker for each kind, wrapped in the adaptors that the options select,
 * and the steps when memory is out. */
#include "shim/process/process.h"

#include <string.h>

#include "shim/base/options.h"
#include "shim/cache/mapped.h"
#include "shim/pipeline/pipeline.h"
#include "shim/placement/oom.h"
#include "shim/grow/grow.h"
#include "shim/pipeline/guard.h"
#include "shim/placement/router.h"
#include "shim/resource/rows.h"
#include "shim/resource/stack.h"
#include "shim/suspend/suspend.h"

static struct gm_resource *build_resource(const char *text) {
    char error[400];
    struct gm_resource *resource = gm_resource_build(text, error, sizeof(error));
    if (!resource)
        gm_log(GM_LOG_ERROR, "%s", error);
    return resource;
}

/* What every movable call promises. A stack keeps other promises or not; the router asks it. */
enum { NEEDED = GM_PROP_DEVICE_ACCESSIBLE | GM_PROP_READY_ANYWHERE };

static struct gm_resource *stacks_of_user[GM_KIND_COUNT];

/* The stack that the user names for a kind. NULL: none, or one that cannot serve a program, which is logged. */
static struct gm_resource *build_of_user(enum gm_option_id option) {
    const char *text = gm_option_text(option);
    const struct gm_option_label name = gm_option_label(option);
    char error[400];
    if (!text[0])
        return NULL;
    struct gm_resource *stack = gm_resource_build(text, error, sizeof(error));
    const char *lacks = stack ? gm_property_name(NEEDED & ~stack->properties) : NULL;
    if (stack && !lacks && stack->kind != GM_KIND_SIM && !gm_stack_find(stack, &gm_resource_router))
        return stack;
    if (!stack)
        gm_log(GM_LOG_ERROR, "%s: %s", name.text, error);
    else
        gm_log(GM_LOG_ERROR, "%s: \"%.80s\" cannot serve a program: %s%s", name.text, text,
               lacks ? "its memory is not " : "it has no memory of its own", lacks ? lacks : "");
    gm_stack_discard(stack);
    return NULL;
}

/* Puts the user's stacks in the place of the built-in ones. */
static void serve_by_users(void) {
    static const struct {
        enum gm_option_id option;
        enum gm_kind kind;
    } rows[] = {
        {GM_OPT_RESOURCE_NATIVE, GM_KIND_NATIVE},
        {GM_OPT_RESOURCE_ASYNC, GM_KIND_ASYNC},
        {GM_OPT_RESOURCE_MANAGED, GM_KIND_MANAGED},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct gm_resource *stack = build_of_user(rows[i].option);
        if (!stack)
            continue;
        if (rows[i].kind == GM_KIND_NATIVE)
            gm_router_call_natively(gm_router_server(GM_KIND_NATIVE));
        gm_router_serve(rows[i].kind, stack);
        if (rows[i].kind == GM_KIND_MANAGED) /* a policy chooses one of the two, as GPUMEM_MANAGED says */
            gm_router_serve(GM_KIND_MANAGED_POOL, stack);
        stacks_of_user[rows[i].kind] = stack;
    }
}

bool gm_process_tracks(void) {
    bool found = false;
    for (int kind = 0; kind < GM_KIND_COUNT; kind++)
        found |= gm_stack_find(stacks_of_user[kind], &gm_resource_track) != NULL;
    return found;
}

void gm_process_report_stacks(void) {
    for (int kind = 0; kind < GM_KIND_COUNT; kind++)
        GM_TELL(stacks_of_user[kind], report);
    gm_pipeline_report();
}

void gm_process_trim_managed(void) { gm_router_trim_kind(GM_KIND_MANAGED_POOL); }

/* GPUMEM_SUSPEND: in the place of native memory. The program's own call serves what cannot leave. */
static void serve_suspendable(void) {
    struct gm_resource *cache = build_resource("cache(suspendable)");
    gm_router_call_natively(gm_router_server(GM_KIND_NATIVE));
    gm_router_serve(GM_KIND_NATIVE, gm_router_server(GM_KIND_SUSPENDABLE));
    if (cache)
        gm_router_serve(GM_KIND_CACHE, cache);
}

struct gm_resource *gm_process_resources(const struct gm_policy *policy) {
    static const char *const fills[] = {"off", "zero", "poison"};
    unsigned long long nth = gm_option_number(GM_OPT_FAIL_NTH);
    uint64_t fill = gm_option_number(GM_OPT_FILL);
    char text[160] = "router", wrapped[160];

    for (const struct gm_resource_ops *const *row = gm_resource_rows; *row; row++)
        if ((*row)->serves)
            gm_router_serve((*row)->kind, build_resource((*row)->serves));
    serve_by_users();
    if (gm_suspend_start(fill || gm_guard_is_on() || gm_grow_mode > GM_GROW_REPORT))
        serve_suspendable();
    else if (policy->keeps_mapped)
        gm_router_serve(GM_KIND_MAPPED, gm_mapped_start());
    if (fill > 0 && fill < 3) {
        gm_format(wrapped, sizeof(wrapped), "fill(%s,%s)", fills[fill], text);
        strcpy(text, wrapped);
    }
    if (nth) {
        gm_format(wrapped, sizeof(wrapped), "fail-nth(%llu,%s)", nth, text);
        strcpy(text, wrapped);
    }
    return build_resource(text);
}

void gm_process_steps(void) {
    const char *initial = gm_option_rows[GM_OPT_OOM].initial;
    struct gm_oom_chain chain;
    char error[160];

    if (gm_oom_parse(gm_option_text(GM_OPT_OOM), &chain, error, sizeof(error)) != GM_OK) {
        gm_log(GM_LOG_WARN, "%s=%.80s: %s; using %s", gm_option_label(GM_OPT_OOM).text, gm_option_text(GM_OPT_OOM),
               error, initial);
        if (gm_oom_parse(initial, &chain, error, sizeof(error)) != GM_OK)
            return;
    }
    gm_router_set_steps(&chain);
}
