/* The memory errors and leaks of reports as SARIF 2.1.0, which code hosts and editors show beside the source. */
#include "tools/cli/trace_report.h"

#ifdef GM_HAVE_JANSSON
#include "tools/cli/json.h"
#include "tools/cli/number_text.h"

#include <stdio.h>
#include <stdlib.h>

#define SCHEMA "https://json.schemastore.org/sarif-2.1.0.json"
#define LEAK   "leak"

struct gm_report_sarif {
    json_t *runs;
};

struct gm_report_sarif *gm_report_sarif_begin(void) {
    struct gm_report_sarif *s = malloc(sizeof *s);
    if (s && (s->runs = json_array()))
        return s;
    free(s);
    return NULL;
}

static json_t *message(const char *text) { return json_pack("{s:o}", "text", gm_json_string(text)); }

/* A whole path is no URI without a scheme. */
static json_t *uri(const char *path) {
    char text[sizeof(((struct gm_frame_name *)0)->file) + 8];
    snprintf(text, sizeof text, "%s%s", *path == '/' ? "file://" : "", path);
    return gm_json_string(text);
}

/* NULL: nothing is known of the site. Without debug information a location is a name. */
static json_t *location(struct gm_report *r, uint32_t site, const char *words) {
    static struct gm_frame_name name;
    if (!site)
        return NULL;
    gm_symbols_site(r->symbols, site, &name);
    json_t *made = json_pack("{s:[{s:o}]}", "logicalLocations", "fullyQualifiedName",
                             gm_json_string(name.function[0] ? name.function : name.text));
    if (name.file[0])
        json_object_set_new(made, "physicalLocation",
                            json_pack("{s:{s:o}, s:{s:i}}", "artifactLocation", "uri", uri(name.file), "region",
                                      "startLine", name.line > 0 ? name.line : 1));
    if (words)
        json_object_set_new(made, "message", message(words));
    return made;
}

static void append(json_t *list, json_t *item) {
    if (item)
        json_array_append_new(list, item);
}

/* The first site that is known is the place of the result. */
static json_t *result(struct gm_report *r, const char *rule, const char *level, const char *text,
                      const uint32_t sites[3], bool suppressed) {
    static const char *const words[] = {"call", "allocated here", "freed here"};
    json_t *made = json_pack("{s:s, s:s, s:o}", "ruleId", rule, "level", level, "message", message(text));
    json_t *places = json_array(), *related = json_array();
    for (unsigned i = 0; i < 3; i++)
        append(json_array_size(places) ? related : places, location(r, sites[i], words[i]));
    json_object_set_new(made, "locations", places);
    json_object_set_new(made, "relatedLocations", related);
    if (suppressed)
        json_object_set_new(made, "suppressions", json_pack("[{s:s}]", "kind", "external"));
    return made;
}

static json_t *rules(void) {
    json_t *list = json_array();
    for (int i = GM_ERROR_NONE + 1; i < GM_ERROR_COUNT; i++)
        append(list, json_pack("{s:s}", "id", gm_error_name((enum gm_memory_error)i)));
    append(list, json_pack("{s:s}", "id", LEAK));
    return list;
}

static void add_leaks(struct gm_report *r, json_t *results) {
    char text[128];
    struct gm_text room[2];
    for (size_t i = 0; i < r->site_count; i++) {
        const struct gm_site_totals *s = &r->sites[i].totals;
        uint64_t count = s->leaked_count + s->suppressed_count, bytes = s->leaked_bytes + s->suppressed_bytes;
        if (!count || r->sites[i].name.toolkit)
            continue;
        snprintf(text, sizeof text, "%s of GPU memory leaked in %s %s", gm_text_bytes(&room[0], bytes),
                 gm_text_count(&room[1], count), count == 1 ? "block" : "blocks");
        append(results, result(r, LEAK, "warning", text, (const uint32_t[]){0, s->id, 0}, !s->leaked_count));
    }
}

bool gm_report_sarif_add(struct gm_report_sarif *sarif, struct gm_report *r) {
    json_t *results = json_array();
    for (size_t i = 0; i < r->a->error_count; i++) {
        const struct gm_event *e = &r->a->errors[i];
        append(results,
               result(r, gm_error_name((enum gm_memory_error)e->result), e->result == GM_ERROR_RACE ? "note" : "error",
                      gm_error_text(r, e), (const uint32_t[]){e->site, e->error.allocated_at, e->error.freed_at},
                      r->error_suppressed[i]));
    }
    if (r->header->finished == GM_TRACE_WHOLE)
        add_leaks(r, results);
    json_t *run = json_pack("{s:{s:{s:s, s:s, s:o}}, s:o}", "tool", "driver", "name", "gpumem", "version", GM_VERSION,
                            "rules", rules(), "results", results);
    return run && !json_array_append_new(sarif->runs, run);
}

bool gm_report_sarif_end(struct gm_report_sarif *sarif) {
    json_t *document = json_pack("{s:s, s:s, s:o}", "$schema", SCHEMA, "version", "2.1.0", "runs", sarif->runs);
    bool written = document && !json_dumpf(document, stdout, JSON_INDENT(2)) && putchar('\n') != EOF;
    json_decref(document);
    free(sarif);
    return written;
}

#else
struct gm_report_sarif *gm_report_sarif_begin(void) {
    return NULL;
}
bool gm_report_sarif_add(struct gm_report_sarif *sarif, struct gm_report *report) { return false; }
bool gm_report_sarif_end(struct gm_report_sarif *sarif) { return false; }
#endif
