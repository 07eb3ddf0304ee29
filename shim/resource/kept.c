/* Blocks of resources that keep them, for callers that have no records: adaptors and the program's own stacks. Such a
 * caller has a block while the program does, and the cache has its record while it is kept. */
#include "shim/accounts/stats.h"
#include "shim/resource/block.h"
#include "shim/resource/kept.h"
#include "shim/resource/registry.h"

void gm_kept_hand_out(struct gm_block_record *record, const struct gm_request *request, struct gm_block *block) {
    struct gm_block kept;
    gm_record_read(record, &kept);
    const struct gm_piece piece = {.address = gm_record_address(record), .reserved = kept.reserved};
    gm_stats_uncached(kept.kind, kept.reserved);
    gm_registry_remove(gm_registry_shared(), record);
    gm_block_fill(block, kept.owner, request, &piece);
    block->kind = kept.kind;
    block->served = kept.served;
    block->bin = kept.bin;
    block->hit = 1;
}

gm_status gm_resource_alloc(struct gm_resource *resource, const struct gm_request *request,
                            const struct gm_decision *decision, struct gm_block *block) {
    const struct gm_resource_ops *ops = resource->ops;
    struct gm_block_record *record = ops->take ? ops->take(resource, request, decision) : NULL;
    if (!record)
        return ops->alloc(resource, request, decision, block);
    gm_kept_hand_out(record, request, block);
    return GM_OK;
}

gm_status gm_resource_free(struct gm_resource *resource, const struct gm_block *block,
                           const struct gm_free_request *how) {
    struct gm_registry *registry = resource->ops->put ? gm_registry_shared() : NULL;
    struct gm_free_request noted = *how;
    struct gm_block held = *block;
    bool kept = false;
    held.owner = resource;
    struct gm_block_record *record = registry ? gm_registry_add_held(registry, &held, NULL) : NULL;
    if (!record)
        return resource->ops->free(resource, block, how);
    noted.kept = &kept;
    gm_status status = resource->ops->put(resource, record, &noted);
    if (kept)
        gm_stats_cached(resource->kind, held.reserved);
    if (how->kept)
        *how->kept = kept;
    return status;
}

void gm_kept_reserved(const struct gm_block *block, int64_t more) {
    if (gm_kind_traits(block->kind) & GM_TRAIT_POOLED)
        return;
    if (more > 0)
        gm_stats_take(block->kind, block->device, (uint64_t)more);
    else
        gm_stats_give(block->kind, block->device, (uint64_t)-more);
}

gm_status gm_resource_undo(struct gm_resource *resource, const struct gm_request *request,
                           const struct gm_block *block) {
    bool kept = false;
    struct gm_free_request how = {.call = GM_CALL_FREE, .kept = &kept};
    if (request->call == GM_CALL_ALLOC_ASYNC)
        how = (struct gm_free_request){
            .call = GM_CALL_FREE_ASYNC, .stream = request->stream, .per_thread = request->per_thread, .kept = &kept};
    gm_status status = gm_resource_free(resource, block, &how);
    if (!status && kept != block->hit) /* a block that was kept before is counted */
        gm_kept_reserved(block, kept ? (int64_t)block->reserved : -(int64_t)block->reserved);
    return status;
}
