#include "tools/cli/analysis_summary.h"

#include "tools/cli/analysis_amounts.h"
#include "tools/cli/memory_kinds.h"

#include <stdlib.h>

static struct gm_sum *sum_of(struct gm_analysis_pass *p, const struct gm_event *e) {
    uint64_t key = (uint64_t)e->site << 16 | (uint64_t)e->kind << 8 | (uint8_t)e->device;
    struct sum_entry *found;
    HASH_FIND(hh, p->sums, &key, sizeof key, found);
    if (found)
        return &found->sum;
    found = calloc(1, sizeof *found);
    if (!found) {
        p->failed = true;
        return NULL;
    }
    found->sum = (struct gm_sum){key, e->site < SITE_IDS ? e->site : 0, e->kind, e->device, 0, 0, 0};
    HASH_ADD(hh, p->sums, sum.key, sizeof found->sum.key, found);
    return &found->sum;
}

/* The peaks of process and kinds follow with GM_ACT_PEAK or GM_ACT_TOTAL: the rows before it belong to one moment. */
void gm_pass_sum(struct gm_analysis_pass *p, const struct gm_event *e) {
    struct gm_analysis *a = p->a;
    struct gm_sum *sum = sum_of(p, e);
    struct gm_site_totals *site = gm_pass_site(p, e->site, e->device);
    if (!sum || !site)
        return;
    bool released = e->reason == GM_REASON_CONTEXT_GONE;
    bool counts = e->sum.allocs || e->sum.frees; /* else it says what the site held at a peak */
    uint64_t held = sum->counted + e->sum.alloc_bytes, gone = counts && held > e->sum.live ? held - e->sum.live : 0;
    struct gm_sum_step step = {
        .event = e, .sum = sum, .before = sum->live, .allocs = e->sum.allocs, .bytes = e->sum.alloc_bytes, .now = a};
    *(released ? &step.released : &step.frees) = e->sum.frees;
    *(released ? &step.released_bytes : &step.freed_bytes) = gone;
    struct gm_kind_totals *kind = &a->by_kind[e->kind];
    struct gm_device_totals *device = &a->devices[gm_device_index(e->device)];
    struct gm_kind_totals *here = &device->by_kind[e->kind];
    uint64_t blocks = step.allocs - e->sum.frees, bytes = e->sum.live - sum->live;
    device->allocs += step.allocs;
    device->bytes += step.bytes;
    device->frees += step.frees;
    here->allocs += step.allocs;
    here->bytes += step.bytes;
    here->frees += step.frees;
    here->live_count += blocks;
    a->allocs += step.allocs;
    a->alloc_bytes += step.bytes;
    a->frees += step.frees;
    a->released_count += step.released;
    a->released_bytes += step.released_bytes;
    kind->allocs += step.allocs;
    kind->bytes += step.bytes;
    kind->frees += step.frees;
    kind->live_count += blocks;
    site->allocs += step.allocs;
    site->bytes += step.bytes;
    site->released_count += step.released;
    site->released_bytes += step.released_bytes;
    site->live_count += blocks;
    site->live_bytes += bytes;
    sum->count += blocks;
    sum->live = e->sum.live;
    sum->counted = counts ? e->sum.live : sum->counted;
    gm_pass_change(p->peak, &kind->live_bytes, &kind->at_peak, &kind->peak_seen, bytes);
    gm_pass_change(device->peaks, &here->live_bytes, &here->at_peak, &here->peak_seen, bytes);
    if (gm_kind_is_on_device((enum gm_kind)e->kind)) {
        gm_pass_change(device->peaks, &site->device_live, &site->at_peak, &site->peak_seen, bytes);
        device->live += bytes;
    }
    for (struct gm_observer *const *o = p->observers; *o && !p->failed; o++)
        p->failed = (*o)->summed && !(*o)->summed(*o, &step);
}

/* All rows of a moment were read. */
static void on_moment(struct gm_analysis_pass *p, uint64_t time_ns, uint64_t live) {
    struct gm_analysis *a = p->a;
    a->live_bytes = live;
    for (int k = 0; k < GM_KIND_COUNT; k++)
        if (a->by_kind[k].live_bytes > a->by_kind[k].peak_bytes)
            a->by_kind[k].peak_bytes = a->by_kind[k].live_bytes;
    for (int i = 0; i < GM_DEVICES; i++) {
        struct gm_device_totals *device = &a->devices[i];
        for (int k = 0; k < GM_KIND_COUNT; k++)
            if (device->by_kind[k].live_bytes > device->by_kind[k].peak_bytes)
                device->by_kind[k].peak_bytes = device->by_kind[k].live_bytes;
        gm_pass_device_peak(device, time_ns);
    }
    if (live <= a->peak_bytes)
        return;
    a->peak_bytes = live;
    a->peak_ns = time_ns;
    p->peak++;
}

/* What was live and kept when reserved bytes peaked is known only if that was the end of an interval. */
void gm_pass_peak(struct gm_analysis_pass *p, const struct gm_event *e) {
    struct gm_analysis *a = p->a;
    on_moment(p, e->time_ns, e->peak.live);
    if (e->peak.most_reserved <= a->peak_reserved)
        return;
    a->peak_reserved = a->reserved.bytes = e->peak.most_reserved;
    a->peak_reserved_ns = e->time_ns;
    a->live_at_reserved = a->kept_at_reserved = UINT64_MAX;
}

void gm_pass_total(struct gm_analysis_pass *p, const struct gm_event *e) {
    struct gm_analysis *a = p->a;
    on_moment(p, e->time_ns, e->total.live);
    a->failed_allocs += e->total.failures;
    a->reserved.kept = e->total.kept;
    a->reserved.bytes = e->total.reserved;
    if (a->live_at_reserved == UINT64_MAX && e->total.reserved == a->peak_reserved) {
        a->live_at_reserved = e->total.live;
        a->kept_at_reserved = e->total.kept;
        a->peak_reserved_ns = e->time_ns;
    }
}

void gm_pass_conclude_sums(struct gm_analysis_pass *p) {
    struct gm_analysis *a = p->a;
    a->sums = calloc(HASH_COUNT(p->sums) + 1, sizeof *a->sums);
    p->failed = !a->sums;
    for (struct sum_entry *s = p->sums; s && !p->failed; s = s->hh.next) {
        struct gm_site_totals *site;
        a->sums[a->sum_count++] = s->sum;
        if (!gm_sum_is_leak(&s->sum) || !(site = gm_pass_site(p, s->sum.site, s->sum.device)))
            continue;
        site->leaked_count += s->sum.count;
        site->leaked_bytes += s->sum.live;
        gm_pass_leak(a, s->sum.device, s->sum.count, s->sum.live);
    }
}
