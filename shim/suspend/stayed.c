/* Ranges have their reasons; other blocks stay by the call or kind that made them (stayed.h). */
#include "shim/suspend/stayed.h"

#include <stdlib.h>
#include <string.h>

#include "shim/accounts/stats.h"
#include "shim/resource/registry.h"
#include "shim/resource/suspendable_at.h"

static struct gm_stats_stayed stayed[GM_STATS_STAYED]; /* of the thread whose turn it is; the last one is all others */

static void add(const char *why, uint64_t bytes) {
    unsigned at = 0;
    while (at < GM_STATS_STAYED - 1 && stayed[at].bytes && strncmp(stayed[at].why, why, sizeof stayed[at].why - 1) != 0)
        at++;
    gm_format(stayed[at].why, sizeof stayed[at].why, "%s", at < GM_STATS_STAYED - 1 ? why : "other reasons");
    stayed[at].bytes += bytes;
}

static bool is_of_pool(const struct gm_block *block) {
    return block->kind == GM_KIND_POOL || block->kind == GM_KIND_ASYNC || block->call == GM_CALL_ALLOC_ASYNC ||
           block->call == GM_CALL_ALLOC_FROM_POOL;
}

static const char *reason_of(const struct gm_block *block) {
    switch (block->kind) {
    case GM_KIND_MANAGED:
    case GM_KIND_MANAGED_POOL: return "managed, as far as it is on the device";
    case GM_KIND_ARRAY: return "arrays";
    case GM_KIND_GRAPH: return "of graphs";
    case GM_KIND_IMPORTED: return "imported";
    default: return is_of_pool(block) ? "of cudaMallocAsync and pools" : "served natively";
    }
}

static void see(const struct gm_block *block, void *unused) {
    bool on_device = gm_kind_is_on_device((enum gm_kind)block->kind) || block->kind == GM_KIND_IMPORTED;
    if (on_device && gm_block_is_memory(block) && !gm_suspendable_covers(block->address))
        add(reason_of(block), block->reserved > block->size ? block->reserved : block->size);
}

static int by_bytes(const void *a, const void *b) {
    uint64_t one = ((const struct gm_stats_stayed *)a)->bytes, other = ((const struct gm_stats_stayed *)b)->bytes;
    return one < other ? 1 : one > other ? -1 : 0;
}

void gm_stayed_publish(void) {
    struct gm_registry *registry = gm_registry_shared();
    memset(stayed, 0, sizeof stayed);
    for (const struct gm_suspendable_range *range = gm_suspendable_first(); range; range = range->next)
        if (!range->away)
            add(range->stays ? range->stays : "kept, as a glob names it", range->size);
    if (registry)
        gm_registry_each(registry, see, NULL);
    qsort(stayed, GM_STATS_STAYED, sizeof *stayed, by_bytes);
    memcpy(gm_stats->suspended.stayed, stayed, sizeof stayed);
}
