#include "tools/cli/counter_sample.h"

#include "shim/base/foreign.h"
#include "shim/base/options.h"
#include "tools/cli/memory_kinds.h"

#include <stdio.h>
#include <string.h>

/* The process changes the counters while they are read, so a difference may be below zero. */
static uint64_t at_least_zero(uint64_t more, uint64_t less) { return more > less ? more - less : 0; }

static void take_device(struct gm_device_sample *out, const struct gm_stats *s, int device) {
    static const unsigned char unknown[16];
    const unsigned char *u = (const unsigned char *)s->uuid[device];
    *out = (struct gm_device_sample){.total = s->total[device],
                                     .live = gm_stats_live_of(s, device),
                                     .peak_live = s->peak_live_on[device],
                                     .reserved = s->reserved_on[device],
                                     .peak_reserved = s->peak_reserved_on[device],
                                     .untracked = s->untracked[device].bytes};
    out->accounts = s->accounts[device];
    if (!gm_account_is_known(&out->accounts.latest)) /* or it was just being written */
        out->accounts.latest = (struct gm_account){0};
    if (!gm_account_is_known(&out->accounts.fullest))
        out->accounts.fullest = (struct gm_account){0};
    bool known = memcmp(u, unknown, sizeof unknown) != 0;
    out->used = known || out->peak_live || out->peak_reserved || out->untracked;
    if (known)
        snprintf(out->uuid, sizeof out->uuid,
                 "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", u[0], u[1], u[2], u[3],
                 u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13], u[14], u[15]);
}

void gm_counter_sample_take(struct gm_counter_sample *out, const struct gm_stats *s, int32_t pid, uint64_t now_ns) {
    *out = (struct gm_counter_sample){.time_ns = now_ns,
                                      .pid = pid,
                                      .finished = s->finished,
                                      .timed = s->timed,
                                      .start_ns = s->start_ns,
                                      .peak_all = s->peak_total,
                                      .peak_reserved_all = s->peak_reserved,
                                      .total = gm_stats_total(s)};
    gm_foreign_text(out->program, sizeof out->program, s->program, sizeof s->program - 1);
    snprintf(out->group, sizeof out->group, "%.*s", (int)sizeof s->group - 1, s->group);
    snprintf(out->trace, sizeof out->trace, "%.*s", (int)sizeof s->trace - 1, s->trace);
    gm_foreign_text(out->policy, sizeof out->policy, s->policy, sizeof s->policy - 1);
    for (int device = 0; device < GM_STATS_DEVICES; device++) {
        take_device(&out->devices[device], s, device);
        out->untracked += s->untracked[device].bytes;
        out->untracked_peak += s->untracked[device].peak;
    }
    out->suspended = s->suspended;
    out->shared = s->shared;
    gm_foreign_text(out->shared.group, sizeof out->shared.group, s->shared.group, sizeof s->shared.group - 1);
    gm_counter_sample_limit(out, s->group[0] || s->limit_bytes == UINT64_MAX ? 0 : s->limit_bytes);
    for (int k = 0; k < GM_KIND_COUNT; k++) {
        out->live[k] = gm_stats_live(s, &out->total, (enum gm_kind)k);
        out->cached[k] = at_least_zero(out->total.cached_in[k], out->total.cached_out[k]);
        out->reserved[k] = s->reserved_bytes[k];
        out->peak[k] = s->peak_bytes[k];
        out->blocks[k] = gm_stats_blocks(&out->total, k);
        out->allocs += out->total.allocs[k];
        out->frees += out->total.frees[k];
        out->hits += out->total.hits[k];
        if (gm_kind_is_cached((enum gm_kind)k) || out->total.hits[k])
            out->reusable += out->total.allocs[k];
        if (!gm_kind_is_on_device(k))
            continue;
        out->live_all += out->live[k];
        out->cached_all += out->cached[k];
        out->reserved_all += out->reserved[k];
    }
}

/* Unknown where no kind of memory keeps freed blocks. */
static double reused(uint64_t hits, uint64_t allocs, uint64_t reusable) {
    return reusable && allocs ? (double)hits / (double)allocs : -1;
}

struct gm_rates gm_counter_sample_rates(const struct gm_counter_sample *before, const struct gm_counter_sample *now,
                                        bool timed) {
    struct gm_rates r = {-1, -1, -1, -1, -1, reused(now->hits, now->allocs, now->reusable), -1};
    if (!before || now->time_ns <= before->time_ns)
        return r;
    r.seconds = (double)(now->time_ns - before->time_ns) / 1e9;
    r.allocs = (double)at_least_zero(now->allocs, before->allocs) / r.seconds;
    r.frees = (double)at_least_zero(now->frees, before->frees) / r.seconds;
    r.fence_waits = (double)at_least_zero(now->total.fence_waits, before->total.fence_waits) / r.seconds;
    r.hits = reused(at_least_zero(now->hits, before->hits), at_least_zero(now->allocs, before->allocs), now->reusable);
    if (timed)
        r.time = (double)at_least_zero(now->total.time_ns, before->total.time_ns) / 1e9 / r.seconds;
    return r;
}

void gm_counter_sample_limit(struct gm_counter_sample *s, uint64_t limit) {
    s->limit = limit;
    for (int device = 0; device < GM_STATS_DEVICES; device++)
        s->devices[device].limit = gm_memory_of(limit, s->devices[device].total);
}

bool gm_device_is(const struct gm_device_sample *device, int number, const char *uuid, int other_number) {
    return !strcmp(device->uuid, uuid) && (uuid[0] || number == other_number);
}

bool gm_counter_sample_has_kind(const struct gm_counter_sample *s, enum gm_kind kind) {
    return s->total.allocs[kind] || s->peak[kind] || s->total.cached_in[kind];
}
