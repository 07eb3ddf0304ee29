#include "shim/placement/oom.h"

#include <string.h>

#include "shim/base/stats.h"
#include "shim/placement/router.h"

static const char *const names[GM_OOM_STEPS] = {"trim", "host", "managed", "fail"};
static struct gm_oom_chain chain = {.count = 1, .steps = {GM_OOM_TRIM}};

void (*gm_oom_on_trim)(const struct gm_request *request, size_t given);

void gm_oom_set(const struct gm_oom_chain *wanted) { chain = *wanted; }

/* ---- the option's text */

static int find_step(const char *word, size_t length) {
    for (int step = 0; step < GM_OOM_STEPS; step++)
        if (strlen(names[step]) == length && !memcmp(names[step], word, length))
            return step;
    return -1;
}

gm_status gm_oom_parse(const char *text, struct gm_oom_chain *out, char *error, size_t error_size) {
    struct gm_oom_chain read = {0};
    unsigned seen = 0;
    for (const char *word = text;;) {
        size_t space = strspn(word, " "), length = strcspn(word += space, ", ");
        const char *end = word + length + strspn(word + length, " ");
        int step = find_step(word, length), shown = length > 40 ? 40 : (int)length;
        if (step < 0 || (*end && *end != ',')) {
            gm_format(error, error_size, "\"%.*s\" is not a step; accepted: trim, host, managed, fail", shown, word);
            return GM_INVALID_VALUE;
        }
        if (seen & 1u << step) {
            gm_format(error, error_size, "\"%s\" is named twice; accepted: each of trim, host, managed, fail once",
                      names[step]);
            return GM_INVALID_VALUE;
        }
        if (seen & 1u << GM_OOM_FAIL) {
            gm_format(error, error_size, "\"%s\" stands behind fail, which ends the steps", names[step]);
            return GM_INVALID_VALUE;
        }
        seen |= 1u << step;
        read.steps[read.count++] = (enum gm_oom_step)step;
        if (!*end)
            break;
        word = end + 1;
    }
    *out = read;
    return GM_OK;
}

/* ---- the steps */

static gm_status trim_and_retry(struct gm_resource *root, const struct gm_request *request, enum gm_reason reason,
                                struct gm_block *block) {
    struct gm_resource *native = gm_router_server(GM_KIND_NATIVE);
    if (request->beyond_limit || !native)
        return GM_OUT_OF_MEMORY;
    size_t given = root->ops->trim(root, SIZE_MAX);
    if (gm_oom_on_trim)
        gm_oom_on_trim(request, given);
    gm_status status = given ? native->ops->alloc(native, request, block) : GM_OUT_OF_MEMORY;
    if (!status)
        block->reason = (uint8_t)reason;
    return status;
}

/* A tier that cannot serve is no failure of the request: the next step is asked. */
static gm_status serve_elsewhere(enum gm_kind kind, const struct gm_request *request, struct gm_block *block) {
    struct gm_resource *server = gm_router_server(kind);
    if (!server || request->capturing || !gm_resource_keeps(server->properties, request) ||
        server->ops->alloc(server, request, block) != GM_OK)
        return GM_OUT_OF_MEMORY;
    block->reason = GM_REASON_OUT_OF_MEMORY;
    return GM_OK;
}

gm_status gm_oom_serve(struct gm_resource *root, const struct gm_request *request, enum gm_reason reason,
                       struct gm_block *block) {
    gm_status status = GM_OUT_OF_MEMORY;
    for (unsigned i = 0; i < chain.count && status == GM_OUT_OF_MEMORY && chain.steps[i] != GM_OOM_FAIL; i++) {
        gm_stats_oom_step();
        switch (chain.steps[i]) {
        case GM_OOM_TRIM: status = trim_and_retry(root, request, reason, block); break;
        case GM_OOM_HOST: status = serve_elsewhere(GM_KIND_HOST_NUMA, request, block); break;
        case GM_OOM_MANAGED: status = serve_elsewhere(GM_KIND_MANAGED, request, block); break;
        case GM_OOM_FAIL: break;
        }
    }
    return status;
}
