/* Report part --memory-errors: what GPUMEM_GUARD found, each error once, with the call at fault or that saw it, and the
 * allocation and free of the block. */
#include "tools/cli/colour.h"
#include "tools/cli/number_text.h"
#include "tools/cli/section.h"

#include <stdio.h>

const char *gm_error_name(enum gm_memory_error error) {
    static const char *const names[] = {
#define X(e, n) n,
        GM_MEMORY_ERRORS(X)
#undef X
    };
    return (unsigned)error < GM_ERROR_COUNT ? names[error] : "unknown";
}

const char *gm_error_text(const struct gm_report *r, const struct gm_event *e) {
    const char *text = gm_reader_string(r->reader, e->error.text);
    return text ? text : "its text is not in the trace";
}

/* ---- text */

static void print_site(struct gm_report *r, const char *label, uint32_t site) {
    struct gm_frame_name name;
    if (!site)
        return;
    gm_symbols_site(r->symbols, site, &name);
    printf("    %-13s %s\n", label, name.text);
}

/* NULL: it counts. */
static const char *state_of(const struct gm_report *r, size_t i) {
    if (r->error_suppressed[i])
        return "suppressed";
    return r->a->errors[i].hit ? "follows from the one before" : NULL;
}

static void print_error(struct gm_report *r, size_t i) {
    const struct gm_event *e = &r->a->errors[i];
    struct gm_text time;
    const char *state = state_of(r, i);
    bool bad = !state && e->result != GM_ERROR_RACE;
    printf("  %s%s%s at %s%s%s\n    %s\n", gm_paint(stdout, bad ? GM_BAD : GM_PLAIN),
           gm_error_name((enum gm_memory_error)e->result), gm_paint(stdout, GM_PLAIN), gm_text_time(&time, e->time_ns),
           state ? ", " : "", state ? state : "", gm_error_text(r, e));
    print_site(r, "call", e->site);
    print_site(r, "allocated by", e->error.allocated_at);
    print_site(r, "freed by", e->error.freed_at);
}

void gm_report_errors_text(struct gm_report *r) {
    const struct gm_errors sum = gm_report_errors(r);
    struct gm_text count[3];
    if (!r->a->error_count)
        return;
    gm_print_heading("MEMORY ERRORS (each once)");
    for (size_t i = 0; i < r->a->error_count && i < r->top; i++)
        print_error(r, i);
    if (r->a->error_count > r->top)
        printf("  and %s more\n", gm_text_count(&count[0], r->a->error_count - r->top));
    printf("  memory errors: %s; suppressed: %s; possible races: %s\n", gm_text_count(&count[0], sum.count),
           gm_text_count(&count[1], sum.suppressed), gm_text_count(&count[2], sum.races));
}

/* ---- JSON */

static void add_row(struct gm_report *r, size_t i, struct gm_out *out) {
    static struct gm_frame_name site, allocated, freed;
    const struct gm_event *e = &r->a->errors[i];
    site.text[0] = allocated.text[0] = freed.text[0] = '\0';
    if (e->site)
        gm_symbols_site(r->symbols, e->site, &site);
    if (e->error.allocated_at)
        gm_symbols_site(r->symbols, e->error.allocated_at, &allocated);
    if (e->error.freed_at)
        gm_symbols_site(r->symbols, e->error.freed_at, &freed);
    gm_out_row(out,
               (struct gm_value[]){GM_T(gm_error_name((enum gm_memory_error)e->result)), GM_T(gm_error_text(r, e)),
                                   GM_N(e->time_ns), GM_N(e->error.address), GM_N(e->error.bytes),
                                   GM_N(e->device < 0 ? GM_UNKNOWN : (uint64_t)e->device), GM_T(state_of(r, i)),
                                   GM_T(site.text), GM_T(allocated.text), GM_T(freed.text)},
               NULL);
}

static void print_json(struct gm_report *r, struct gm_out *out) {
    static const struct gm_column columns[] = {{"error", "error", GM_CELL_TEXT},
                                               {"text", "text", GM_CELL_TEXT},
                                               {"time_ns", "at", GM_CELL_TIME},
                                               {"address", "block", GM_CELL_HEX},
                                               {"bytes", "bytes", GM_CELL_BYTES},
                                               {"device", "device", GM_CELL_NUMBER},
                                               {"state", "state", GM_CELL_TEXT},
                                               {"call", "call", GM_CELL_TEXT},
                                               {"allocated_by", "allocated by", GM_CELL_TEXT},
                                               {"freed_by", "freed by", GM_CELL_TEXT}};
    const struct gm_errors sum = gm_report_errors(r);
    gm_out_section(out, "memory_errors", "MEMORY ERRORS");
    gm_out_fact(out, "count", "memory errors", GM_CELL_COUNT, sum.count);
    gm_out_fact(out, "suppressed", "suppressed", GM_CELL_COUNT, sum.suppressed);
    gm_out_fact(out, "possible_races", "possible races", GM_CELL_COUNT, sum.races);
    gm_out_table(out, "errors", columns, sizeof columns / sizeof *columns);
    for (size_t i = 0; i < r->a->error_count; i++)
        add_row(r, i, out);
    gm_out_table_end(out);
}

bool gm_print_errors(struct gm_report *r, struct gm_observer *observer, struct gm_out *out) {
    if (out->json) {
        print_json(r, out);
    } else if (r->a->error_count) {
        gm_report_errors_text(r);
    } else {
        gm_print_heading("MEMORY ERRORS");
        puts("  none: gpumem run --guard=all finds some kinds");
    }
    return true;
}
