#include "tools/cli/reserved.h"

#include "shim/base/stats.h"

static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

static uint64_t size_of(const struct gm_live_block *b) { return b->bytes + b->slack; }

/* Blocks in a pool of known size take nothing of their own. */
void gm_reserved_add(struct gm_reserved *r, int kind, uint64_t bytes) {
    r->blocks_of[kind] += bytes;
    if (!r->has_pool[kind] && gm_kind_is_on_device((enum gm_kind)kind))
        r->bytes += bytes;
}

static void keep(struct gm_reserved *r, int kind, uint64_t bytes) {
    r->kept_of[kind] += bytes;
    if (gm_kind_is_on_device((enum gm_kind)kind))
        r->kept += bytes;
}

static uint64_t take_kept(struct gm_reserved *r, int kind, uint64_t bytes) {
    uint64_t taken = least(bytes, r->kept_of[kind]);
    keep(r, kind, 0 - taken);
    return taken;
}

static bool is_kept(const struct gm_event *event) {
    return event && event->action == GM_ACT_FREE && event->flags & GM_EVENT_KEPT;
}

void gm_reserved_handle_created(struct gm_reserved *r, const struct gm_live_block *handle) {
    if (handle->hit)
        gm_reserved_add(r, GM_KIND_MAPPED, 0 - take_kept(r, GM_KIND_MAPPED, handle->bytes));
    gm_reserved_add(r, handle->kind, handle->bytes);
}

void gm_reserved_handle_destroyed(struct gm_reserved *r, const struct gm_live_block *handle,
                                  const struct gm_event *event) {
    uint64_t unmapped = handle->bytes - handle->mapped;
    gm_reserved_add(r, handle->kind, 0 - unmapped);
    if (!is_kept(event))
        return;
    gm_reserved_add(r, GM_KIND_MAPPED, unmapped);
    keep(r, GM_KIND_MAPPED, unmapped);
}

/* Mapped memory was taken from kept memory with its handle. */
void gm_reserved_created(struct gm_reserved *r, const struct gm_live_block *b) {
    uint64_t from_kept = b->hit && b->call != GM_CALL_VMM_MAP ? take_kept(r, b->kind, size_of(b)) : 0;
    gm_reserved_add(r, b->kind, size_of(b) - from_kept);
}

void gm_reserved_destroyed(struct gm_reserved *r, const struct gm_live_block *b, const struct gm_event *event) {
    if (is_kept(event))
        keep(r, b->kind, size_of(b));
    else
        gm_reserved_add(r, b->kind, 0 - size_of(b));
}

uint64_t gm_reserved_trimmed(struct gm_reserved *r, const struct gm_event *e) {
    uint64_t given = take_kept(r, e->kind, e->bytes);
    gm_reserved_add(r, e->kind, 0 - given);
    return r->has_pool[e->kind] ? 0 : e->bytes;
}

void gm_reserved_kept(struct gm_reserved *r, const struct gm_event *e) {
    uint64_t change = e->bytes - r->kept_of[e->kind];
    keep(r, e->kind, change);
    gm_reserved_add(r, e->kind, change);
}

uint64_t gm_reserved_pool_size(struct gm_reserved *r, const struct gm_event *e) {
    unsigned device = e->device < 0 ? 0 : (unsigned)e->device % GM_RESERVED_DEVICES;
    uint64_t *pool = &r->pool_of[e->kind][device], before = *pool;
    if (!r->has_pool[e->kind])
        r->bytes -= gm_kind_is_on_device((enum gm_kind)e->kind) ? r->blocks_of[e->kind] : 0;
    r->has_pool[e->kind] = true;
    *pool = e->bytes;
    if (gm_kind_is_on_device((enum gm_kind)e->kind))
        r->bytes += e->bytes - before;
    return before > e->bytes ? before - e->bytes : 0;
}
