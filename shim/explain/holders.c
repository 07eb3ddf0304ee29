/* One walk over the registry into an open hash table, then the largest rows, of which those of one call site are joined
 * (holders.h). */
#include "shim/explain/holders.h"

#include <string.h>

#include "shim/base/stats.h"
#include "shim/sites/site_text.h"
#include "shim/resource/registry.h"

/* Bytes of the block, and of a handle those that are not mapped. */
static size_t held_bytes(const struct gm_block *block) {
    return gm_block_is_handle(block) ? block->size - block->pitch : gm_block_is_memory(block) ? block->size : 0;
}

static bool is_asked_for(const struct gm_holders *holders, const struct gm_block *block) {
    if (!held_bytes(block))
        return false;
    if (holders->host)
        return block->kind == GM_KIND_HOST || block->kind == GM_KIND_HOST_NUMA;
    return block->device == holders->device && gm_kind_is_on_device(block->kind);
}

static struct gm_holder *row_of_site(struct gm_holders *holders, uint32_t site, size_t size, uint8_t kind) {
    uint64_t hash = (site ? site : size * 16 + kind) * 0x9e3779b97f4a7c15ull >> 32;
    for (unsigned i = 0; i < GM_HOLDERS_TABLE; i++) {
        struct gm_holder *row = &holders->table[(hash + i) % GM_HOLDERS_TABLE];
        if (!row->count) {
            row->site = site;
            row->size = site ? 0 : size;
            row->kind = kind;
            return row;
        }
        if (row->site == site && (site || (row->size == size && row->kind == kind)))
            return row;
        if (i == 64) /* the table is nearly full */
            break;
    }
    return NULL;
}

static void add_held_block(const struct gm_block *block, void *arg) {
    struct gm_holders *holders = arg;
    if (!is_asked_for(holders, block))
        return;
    size_t bytes = held_bytes(block);
    holders->bytes += bytes;
    holders->reserved += bytes + block->reserved - block->size;
    holders->count++;
    struct gm_holder *row = row_of_site(holders, block->site, block->size, block->kind);
    if (row) {
        row->bytes += bytes;
        row->count++;
    }
}

static void rank(struct gm_holders *holders, const struct gm_holder *row) {
    unsigned at = GM_HOLDERS_NAMED;
    while (at && row->bytes > holders->most[at - 1].bytes)
        at--;
    if (at == GM_HOLDERS_NAMED)
        return;
    for (unsigned i = GM_HOLDERS_NAMED - 1; i > at; i--)
        holders->most[i] = holders->most[i - 1];
    holders->most[at] = *row;
}

/* Frames that two stacks share, without the last frame of either. */
static unsigned count_shared(const uintptr_t *a, unsigned a_depth, const uintptr_t *b, unsigned b_depth) {
    unsigned same = 0;
    while (same + 1 < a_depth && same + 1 < b_depth && a[same] == b[same])
        same++;
    return same;
}

/* Names the largest rows only, because that reads files. */
static void name_rows(struct gm_holders *holders) {
    uintptr_t request[GM_SITE_NAMED];
    unsigned named = 0, common = GM_SITE_NAMED;
    for (; named < GM_HOLDERS_NAMED && holders->most[named].count; named++) {
        uintptr_t *frames = holders->frames[named];
        unsigned depth = gm_site_named(holders->most[named].site, frames);
        unsigned same = named ? count_shared(frames, depth, holders->frames[0], holders->depths[0]) : common;
        holders->depths[named] = depth;
        common = same < common ? same : common;
    }
    if (named == 1)
        common =
            count_shared(holders->frames[0], holders->depths[0], request, gm_site_named(holders->request, request));
    holders->common = named ? common : 0;
}

/* Frames that two rows share from the first one that tells holders apart. */
static unsigned count_same(const struct gm_holders *holders, unsigned a, unsigned b) {
    unsigned same = holders->common;
    while (same < holders->depths[a] && same < holders->depths[b] &&
           holders->frames[a][same] == holders->frames[b][same])
        same++;
    return same - holders->common;
}

/* Joins rows of the same first frame. The text of a row has the frames that all its stacks share. */
static void join_rows(struct gm_holders *holders) {
    struct gm_holder *rows = holders->table; /* its rows are ranked */
    unsigned first[GM_HOLDERS_NAMED], count = 0;
    name_rows(holders);
    for (unsigned i = 0; i < GM_HOLDERS_NAMED && holders->most[i].count; i++) {
        struct gm_holder *row = &holders->most[i];
        unsigned to = 0, same = 0;
        while (to < count && !(same = count_same(holders, first[to], i)))
            to++;
        row->shared = (uint8_t)(holders->depths[i] - holders->common);
        if (to < count) {
            rows[to].bytes += row->bytes;
            rows[to].count += row->count;
            rows[to].shared = same < rows[to].shared ? (uint8_t)same : rows[to].shared;
        } else {
            first[count] = i;
            rows[count++] = *row;
        }
    }
    memset(holders->most, 0, sizeof holders->most);
    for (unsigned i = 0; i < count; i++)
        rank(holders, &rows[i]);
}

void gm_holders_find(struct gm_holders *holders, int device, bool host, uint32_t request) {
    struct gm_registry *registry = gm_registry_shared();
    holders->device = device;
    holders->host = host;
    holders->request = request;
    if (registry)
        gm_registry_each(registry, add_held_block, holders);
    for (unsigned i = 0; i < GM_HOLDERS_TABLE; i++)
        if (holders->table[i].count)
            rank(holders, &holders->table[i]);
    join_rows(holders);
}
