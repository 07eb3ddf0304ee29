#include "tools/cli/reserved.h"

#include "shim/accounts/stats.h"

static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

static uint64_t size_of(const struct gm_live_block *b) { return b->bytes + b->slack; }

static void take(struct gm_reserved *r, unsigned device, int kind, uint64_t bytes) {
    if (!gm_kind_is_on_device((enum gm_kind)kind))
        return;
    r->on[device].bytes += bytes;
    r->bytes += bytes;
}

/* Blocks in a pool of known size take nothing of their own. */
void gm_reserved_add(struct gm_reserved *r, unsigned device, int kind, uint64_t bytes) {
    r->on[device].blocks_of[kind] += bytes;
    if (!r->on[device].has_pool[kind])
        take(r, device, kind, bytes);
}

static void keep(struct gm_reserved *r, unsigned device, int kind, uint64_t bytes) {
    r->on[device].kept_of[kind] += bytes;
    if (!gm_kind_is_on_device((enum gm_kind)kind))
        return;
    r->on[device].kept += bytes;
    r->kept += bytes;
}

/* Kept bytes become those of a block, or go back to the driver. */
static uint64_t take_kept(struct gm_reserved *r, unsigned device, int kind, uint64_t bytes) {
    uint64_t own = least(bytes, r->on[device].kept_of[kind]), rest;
    keep(r, device, kind, 0 - own);
    if (device == GM_DEVICES || !(rest = take_kept(r, GM_DEVICES, kind, bytes - own)))
        return own;
    gm_reserved_add(r, GM_DEVICES, kind, 0 - rest);
    gm_reserved_add(r, device, kind, rest);
    return own + rest;
}

static bool is_kept(const struct gm_event *event) {
    return event && event->action == GM_ACT_FREE && event->flags & GM_EVENT_KEPT;
}

void gm_reserved_handle_created(struct gm_reserved *r, const struct gm_live_block *handle) {
    unsigned device = gm_device_index(handle->device);
    if (handle->hit)
        gm_reserved_add(r, device, GM_KIND_MAPPED, 0 - take_kept(r, device, GM_KIND_MAPPED, handle->bytes));
    gm_reserved_add(r, device, handle->kind, handle->bytes);
}

void gm_reserved_handle_destroyed(struct gm_reserved *r, const struct gm_live_block *handle,
                                  const struct gm_event *event) {
    uint64_t unmapped = handle->bytes - handle->mapped;
    unsigned device = gm_device_index(handle->device);
    gm_reserved_add(r, device, handle->kind, 0 - unmapped);
    if (!is_kept(event))
        return;
    gm_reserved_add(r, device, GM_KIND_MAPPED, unmapped);
    keep(r, device, GM_KIND_MAPPED, unmapped);
}

/* Mapped memory was taken from kept memory with its handle. */
void gm_reserved_created(struct gm_reserved *r, const struct gm_live_block *b) {
    unsigned device = gm_device_index(b->device);
    uint64_t from_kept = b->hit && !(gm_call_traits((enum gm_call)b->call) & GM_CALL_MAPS)
                             ? take_kept(r, device, b->kind, size_of(b))
                             : 0;
    gm_reserved_add(r, device, b->kind, size_of(b) - from_kept);
}

void gm_reserved_destroyed(struct gm_reserved *r, const struct gm_live_block *b, const struct gm_event *event) {
    unsigned device = gm_device_index(b->device);
    if (is_kept(event))
        keep(r, device, b->kind, size_of(b));
    else
        gm_reserved_add(r, device, b->kind, 0 - size_of(b));
}

uint64_t gm_reserved_trimmed(struct gm_reserved *r, const struct gm_event *e) {
    unsigned device = gm_device_index(e->device);
    uint64_t given = take_kept(r, device, e->kind, e->bytes);
    gm_reserved_add(r, device, e->kind, 0 - given);
    return r->on[device].has_pool[e->kind] ? 0 : e->bytes;
}

/* Of all devices together. */
void gm_reserved_kept(struct gm_reserved *r, const struct gm_event *e) {
    uint64_t known = 0;
    for (unsigned device = 0; device <= GM_DEVICES; device++)
        known += r->on[device].kept_of[e->kind];
    keep(r, GM_DEVICES, e->kind, e->bytes - known);
    gm_reserved_add(r, GM_DEVICES, e->kind, e->bytes - known);
}

uint64_t gm_reserved_pool_size(struct gm_reserved *r, const struct gm_event *e) {
    unsigned device = gm_device_index(e->device);
    struct gm_reserved_device *on = &r->on[device];
    uint64_t before = on->pool_of[e->kind];
    if (!on->has_pool[e->kind])
        take(r, device, e->kind, 0 - on->blocks_of[e->kind]);
    on->has_pool[e->kind] = true;
    on->pool_of[e->kind] = e->bytes;
    take(r, device, e->kind, e->bytes - before);
    return before > e->bytes ? before - e->bytes : 0;
}
