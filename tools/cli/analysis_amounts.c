#include "tools/cli/analysis_amounts.h"

#include "tools/cli/analysis_block.h"
#include "tools/cli/memory_kinds.h"

/* Memory that the program maps is reserved by its handle before and afterwards. */
static void move_from_handle(struct gm_analysis_pass *p, const struct gm_live_block *mapping, bool created) {
    struct gm_live_block *handle = NULL;
    if (gm_call_traits((enum gm_call)mapping->call) & GM_CALL_MAPS)
        handle = gm_live_blocks_find(&p->live, gm_key(GM_SPACE_HANDLE, mapping->handle));
    if (!handle || !gm_live_block_is_handle(handle))
        return;
    uint64_t bytes = created ? mapping->bytes : 0 - mapping->bytes;
    handle->mapped += bytes;
    gm_reserved_add(&p->a->reserved, gm_device_index(handle->device), handle->kind, 0 - bytes);
}

void gm_pass_device_peak(struct gm_device_totals *device, uint64_t now) {
    if (device->live <= device->peak)
        return;
    device->peak = device->live;
    device->peak_ns = now;
    device->peaks++;
}

/* The parts of a block of kind split, as blocks of their own (gm_block_parts). The second one may be empty. */
static void split(const struct gm_live_block *b, struct gm_live_block parts[2]) {
    uint64_t on_device = gm_live_block_on_device(b);
    parts[0] = parts[1] = *b;
    parts[0].bytes = on_device;
    parts[0].slack = (uint32_t)(b->on_device - on_device);
    parts[0].displaced = 0;
    parts[1].kind = GM_KIND_HOST_NUMA;
    parts[1].bytes -= on_device;
    parts[1].slack -= parts[0].slack;
}

/* `one`: what the number of blocks changes by. */
static void pass_live(struct gm_analysis_pass *p, const struct gm_live_block *b, uint64_t one, bool created,
                      uint64_t now) {
    struct gm_analysis *a = p->a;
    struct gm_kind_totals *kind = &a->by_kind[b->kind];
    struct gm_site_totals *site = gm_pass_site(p, b->site, b->device);
    struct gm_device_totals *device = &a->devices[gm_device_index(b->device)];
    struct gm_kind_totals *here = &device->by_kind[b->kind];
    uint64_t bytes = created ? b->bytes : 0 - b->bytes;
    if (!site)
        return;
    move_from_handle(p, b, created);
    kind->live_count += one;
    site->live_count += one;
    site->live_bytes += bytes;
    here->live_count += one;
    gm_pass_change(p->peak, &kind->live_bytes, &kind->at_peak, &kind->peak_seen, bytes);
    gm_pass_change(device->peaks, &here->live_bytes, &here->at_peak, &here->peak_seen, bytes);
    if (b->displaced) {
        struct gm_displaced *displaced = &a->displaced[b->kind];
        displaced->live += bytes;
        displaced->peak = displaced->live > displaced->peak ? displaced->live : displaced->peak;
    }
    if (kind->live_bytes > kind->peak_bytes && created)
        kind->peak_bytes = kind->live_bytes;
    if (here->live_bytes > here->peak_bytes && created)
        here->peak_bytes = here->live_bytes;
    if (!gm_kind_is_on_device((enum gm_kind)b->kind))
        return;
    gm_pass_change(device->peaks, &site->device_live, &site->at_peak, &site->peak_seen, bytes);
    a->live_bytes += bytes;
    device->live += bytes;
    if (created)
        gm_pass_device_peak(device, now);
    if (created && a->live_bytes > a->peak_bytes) {
        a->peak_bytes = a->live_bytes;
        a->peak_ns = now;
        p->peak++;
    }
}

void gm_pass_live(struct gm_analysis_pass *p, const struct gm_live_block *b, bool created, uint64_t now) {
    uint64_t one = created ? 1 : UINT64_MAX;
    struct gm_live_block parts[2];
    if (!gm_live_block_allocates(b))
        return;
    if (b->kind != GM_KIND_SPLIT) {
        pass_live(p, b, one, created, now);
        return;
    }
    split(b, parts);
    pass_live(p, &parts[0], one, created, now);
    pass_live(p, &parts[1], 0, created, now);
}

void gm_pass_reserved(struct gm_analysis *a, int device, uint64_t now) {
    struct gm_device_totals *on = &a->devices[gm_device_index(device)];
    uint64_t bytes = a->reserved.on[gm_device_index(device)].bytes;
    if (bytes > on->peak_reserved) {
        on->peak_reserved = bytes;
        on->peak_reserved_ns = now;
    }
    /* A pool takes memory before the block that needs it counts as live. */
    if (a->reserved.bytes < a->peak_reserved ||
        (a->reserved.bytes == a->peak_reserved && a->live_bytes <= a->live_at_reserved))
        return;
    if (a->reserved.bytes > a->peak_reserved)
        a->peak_reserved_ns = now;
    a->peak_reserved = a->reserved.bytes;
    a->live_at_reserved = a->live_bytes;
    a->kept_at_reserved = a->reserved.kept;
}

/* What the block takes of its device: its first part, written to *first, where it has two. */
static const struct gm_live_block *held_on_device(const struct gm_live_block *b, struct gm_live_block *first) {
    struct gm_live_block parts[2];
    if (b->kind != GM_KIND_SPLIT)
        return b;
    split(b, parts);
    *first = parts[0];
    return first;
}

void gm_pass_reserve(struct gm_analysis *a, const struct gm_live_block *b) {
    struct gm_live_block first;
    if (gm_live_block_is_handle(b))
        gm_reserved_handle_created(&a->reserved, b);
    else if (gm_live_block_allocates(b))
        gm_reserved_created(&a->reserved, held_on_device(b, &first));
    else
        return;
    gm_pass_reserved(a, b->device, b->created_ns);
}

void gm_pass_unreserve(struct gm_analysis *a, const struct gm_live_block *b, const struct gm_event *e) {
    struct gm_live_block first;
    if (gm_live_block_is_handle(b))
        gm_reserved_handle_destroyed(&a->reserved, b, e);
    else if (gm_live_block_allocates(b))
        gm_reserved_destroyed(&a->reserved, held_on_device(b, &first), e);
}

void gm_pass_trim(struct gm_analysis_pass *p, const struct gm_event *e) {
    struct gm_analysis *a = p->a;
    bool sized = e->action == GM_ACT_POOL_SIZE;
    uint64_t given = sized ? gm_reserved_pool_size(&a->reserved, e) : gm_reserved_trimmed(&a->reserved, e);
    gm_pass_reserved(a, e->device, e->time_ns);
    struct gm_count_and_bytes *trims = &a->trims[e->reason];
    trims->bytes += given;
    if (sized)
        return;
    trims->count += e->time_ns != p->trim_ns;
    p->trim_ns = e->time_ns;
}

/* A measurement begins with this event. It has no event for a reason without bytes, nor for an item of the account. */
void gm_pass_untracked(struct gm_analysis *a, const struct gm_event *e) {
    struct gm_device_totals *device = &a->devices[gm_device_index(e->device)];
    struct gm_untracked *untracked = &a->untracked;
    untracked->bytes += e->bytes - device->untracked;
    device->untracked = e->bytes;
    if (e->bytes > device->untracked_peak)
        device->untracked_peak = e->bytes;
    untracked->count++;
    untracked->shared |= (e->flags & GM_EVENT_SHARED) != 0;
    if (untracked->bytes > untracked->peak) {
        untracked->peak = untracked->bytes;
        untracked->peak_ns = e->time_ns;
    }
    for (int why = 0; why < GM_REASON_COUNT; why++)
        a->held[why].bytes = 0;
    device->accounts.taking =
        (struct gm_account){.taken_ns = e->time_ns + 1, .shared = (e->flags & GM_EVENT_SHARED) != 0};
    device->accounts.of_failure = e->flags & GM_EVENT_LACK;
}

void gm_pass_account(struct gm_analysis *a, const struct gm_event *e) {
    struct gm_accounts *accounts = &a->devices[gm_device_index(e->device)].accounts;
    const struct gm_account_pool pool = {e->address, e->bytes, e->stream};
    struct gm_account whole;
    bool last = gm_analysis_account(a, e, &whole);
    gm_account_add(&accounts->taking, e->site, e->bytes, &pool);
    if (!last)
        return;
    accounts->latest = whole;
    if (gm_account_is_fuller(&whole, accounts->of_failure, &accounts->fullest, accounts->failed))
        accounts->fullest = whole;
    accounts->failed |= accounts->of_failure;
}

void gm_pass_held(struct gm_analysis *a, const struct gm_event *e) {
    struct gm_held *held = &a->held[e->reason];
    held->bytes = e->bytes;
    held->peak = e->bytes > held->peak ? e->bytes : held->peak;
}

void gm_pass_leak(struct gm_analysis *a, int device, uint64_t count, uint64_t bytes) {
    struct gm_device_totals *on = &a->devices[gm_device_index(device)];
    a->leaked_count += count;
    a->leaked_bytes += bytes;
    on->leaked_count += count;
    on->leaked_bytes += bytes;
}
