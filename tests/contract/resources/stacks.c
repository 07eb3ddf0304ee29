/* The list of stacks (stacks.h). */
#include "stacks.h"

#include <string.h>

const char *const stacks[STACKS] = {
    "native",
    "async",
    "managed",
    "managed-pool",
    "fill(off,native)",
    "fill(poison,native)",
    "fill(zero,async)",
    "fill(poison,async)",
    "fill(poison,managed)",
    "fill(poison,managed-pool)",
    "limit(64GiB,async)",
    "fail-nth(100000000,fill(zero,limit(64GiB,managed)))",
    "host-numa",
    "fill(poison,host-numa)",
    "cache(host-numa)",
    "cache(native)",
    "cache(1,native)",
    "cache(3,limit(64GiB,native))",
    "fill(poison,cache(native))",
    "cache(managed-pool)",
    "cache(1,managed-pool)",
    "cache(async)",
    "cache(1,async)",
    "pinned",
    "fill(poison,pinned)",
    "guard",
    "fill(poison,guard)",
    "fallback(guard,pinned)",
    "suspendable",
    "fill(poison,suspendable)",
    "cache(suspendable)",
    "log(async)",
    "statistics(track(native))",
    "track(cache(async))",
    "aligned(4KiB,native)",
    "aligned(1MiB,statistics(managed))",
    "cache(aligned(64KiB,native))",
    "prefetch(managed)",
    "prefetch(managed-pool)",
    "fallback(native,host-numa)",
    "fallback(fail-nth(3,async),pinned)",
    "fallback(fail-nth(1,native),fallback(fail-nth(2,async),managed))",
    "limit(64GiB,fallback(fail-nth(2,track(native)),cache(1,native)))",
};
struct gm_resource *built[STACKS];

struct gm_resource *stack_named(const char *name) {
    for (int i = 0; i < STACKS; i++)
        if (!strcmp(stacks[i], name))
            return built[i];
    fail_msg("no stack %s", name);
    return NULL;
}

enum gm_kind kind_of(const struct gm_resource *resource) {
    return resource->kind == GM_KIND_CACHE ? GM_KIND_NATIVE : resource->kind;
}
bool is_pool(const struct gm_resource *resource) {
    return kind_of(resource) == GM_KIND_ASYNC || kind_of(resource) == GM_KIND_MANAGED_POOL;
}

bool is_cache(const struct gm_resource *resource) {
    while (resource && resource->ops != &gm_resource_cache)
        resource = resource->upstream;
    return resource != NULL;
}

struct gm_block get(struct gm_resource *resource, const struct gm_request *request) {
    struct gm_block block;
    gm_status status = allocate(resource, request, &block);
    if (status)
        fail_msg("%s: allocation answered %d", resource->ops->name, status);
    return block;
}

void give(struct gm_resource *resource, const struct gm_block *block) {
    struct gm_free_request how = plain_free();
    assert_int_equal(release(resource, block, &how), GM_OK);
}

void trim(struct gm_resource *resource) { gm_stack_trim(resource, SIZE_MAX); }

int build_stacks(void **state) {
    for (int i = 0; i < STACKS; i++)
        built[i] = build(stacks[i]);
    return 0;
}
