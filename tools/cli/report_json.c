/* Writes the report as JSON. Bytes and times (ns) are integers; unknown values are null. */
#include "tools/cli/trace_report.h"

#ifdef GM_HAVE_JANSSON
#include "tools/cli/cuda_result.h"
#include "tools/cli/json.h"

#include <stdio.h>
#include <stdlib.h>

#define FORMAT 1

struct gm_report_json {
    json_t *document, *traces;
};

bool gm_report_json_available(void) { return true; }

struct gm_report_json *gm_report_json_begin(void) {
    struct gm_report_json *j = calloc(1, sizeof *j);
    if (!j)
        return NULL;
    j->traces = json_array();
    j->document = json_pack("{s:i, s:s, s:O}", "format", FORMAT, "gpumem", GM_VERSION, "traces", j->traces);
    if (j->document && j->traces)
        return j;
    json_decref(j->document);
    json_decref(j->traces);
    free(j);
    return NULL;
}

static json_t *share(uint64_t count, uint64_t bytes) {
    return json_pack("{s:o, s:o}", "count", gm_json_number(count), "bytes", gm_json_number(bytes));
}

static json_t *process(const struct gm_report *r) {
    const struct gm_trace_header *h = r->header;
    json_t *devices = json_array();
    struct gm_device device;
    for (unsigned i = 0; gm_reader_device(r->reader, i, &device); i++)
        json_array_append_new(devices, json_pack("{s:i, s:o, s:o}", "device", device.device, "name",
                                                 gm_json_text(device.name), "bytes", gm_json_number(device.total)));
    json_t *interval = h->summary_ns ? gm_json_number(h->summary_ns) : json_null();
    return json_pack("{s:i, s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:b, s:b, s:b, s:o, s:o, s:o}", "pid", h->pid, "parent",
                     h->parent, "rank", h->rank < 0 ? json_null() : json_integer(h->rank), "host",
                     gm_json_text(h->host), "program", gm_json_text(h->program), "policy", gm_json_text(h->policy),
                     "library", gm_json_text(h->library), "epoch_ns", gm_json_number(h->epoch_ns), "finished",
                     h->finished == GM_TRACE_WHOLE, "stopped", h->finished == GM_TRACE_STOPPED, "ring", (int)h->ring,
                     "lost_events", gm_json_number(h->dropped), "devices", devices, "summary_ns", interval);
}

static json_t *totals(const struct gm_analysis *a) {
    json_t *t = json_object();
    const struct {
        const char *name;
        uint64_t value;
    } rows[] = {{"events", a->events},
                {"duration_ns", a->end_ns},
                {"call_ns", a->time_ns},
                {"allocations", a->allocs},
                {"older_blocks", a->older.count},
                {"older_bytes", a->older.bytes},
                {"allocated_bytes", a->alloc_bytes},
                {"frees", a->frees},
                {"temporary", a->temporary},
                {"hits", a->hits},
                {"moved", a->moved},
                {"trims", gm_analysis_trims(a).count},
                {"trimmed_bytes", gm_analysis_trims(a).bytes},
                {"failed_allocations", a->failed_allocs},
                {"failed_frees", a->failed_frees},
                {"unknown_frees", a->unknown_frees},
                {"replaced", a->replaced},
                {"peak_live_bytes", a->peak_bytes},
                {"peak_live_ns", a->peak_ns},
                {"peak_reserved_bytes", a->peak_reserved},
                {"peak_reserved_ns", a->peak_reserved_ns},
                {"peak_beyond_bytes", a->untracked.peak},
                {"peak_beyond_ns", a->untracked.peak_ns},
                {"memory_errors", a->error_count},
                {"leaked_blocks", a->leaked_count},
                {"leaked_bytes", a->leaked_bytes},
                {"released_blocks", a->released_count},
                {"released_bytes", a->released_bytes},
                {"to_host_memory_bytes", a->displaced[GM_KIND_HOST_NUMA].all.bytes},
                {"peak_in_host_memory_bytes", a->displaced[GM_KIND_HOST_NUMA].peak},
                {"to_host_memory_ns", a->displaced_ns[GM_KIND_HOST_NUMA]},
                {"to_managed_memory_bytes", a->displaced[GM_KIND_MANAGED].all.bytes},
                {"peak_in_managed_memory_bytes", a->displaced[GM_KIND_MANAGED].peak},
                {"to_managed_memory_ns", a->displaced_ns[GM_KIND_MANAGED]}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        json_object_set_new(t, rows[i].name, gm_json_number(rows[i].value));
    return t;
}

static json_t *kinds(const struct gm_kind_totals *by_kind) {
    json_t *list = json_array();
    for (int k = 0; k < GM_KIND_COUNT; k++) {
        const struct gm_kind_totals *t = &by_kind[k];
        if (t->allocs || t->frees || t->live_count || t->peak_bytes)
            json_array_append_new(
                list, json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:o}", "kind", gm_kind_name((enum gm_kind)k),
                                "allocations", gm_json_number(t->allocs), "allocated_bytes", gm_json_number(t->bytes),
                                "frees", gm_json_number(t->frees), "live_bytes", gm_json_number(t->live_bytes),
                                "peak_live_bytes", gm_json_number(t->peak_bytes), "at_peak_bytes",
                                gm_kind_is_on_device((enum gm_kind)k) ? gm_json_number(t->at_peak) : json_null()));
    }
    return list;
}

static json_t *devices(const struct gm_analysis *a) {
    json_t *list = json_array();
    for (unsigned device = 0; device < GM_DEVICES; device++) {
        const struct gm_device_totals *d = &a->devices[device];
        if (gm_analysis_has_device(a, device))
            json_array_append_new(
                list,
                json_pack("{s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "device", (int)device,
                          "allocations", gm_json_number(d->allocs), "allocated_bytes", gm_json_number(d->bytes),
                          "frees", gm_json_number(d->frees), "failed_allocations", gm_json_number(d->failed_allocs),
                          "peak_live_bytes", gm_json_number(d->peak), "peak_live_ns", gm_json_number(d->peak_ns),
                          "peak_reserved_bytes", gm_json_number(d->peak_reserved), "peak_reserved_ns",
                          gm_json_number(d->peak_reserved_ns), "peak_beyond_bytes", gm_json_number(d->untracked_peak),
                          "leaked_blocks", gm_json_number(d->leaked_count), "leaked_bytes",
                          gm_json_number(d->leaked_bytes), "by_kind", kinds(d->by_kind)));
    }
    return list;
}

static json_t *calls(const struct gm_analysis *a) {
    json_t *list = json_array();
    for (int c = 1; c < GM_CALL_COUNT; c++) {
        const struct gm_call_totals *t = &a->by_call[c];
        if (t->count)
            json_array_append_new(list,
                                  json_pack("{s:s, s:o, s:o, s:o, s:o, s:o}", "call", gm_call_name((enum gm_call)c),
                                            "calls", gm_json_number(t->count), "failed", gm_json_number(t->failed),
                                            "allocated_bytes", gm_json_number(t->allocated), "freed_bytes",
                                            gm_json_number(t->freed), "ns", gm_json_number(t->time_ns)));
    }
    return list;
}

static json_t *decisions(const struct gm_analysis *a) {
    static const char *const promises[GM_SOFT_PROMISES] = {"ipc", "peer", "rdma"};
    json_t *list = json_array(), *verdicts = json_object(), *dropped = json_object();
    for (int k = 0; k < GM_KIND_COUNT; k++) {
        for (int why = 0; why < GM_REASON_COUNT; why++) {
            const struct gm_count_and_bytes *s = &a->decisions[k][why];
            if (s->count)
                json_array_append_new(list, json_pack("{s:s, s:s, s:o, s:o}", "kind", gm_kind_name((enum gm_kind)k),
                                                      "reason", gm_reason_name((enum gm_reason)why), "count",
                                                      gm_json_number(s->count), "bytes", gm_json_number(s->bytes)));
        }
        if (a->verdicts[k].count)
            json_object_set_new(verdicts, gm_kind_name((enum gm_kind)k),
                                share(a->verdicts[k].count, a->verdicts[k].bytes));
    }
    for (int i = 0; i < GM_SOFT_PROMISES; i++)
        json_object_set_new(dropped, promises[i], gm_json_number(a->dropped[i]));
    return json_pack("{s:o, s:o, s:o}", "served", list, "noted_verdicts", verdicts, "dropped_promises", dropped);
}

static json_t *sites(struct gm_report *r) {
    json_t *list = json_array();
    gm_report_sort_sites(r, GM_BY_BYTES);
    for (size_t i = 0; i < r->site_count; i++) {
        const struct gm_site_totals *s = &r->sites[i].totals;
        json_t *site = gm_json_frame(&r->sites[i].name);
        json_t *counts =
            json_pack("{s:b, s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "of_toolkit", (int)r->sites[i].name.toolkit,
                      "device", s->device, "allocations", gm_json_number(s->allocs), "allocated_bytes",
                      gm_json_number(s->bytes), "temporary", gm_json_number(s->temporary), "failed",
                      gm_json_number(s->failed), "at_peak_bytes", gm_json_number(s->at_peak), "leaked_blocks",
                      gm_json_number(s->leaked_count), "leaked_bytes", gm_json_number(s->leaked_bytes));
        json_object_update(site, counts);
        json_decref(counts);
        if (r->stacks) {
            struct gm_site_names names = gm_report_site_names(r, &r->sites[i]);
            json_object_set_new(site, "callers", gm_json_frames(names.names + 1, names.count - 1));
            json_object_set_new(site, "wrappers", gm_json_frames(names.wrappers, names.wrapper_count));
        }
        json_array_append_new(list, site);
    }
    return list;
}

static json_t *own_wrappers(const struct gm_own_wrappers *own) {
    json_t *names = json_array();
    for (unsigned i = 0; i < own->count; i++)
        json_array_append_new(names, gm_json_text(own->names[i]));
    return json_pack("{s:o, s:o, s:o}", "functions", names, "stacks_through", gm_json_number(own->passing), "stacks",
                     gm_json_number(own->stacks));
}

static json_t *failures(const struct gm_report *r) {
    const struct gm_analysis *a = r->a;
    json_t *list = json_array();
    struct gm_frame_name name;
    for (unsigned i = 0; i < a->failure_count; i++) {
        const struct gm_failure *f = &a->failures[i];
        gm_symbols_site(r->symbols, f->site, &name);
        json_array_append_new(
            list, json_pack("{s:o, s:i, s:s, s:s, s:o, s:i, s:s, s:o, s:o}", "time_ns", gm_json_number(f->time_ns),
                            "device", f->device, "action", gm_action_name((enum gm_action)f->action), "call",
                            gm_call_name((enum gm_call)f->call), "bytes", gm_json_number(f->bytes), "result",
                            (int)f->result, "result_name", gm_result_name(f->result), "live_bytes",
                            gm_json_number(f->live_bytes), "site", gm_json_frame(&name)));
    }
    return list;
}

static json_t *sizes(const struct gm_analysis *a) {
    json_t *list = json_array();
    for (size_t i = 0; i < a->size_count; i++)
        json_array_append_new(list, share(a->sizes[i].count, a->sizes[i].size));
    return list;
}

static json_t *lifetimes(const struct gm_analysis *a) {
    json_t *list = json_array();
    uint64_t limit = 1000;
    for (int i = 0; i < GM_LIFETIME_BINS; i++, limit *= 10)
        json_array_append_new(list, json_pack("{s:o, s:o, s:o}", "below_ns",
                                              i < GM_LIFETIME_BINS - 1 ? gm_json_number(limit) : json_null(), "count",
                                              gm_json_number(a->lifetime_count[i]), "bytes",
                                              gm_json_number(a->lifetime_bytes[i])));
    return list;
}

void *gm_report_json_document(struct gm_report_json *j) { return j->document; }

void *gm_report_json_add(struct gm_report_json *j, struct gm_report *r) {
    json_t *trace =
        json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "file", gm_json_text(r->path),
                  "process", process(r), "damaged_parts", gm_json_number(gm_reader_damaged(r->reader)), "totals",
                  totals(r->a), "by_device", devices(r->a), "by_kind", kinds(r->a->by_kind), "by_call", calls(r->a),
                  "decisions", decisions(r->a), "stepped_past", own_wrappers(gm_symbols_own_wrappers(r->symbols)),
                  "sites", sites(r), "failures", failures(r), "sizes", sizes(r->a), "lifetimes", lifetimes(r->a));
    return trace && !json_array_append_new(j->traces, trace) ? trace : NULL;
}

void *gm_report_json_release(struct gm_report_json *j) {
    json_t *document = j->document;
    json_decref(j->traces);
    free(j);
    return document;
}

bool gm_report_json_end(struct gm_report_json *j) {
    json_t *document = gm_report_json_release(j);
    int status = json_dumpf(document, stdout, JSON_INDENT(1));
    putchar('\n');
    json_decref(document);
    return status == 0;
}
#else
bool gm_report_json_available(void) { return false; }
struct gm_report_json *gm_report_json_begin(void) {
    return NULL;
}
void *gm_report_json_document(struct gm_report_json *json) { return NULL; }
void *gm_report_json_add(struct gm_report_json *json, struct gm_report *report) {
    (void)json, (void)report;
    return NULL;
}
bool gm_report_json_end(struct gm_report_json *json) { return false; }
void *gm_report_json_release(struct gm_report_json *json) { return NULL; }
#endif
