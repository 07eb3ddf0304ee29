/* One walk over the registry into an open hash table, then the largest rows, of which those of one call site are joined
 * (holders.h). */
#include "shim/explain/holders.h"

#include <string.h>

#include "shim/accounts/stats.h"
#include "shim/sites/site.h"
#include "shim/sites/site_text.h"
#include "shim/resource/registry.h"

/* Bytes of the block, and of a handle those that are not mapped. */
static size_t held_bytes(const struct gm_block *block) {
    return gm_block_is_handle(block) ? block->size - block->mapped : gm_block_is_memory(block) ? block->size : 0;
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
            row->size = row->most = site ? 0 : size;
            row->kind = kind;
            holders->sizes[kind] += !site;
            return row;
        }
        if (row->site == site && (site || (row->size == size && row->kind == kind)))
            return row;
        if (i == 64) /* the table is nearly full */
            break;
    }
    return NULL;
}

static void add_siteless(struct gm_holder *row, const struct gm_block *block, size_t bytes) {
    row->kind = block->kind;
    row->size = row->count && row->size < block->size ? row->size : block->size;
    row->most = row->most > block->size ? row->most : block->size;
    row->bytes += bytes;
    row->count++;
}

/* The kind has more sizes than rows could show. */
static bool has_many_sizes(const struct gm_holders *holders, uint32_t site, unsigned kind) {
    return !site && holders->sizes[kind] > GM_HOLDERS;
}

static void add_held_block(const struct gm_block *block, void *arg) {
    struct gm_holders *holders = arg;
    struct gm_block device, host;
    if (block->kind == GM_KIND_SPLIT) {
        gm_block_parts(block, &device, &host);
        block = holders->host ? &host : &device;
    }
    if (!is_asked_for(holders, block))
        return;
    size_t bytes = held_bytes(block);
    holders->bytes += bytes;
    holders->reserved += bytes + block->reserved - block->size;
    holders->count++;
    if (!block->site)
        add_siteless(&holders->siteless[block->kind], block, bytes);
    struct gm_holder *row = has_many_sizes(holders, block->site, block->kind)
                                ? NULL
                                : row_of_site(holders, block->site, block->size, block->kind);
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
    unsigned sited = 0, first = 0, common = GM_SITE_NAMED;
    for (unsigned i = 0; i < GM_HOLDERS_NAMED && holders->most[i].count; i++) {
        uintptr_t *frames = holders->frames[i];
        unsigned depth = gm_site_named(holders->most[i].site, frames), same = common;
        holders->depths[i] = depth;
        if (!depth)
            continue;
        if (sited++)
            same = count_shared(frames, depth, holders->frames[first], holders->depths[first]);
        else
            first = i;
        common = same < common ? same : common;
    }
    if (sited == 1)
        common = count_shared(holders->frames[first], holders->depths[first], request,
                              gm_site_named(holders->request, request));
    holders->common = sited ? common : 0;
}

/* Frames that two rows share from the first one that tells holders apart. */
static unsigned count_same(const struct gm_holders *holders, unsigned a, unsigned b) {
    unsigned same = holders->common;
    while (same < holders->depths[a] && same < holders->depths[b] &&
           holders->frames[a][same] == holders->frames[b][same])
        same++;
    return same - holders->common;
}

static bool is_named(const struct gm_holders *holders, const struct gm_holder *row) {
    for (unsigned i = 0; i < GM_HOLDERS_NAMED && holders->most[i].count; i++)
        if (holders->most[i].site == row->site)
            return true;
    return false;
}

/* The row's stack is that of the named row up to the frame that tells it apart. */
static bool is_of(const struct gm_holders *holders, unsigned named, uint32_t site) {
    uintptr_t last = holders->frames[named][holders->common];
    const uintptr_t *a = NULL, *b = NULL;
    unsigned count = gm_site_frames(site, &a), most = gm_site_frames(holders->most[named].site, &b);
    for (unsigned i = 0; i < count && i < most && a[i] == b[i]; i++)
        if (a[i] == last)
            return true;
    return false;
}

/* Adds a row that is too small to be named, which may be one of many of the same call site. */
static void add_small(struct gm_holders *holders, const struct gm_holder *row, const unsigned *first, unsigned count) {
    for (unsigned to = 0; to < count; to++) {
        struct gm_holder *large = &holders->joined[to];
        if (!large->shared || !is_of(holders, first[to], row->site))
            continue;
        large->bytes += row->bytes;
        large->count += row->count;
        large->shared = 1;
        return;
    }
}

/* Joins rows of the same first frame. The text of a row has the frames that all its stacks share. */
static void join_rows(struct gm_holders *holders) {
    struct gm_holder *rows = holders->joined;
    unsigned first[GM_HOLDERS_NAMED], count = 0;
    name_rows(holders);
    for (unsigned i = 0; i < GM_HOLDERS_NAMED && holders->most[i].count; i++) {
        struct gm_holder *row = &holders->most[i];
        unsigned to = 0, same = 0, depth = holders->depths[i];
        while (to < count && !(same = count_same(holders, first[to], i)))
            to++;
        row->shared = (uint8_t)(depth > holders->common ? depth - holders->common : 0);
        if (to < count) {
            rows[to].bytes += row->bytes;
            rows[to].count += row->count;
            rows[to].shared = same < rows[to].shared ? (uint8_t)same : rows[to].shared;
        } else {
            first[count] = i;
            rows[count++] = *row;
        }
    }
    for (unsigned i = 0; i < GM_HOLDERS_TABLE; i++)
        if (holders->table[i].count && holders->table[i].site && !is_named(holders, &holders->table[i]))
            add_small(holders, &holders->table[i], first, count);
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
        if (holders->table[i].count && !has_many_sizes(holders, holders->table[i].site, holders->table[i].kind))
            rank(holders, &holders->table[i]);
    for (int kind = 0; kind < GM_KIND_COUNT; kind++)
        if (holders->siteless[kind].count && has_many_sizes(holders, 0, (unsigned)kind))
            rank(holders, &holders->siteless[kind]);
    join_rows(holders);
}
