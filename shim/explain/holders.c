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

static struct gm_holder *row_of(struct gm_holders *holders, uint32_t site, size_t size, uint8_t kind) {
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

static void count(const struct gm_block *block, void *arg) {
    struct gm_holders *holders = arg;
    if (!is_asked_for(holders, block))
        return;
    size_t bytes = held_bytes(block);
    holders->bytes += bytes;
    holders->reserved += bytes + block->reserved - block->size;
    holders->count++;
    struct gm_holder *row = row_of(holders, block->site, block->size, block->kind);
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

/* Joins the rows that gm_site_text names alike. Only the largest rows are named, because that reads files. */
static void join(struct gm_holders *holders) {
    struct gm_holder *rows = holders->table; /* its rows are ranked */
    unsigned count = 0;
    for (unsigned i = 0; i < GM_HOLDERS_NAMED && holders->most[i].count; i++) {
        const struct gm_holder *row = &holders->most[i];
        uintptr_t frame = row->site ? gm_site_named_frame(row->site) : 0;
        unsigned same = 0;
        while (same < count && !(frame && holders->frames[same] == frame))
            same++;
        if (same < count) {
            rows[same].bytes += row->bytes;
            rows[same].count += row->count;
        } else {
            holders->frames[count] = frame;
            rows[count++] = *row;
        }
    }
    memset(holders->most, 0, sizeof holders->most);
    for (unsigned i = 0; i < count; i++)
        rank(holders, &rows[i]);
}

void gm_holders_find(struct gm_holders *holders, int device, bool host) {
    struct gm_registry *registry = gm_registry_shared();
    holders->device = device;
    holders->host = host;
    if (registry)
        gm_registry_each(registry, count, holders);
    for (unsigned i = 0; i < GM_HOLDERS_TABLE; i++)
        if (holders->table[i].count)
            rank(holders, &holders->table[i]);
    join(holders);
}
