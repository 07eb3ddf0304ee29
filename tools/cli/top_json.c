/* Writes counters of running processes as JSON. Unknown values are null. */
#include "tools/cli/top.h"

#ifdef GM_HAVE_JANSSON
#include <jansson.h>
#include <string.h>

enum { FORMAT = 1 };

bool gm_top_json_there(void) { return true; }

static json_t *number(uint64_t value) { return json_integer(value > INT64_MAX ? INT64_MAX : (json_int_t)value); }

static json_t *real(double value) { return value < 0 ? json_null() : json_real(value); }

/* Names are bytes and JSON is UTF-8. Bytes that are not UTF-8 become question marks. */
static json_t *text(const char *bytes) {
    char clean[512];
    size_t n = 0;
    json_t *value = json_string(bytes);
    if (value)
        return value;
    for (; bytes[n] && n < sizeof clean - 1; n++)
        clean[n] = bytes[n] & 0x80 ? '?' : bytes[n];
    clean[n] = 0;
    return json_string(clean);
}

static json_t *kinds(const struct gm_counter_sample *s) {
    json_t *all = json_object();
    for (int k = 0; k < GM_KIND_COUNT; k++) {
        if (!gm_counter_sample_has_kind(s, k))
            continue;
        json_t *one =
            json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "live_bytes", number(s->live[k]), "kept_bytes",
                      number(s->cached[k]), "reserved_bytes", number(s->reserved[k]), "peak_bytes", number(s->peak[k]),
                      "blocks", number(s->blocks[k]), "allocs", number(s->total.allocs[k]), "frees",
                      number(s->total.frees[k]), "hits", number(s->total.hits[k]));
        json_object_set_new(all, gm_kind_name((enum gm_kind)k), one);
    }
    return all;
}

static json_t *devices(const struct gm_counter_sample *s) {
    json_t *all = json_array();
    for (int device = 0; device < GM_STATS_DEVICES; device++) {
        const struct gm_device_sample *d = &s->devices[device];
        if (d->used)
            json_array_append_new(all, json_pack("{s:i, s:o, s:o, s:o, s:o, s:o, s:o}", "device", device, "uuid",
                                                 d->uuid[0] ? json_string(d->uuid) : json_null(), "live_bytes",
                                                 number(d->live), "peak_live_bytes", number(d->peak_live),
                                                 "reserved_bytes", number(d->reserved), "peak_reserved_bytes",
                                                 number(d->peak_reserved), "beyond_bytes", number(d->untracked)));
    }
    return all;
}

static json_t *fences(const struct gm_counter_sample *s, const struct gm_rates *r) {
    return json_pack("{s:o, s:o, s:o, s:o, s:o}", "records", number(s->total.fence_records), "queries",
                     number(s->total.fence_queries), "waits", number(s->total.fence_waits), "wait_ns",
                     number(s->total.fence_wait_ns), "waits_per_s", real(r->fence_waits));
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
        json_array_append_new(all, json_pack("{s:o, s:i, s:o, s:o}", "site", text(site->name), "device", site->device,
                                             "live_bytes", number(site->bytes), "blocks", number(site->blocks)));
    }
    return all;
}

bool gm_top_json(FILE *out, const struct gm_counter_sample *s, const struct gm_rates *r, bool ended,
                 const struct gm_top_sites *sites) {
    json_t *all = json_pack("{s:i, s:o, s:i, s:o, s:o, s:o, s:o, s:b, s:b}", "format", FORMAT, "time_ns",
                            number(s->time_ns), "pid", (int)s->pid, "program", text(s->program), "policy",
                            text(s->policy), "group", s->group[0] ? text(s->group) : json_null(), "limit_bytes",
                            s->limit ? number(s->limit) : json_null(), "finished", s->finished, "ended", ended);
    json_t *counts =
        json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "allocs", number(s->allocs), "frees",
                  number(s->frees), "failed_allocs", number(s->total.failed_allocs), "failed_frees",
                  number(s->total.failed_frees), "temporary", number(s->total.temporary), "moved",
                  number(s->total.moved), "hits", number(s->hits), "hit_rate", real(r->hits_in_all), "trims",
                  number(s->total.trims), "trimmed_bytes", number(s->total.trimmed_bytes), "oom_steps",
                  number(s->total.oom_steps), "time_in_calls_ns", number(s->total.time_ns));
    json_t *memory =
        json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "live_bytes", number(s->live_all), "kept_bytes",
                  number(s->cached_all), "reserved_bytes", number(s->reserved_all), "peak_bytes", number(s->peak_all),
                  "beyond_bytes", number(s->untracked), "peak_reserved_bytes", number(s->peak_reserved_all), "by_kind",
                  kinds(s), "by_device", devices(s));
    bool done = all && !json_object_set_new(all, "counts", counts) && !json_object_set_new(all, "rates", rates(r)) &&
                !json_object_set_new(all, "fences", fences(s, r)) && !json_object_set_new(all, "memory", memory) &&
                (!sites || !json_object_set_new(all, "sites", call_sites(sites))) &&
                !json_dumpf(all, out, JSON_COMPACT) && fputc('\n', out) != EOF;
    json_decref(all);
    return done;
}

bool gm_top_json_group(FILE *out, const struct gm_group_sample *group, uint64_t time_ns) {
    json_t *devices = json_array();
    for (unsigned device = 0; device < group->devices; device++)
        json_array_append_new(
            devices, json_pack("{s:i, s:o}", "device", (int)device, "used_bytes", number(group->used[device])));
    json_t *all = json_pack("{s:i, s:o, s:o, s:o, s:i, s:o}", "format", FORMAT, "time_ns", number(time_ns), "group",
                            text(group->name), "limit_bytes", group->limit ? number(group->limit) : json_null(),
                            "processes", (int)group->processes, "devices", devices);
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
