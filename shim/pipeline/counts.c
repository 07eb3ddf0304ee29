/* What is rarely counted; counts.h has what every call needs. */
#include "shim/pipeline/counts.h"
#include "shim/sites/site.h"

/* Counts as a block of its own each part of a block that has two. */
static bool count_parts(const struct gm_block *block, bool created, bool kept) {
    struct gm_block parts[2];
    if (block->kind != GM_KIND_SPLIT)
        return false;
    gm_block_parts(block, &parts[0], &parts[1]);
    for (int i = 0; i < 2 && parts[i].reserved; i++)
        if (created)
            gm_count_created(&parts[i]);
        else
            gm_count_destroyed(&parts[i], kept);
    return true;
}

bool gm_count_displaced(const struct gm_block *block) {
    if (count_parts(block, true, false))
        return true;
    struct gm_stats_displaced *displaced = &gm_stats->displaced[block->kind];
    uint64_t none = 0;
    if (!__atomic_load_n(&displaced->since_ns, __ATOMIC_RELAXED))
        __atomic_compare_exchange_n(&displaced->since_ns, &none, gm_now_ns(), false, __ATOMIC_RELAXED,
                                    __ATOMIC_RELAXED);
    gm_stats_raise(&displaced->peak, __atomic_add_fetch(&displaced->live, block->size, __ATOMIC_RELAXED));
    return false;
}

bool gm_count_displaced_gone(const struct gm_block *block, bool kept) {
    if (count_parts(block, false, kept))
        return true;
    __atomic_sub_fetch(&gm_stats->displaced[block->kind].live, block->size, __ATOMIC_RELAXED);
    return false;
}

void gm_count_handle_created(const struct gm_block *block) {
    if (block->hit)
        gm_stats_give(GM_KIND_MAPPED, block->device, block->size);
    gm_stats_take((enum gm_kind)block->kind, block->device, block->size);
}

void gm_count_handle_destroyed(const struct gm_block *block, bool kept) {
    size_t unmapped = block->size - block->mapped;
    gm_stats_give((enum gm_kind)block->kind, block->device, unmapped);
    if (kept)
        gm_stats_take(GM_KIND_MAPPED, block->device, unmapped);
    if (block->charged)
        gm_limit_give(block->device, unmapped);
}

bool gm_count_returned_to_handle(const struct gm_block *mapping) {
    struct gm_block handle;
    return gm_registry_map(gm_registry_shared(), gm_key(GM_SPACE_HANDLE, mapping->handle), -(int64_t)mapping->size,
                           &handle);
}

void gm_count_reused_now(int device, size_t size, size_t reserved) {
    const struct gm_block block = {.size = size,
                                   .reserved = reserved,
                                   .device = (int16_t)device,
                                   .call = GM_CALL_ALLOC,
                                   .kind = (uint8_t)GM_KIND_CACHE,
                                   .hit = 1};
    gm_stats_uncached(GM_KIND_CACHE, reserved);
    gm_count_created(&block);
}

/* ---- policies */

void gm_notify_policy(const struct gm_block *block) {
    struct gm_request request = gm_request_blank;
    request.call = block->call;
    request.size = block->size;
    request.device = block->device;
    request.context_id = block->context_id;
    gm_pipeline.policy->freed(&request);
}

static uint64_t objects;
static uint32_t threads;
static __thread __attribute__((tls_model("initial-exec"))) uint32_t thread_number;

void gm_request_identify(struct gm_request *request) {
    if (!request->context)
        return;
    request->object = __atomic_add_fetch(&objects, 1, __ATOMIC_RELAXED);
    if (request->thread)
        return;
    if (!thread_number)
        thread_number = __atomic_add_fetch(&threads, 1, __ATOMIC_RELAXED);
    request->thread = thread_number;
    request->where = gm_site_keys(request->site);
}

void gm_numbers_after_fork(void) {
    objects = 0;
    threads = thread_number = 0;
}
