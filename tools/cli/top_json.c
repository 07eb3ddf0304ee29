/* Writes counters of running processes as JSON. Unknown values are null. */
#include "tools/cli/top.h"

#ifdef GM_HAVE_JANSSON
#include "shim/base/options.h"
#include "tools/cli/account_out.h"
#include "tools/cli/json.h"

enum { FORMAT = 1 };

bool gm_top_json_there(void) { return true; }

/* A limit (gm_memory_of) as bytes; null: there is none, or it is a part of each device. */
static json_t *limit_bytes(uint64_t limit) {
    return limit && !gm_memory_is_part(limit) ? gm_json_number(limit) : json_null();
}

static json_t *limit_percent(uint64_t limit) {
    return gm_memory_is_part(limit) ? json_real((double)gm_memory_part(limit) * 100 / GM_MEMORY_WHOLE) : json_null();
}

static json_t *real(double value) { return value < 0 ? json_null() : json_real(value); }

static json_t *kinds(const struct gm_counter_sample *s) {
    json_t *all = json_object();
    for (int k = 0; k < GM_KIND_COUNT; k++) {
        if (!gm_counter_sample_has_kind(s, k))
            continue;
        json_t *one = json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "live_bytes", gm_json_number(s->live[k]),
                                "kept_bytes", gm_json_number(s->cached[k]), "reserved_bytes",
                                gm_json_number(s->reserved[k]), "peak_bytes", gm_json_number(s->peak[k]), "blocks",
                                gm_json_number(s->blocks[k]), "allocs", gm_json_number(s->total.allocs[k]), "frees",
                                gm_json_number(s->total.frees[k]), "hits", gm_json_number(s->total.hits[k]));
        json_object_set_new(all, gm_kind_name((enum gm_kind)k), one);
    }
    return all;
}

static json_t *devices(const struct gm_counter_sample *s) {
    json_t *all = json_array();
    for (int device = 0; device < GM_STATS_DEVICES; device++) {
        const struct gm_device_sample *d = &s->devices[device];
        if (d->used)
            json_array_append_new(
                all, json_pack("{s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "device", device, "uuid",
                               d->uuid[0] ? json_string(d->uuid) : json_null(), "live_bytes", gm_json_number(d->live),
                               "peak_live_bytes", gm_json_number(d->peak_live), "reserved_bytes",
                               gm_json_number(d->reserved), "peak_reserved_bytes", gm_json_number(d->peak_reserved),
                               "beyond_bytes", gm_json_number(d->untracked), "limit_bytes", limit_bytes(d->limit),
                               "account", gm_account_json(&d->accounts.latest)));
    }
    return all;
}

static json_t *fences(const struct gm_counter_sample *s, const struct gm_rates *r) {
    return json_pack("{s:o, s:o, s:o, s:o, s:o}", "records", gm_json_number(s->total.fence_records), "queries",
                     gm_json_number(s->total.fence_queries), "waits", gm_json_number(s->total.fence_waits), "wait_ns",
                     gm_json_number(s->total.fence_wait_ns), "waits_per_s", real(r->fence_waits));
}

static json_t *rates(const struct gm_rates *r) {
    return json_pack("{s:o, s:o, s:o, s:o, s:o}", "interval_s", real(r->seconds), "allocs_per_s", real(r->allocs),
                     "frees_per_s", real(r->frees), "hit_rate", real(r->hits), "time_in_calls", real(r->time));
}

/* null: they could not be read. */
static json_t *call_sites(const struct gm_top_sites *sites) {
    if (sites->why[0])
        return json_null();
    json_t *all = json_array();
    for (size_t i = 0; i < sites->count; i++) {
        const struct gm_top_site *site = &sites->rows[i];
        json_array_append_new(all, json_pack("{s:o, s:i, s:o, s:o}", "site", gm_json_string(site->name), "device",
                                             site->device, "live_bytes", gm_json_number(site->bytes), "blocks",
                                             gm_json_number(site->blocks)));
    }
    return all;
}

/* What the latest suspend left on devices. */
static json_t *stayed(const struct gm_stats_suspended *suspended) {
    json_t *list = json_array();
    for (unsigned i = 0; i < GM_STATS_STAYED && suspended->stayed[i].bytes; i++)
        json_array_append_new(list, json_pack("{s:o, s:o}", "why", gm_json_string(suspended->stayed[i].why), "bytes",
                                              gm_json_number(suspended->stayed[i].bytes)));
    return list;
}

bool gm_top_json(FILE *out, const struct gm_counter_sample *s, const struct gm_rates *r, bool ended,
                 const struct gm_top_sites *sites) {
    json_t *all = json_pack("{s:i, s:o, s:i, s:o, s:o, s:o, s:o, s:o, s:b, s:b}", "format", FORMAT, "time_ns",
                            gm_json_number(s->time_ns), "pid", (int)s->pid, "program", gm_json_string(s->program),
                            "policy", gm_json_string(s->policy), "group",
                            s->group[0] ? gm_json_string(s->group) : json_null(), "limit_bytes", limit_bytes(s->limit),
                            "limit_percent", limit_percent(s->limit), "finished", s->finished, "ended", ended);
    json_t *suspended =
        !s->suspended.on
            ? json_null()
            : json_pack("{s:b, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "asleep", (int)s->suspended.asleep,
                        "away_bytes", gm_json_number(s->suspended.away), "stored_bytes",
                        gm_json_number(s->suspended.stored), "kept_bytes", gm_json_number(s->suspended.kept),
                        "registered_bytes", gm_json_number(s->suspended.registered), "suspends",
                        gm_json_number(s->suspended.suspends), "resumes", gm_json_number(s->suspended.resumes),
                        "out_ns", gm_json_number(s->suspended.out_ns), "in_ns", gm_json_number(s->suspended.in_ns),
                        "stayed", stayed(&s->suspended));
    json_t *shared = !s->shared.group[0]
                         ? json_null()
                         : json_pack("{s:o, s:b, s:o, s:o}", "group", gm_json_string(s->shared.group), "waits",
                                     s->shared.waits_since_ns != 0, "waited_ns", gm_json_number(s->shared.waited_ns),
                                     "left", gm_json_number(s->shared.left));
    json_t *counts = json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "allocs", gm_json_number(s->allocs), "frees",
        gm_json_number(s->frees), "failed_allocs", gm_json_number(s->total.failed_allocs), "failed_frees",
        gm_json_number(s->total.failed_frees), "temporary", gm_json_number(s->total.temporary), "moved",
        gm_json_number(s->total.moved), "hits", gm_json_number(s->hits), "hit_rate", real(r->hits_in_all), "trims",
        gm_json_number(s->total.trims), "trimmed_bytes", gm_json_number(s->total.trimmed_bytes), "oom_steps",
        gm_json_number(s->total.oom_steps), "time_in_calls_ns", gm_json_number(s->total.time_ns));
    json_t *memory =
        json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "live_bytes", gm_json_number(s->live_all), "kept_bytes",
                  gm_json_number(s->cached_all), "reserved_bytes", gm_json_number(s->reserved_all), "peak_bytes",
                  gm_json_number(s->peak_all), "beyond_bytes", gm_json_number(s->untracked), "peak_reserved_bytes",
                  gm_json_number(s->peak_reserved_all), "by_kind", kinds(s), "by_device", devices(s));
    bool done = all && !json_object_set_new(all, "counts", counts) &&
                !json_object_set_new(all, "suspended", suspended) && !json_object_set_new(all, "shared", shared) &&
                !json_object_set_new(all, "rates", rates(r)) && !json_object_set_new(all, "fences", fences(s, r)) &&
                !json_object_set_new(all, "memory", memory) &&
                (!sites || !json_object_set_new(all, "sites", call_sites(sites))) &&
                !json_dumpf(all, out, JSON_COMPACT) && fputc('\n', out) != EOF;
    json_decref(all);
    return done;
}

bool gm_top_json_group(FILE *out, const struct gm_group_sample *group, uint64_t time_ns) {
    json_t *devices = json_array();
    for (unsigned device = 0; device < group->devices; device++)
        json_array_append_new(
            devices, json_pack("{s:i, s:o}", "device", (int)device, "used_bytes", gm_json_number(group->used[device])));
    json_t *all =
        json_pack("{s:i, s:o, s:o, s:o, s:o, s:i, s:o}", "format", FORMAT, "time_ns", gm_json_number(time_ns), "group",
                  gm_json_string(group->name), "limit_bytes", limit_bytes(group->limit), "limit_percent",
                  limit_percent(group->limit), "processes", (int)group->processes, "devices", devices);
    bool done = all && !json_dumpf(all, out, JSON_COMPACT) && fputc('\n', out) != EOF;
    json_decref(all);
    return done;
}
#else
bool gm_top_json_group(FILE *out, const struct gm_group_sample *group, uint64_t time_ns) { return false; }
bool gm_top_json_there(void) { return false; }
bool gm_top_json(FILE *out, const struct gm_counter_sample *s, const struct gm_rates *r, bool ended,
                 const struct gm_top_sites *sites) {
    return false;
}
#endif
