/* Call sites of a report: their names, their order, and which of their leaks a suppression covers. */
#include "tools/cli/trace_report.h"
#include "tools/cli/sort.h"

#include <stdlib.h>
#include <string.h>

static void add(struct gm_site_totals *sum, const struct gm_site_totals *more) {
    sum->allocs += more->allocs;
    sum->bytes += more->bytes;
    sum->temporary += more->temporary;
    sum->temporary_bytes += more->temporary_bytes;
    sum->released_count += more->released_count;
    sum->released_bytes += more->released_bytes;
    sum->suppressed_count += more->suppressed_count;
    sum->suppressed_bytes += more->suppressed_bytes;
    sum->grown_count += more->grown_count;
    sum->grown_bytes += more->grown_bytes;
    if (more->grown_most > sum->grown_most)
        sum->grown_most = more->grown_most;
    sum->failed += more->failed;
    sum->live_count += more->live_count;
    sum->live_bytes += more->live_bytes;
    sum->leaked_count += more->leaked_count;
    sum->leaked_bytes += more->leaked_bytes;
    sum->at_peak += more->at_peak;
    sum->freed_last_count += more->freed_last_count;
    sum->freed_last_bytes += more->freed_last_bytes;
}

/* Equal texts in one module are the same call site: without symbols the text has the offset. Two loaded files may have
 * the same name, so the path counts. What a library requested for itself is apart. */
static int compare_names(const struct gm_report_site *a, const struct gm_report_site *b) {
    int difference = strcmp(a->name.text, b->name.text);
    if (!difference)
        difference = strcmp(a->name.module, b->name.module);
    if (!difference)
        difference = (int)a->name.toolkit - (int)b->name.toolkit;
    return difference ? difference : a->totals.device - b->totals.device;
}

static int by_name(const void *x, const void *y) {
    const struct gm_report_site *a = x, *b = y;
    int difference = compare_names(a, b);
    return difference ? difference : a->totals.id < b->totals.id ? -1 : a->totals.id > b->totals.id;
}

static struct gm_frame_name stack[GM_STACK_ROOM];

/* A suppression may begin with the function that requested the memory, with the first one outside the known wrappers,
 * or with the call site. */
static bool is_covered(struct gm_report *r, enum gm_suppressed kind, uint32_t site, uint64_t blocks, uint64_t bytes) {
    static const enum gm_stack_begin begins[] = {GM_STACK_REQUESTER, GM_STACK_KNOWN, GM_STACK_SITE};
    for (unsigned i = 0; i < sizeof begins / sizeof *begins; i++) {
        unsigned count = gm_symbols_stack(r->symbols, site, begins[i], stack, GM_STACK_ROOM);
        if (gm_suppressions_cover(r->suppressions, kind, stack, count, blocks, bytes))
            return true;
    }
    return false;
}

static void suppress(struct gm_report *r, struct gm_site_totals *s) {
    if (!r->suppressions || !s->leaked_count ||
        !is_covered(r, GM_SUPPRESSED_LEAK, s->id, s->leaked_count, s->leaked_bytes))
        return;
    s->suppressed_count = s->leaked_count;
    s->suppressed_bytes = s->leaked_bytes;
    s->leaked_count = s->leaked_bytes = 0;
}

/* The frames of a suppression are those of the call at fault, of the allocation, or of the free. */
bool gm_report_make_errors(struct gm_report *r) {
    r->error_suppressed = calloc(r->a->error_count + 1, sizeof *r->error_suppressed);
    for (size_t i = 0; r->error_suppressed && r->suppressions && i < r->a->error_count; i++) {
        const struct gm_event *e = &r->a->errors[i];
        const uint32_t sites[] = {e->site, e->error.allocated_at, e->error.freed_at};
        for (unsigned s = 0; s < 3 && !r->error_suppressed[i]; s++)
            r->error_suppressed[i] = sites[s] && is_covered(r, GM_SUPPRESSED_ERROR, sites[s], 1, 0);
    }
    return r->error_suppressed != NULL;
}

struct gm_errors gm_report_errors(const struct gm_report *r) {
    struct gm_errors sum = {0};
    for (size_t i = 0; i < r->a->error_count; i++) {
        bool race = r->a->errors[i].result == GM_ERROR_RACE;
        if (r->error_suppressed[i])
            sum.suppressed++;
        else if (race)
            sum.races++;
        else
            sum.count += !r->a->errors[i].hit;
    }
    return sum;
}

bool gm_report_make_sites(struct gm_report *r) {
    const struct gm_analysis *a = r->a;
    size_t last_index = 0;
    r->sites = calloc(a->site_count + 1, sizeof *r->sites);
    if (!r->sites || !gm_report_make_errors(r))
        return false;
    for (size_t i = 0; i < a->site_count; i++) {
        r->sites[i].totals = a->sites[i];
        gm_symbols_site(r->symbols, a->sites[i].id, &r->sites[i].name);
        suppress(r, &r->sites[i].totals);
    }
    r->site_count = a->site_count;
    if (!r->stacks && r->site_count) {
        gm_sort(r->sites, r->site_count, sizeof *r->sites, by_name);
        for (size_t i = 1; i < r->site_count; i++) {
            struct gm_report_site *last = &r->sites[last_index], *site = &r->sites[i];
            if (!compare_names(last, site))
                add(&last->totals, &site->totals);
            else
                r->sites[++last_index] = *site;
        }
        r->site_count = last_index + 1;
    }
    gm_report_sort_sites(r, GM_BY_BYTES);
    return true;
}

static int compare(uint64_t a, uint64_t b, uint32_t id_a, uint32_t id_b) {
    if (a != b)
        return a < b ? 1 : -1;
    return id_a > id_b ? 1 : id_a < id_b ? -1 : 0;
}

#define BY(field)                                                                     \
    static int by_##field(const void *x, const void *y) {                             \
        const struct gm_site_totals *a = &((const struct gm_report_site *)x)->totals, \
                                    *b = &((const struct gm_report_site *)y)->totals; \
        return compare(a->field, b->field, a->id, b->id);                             \
    }
BY(bytes)
BY(at_peak)
BY(leaked_bytes)
BY(temporary)
BY(grown_bytes)
BY(freed_last_bytes)

void gm_report_sort_sites(struct gm_report *r, enum gm_report_order order) {
    static int (*const orders[])(const void *, const void *) = {
        [GM_BY_BYTES] = by_bytes,         [GM_BY_PEAK] = by_at_peak,      [GM_BY_LEAK] = by_leaked_bytes,
        [GM_BY_TEMPORARY] = by_temporary, [GM_BY_GROWN] = by_grown_bytes, [GM_BY_FREED_LAST] = by_freed_last_bytes};
    gm_sort(r->sites, r->site_count, sizeof *r->sites, orders[order]);
}

struct gm_leaks gm_report_leaks(const struct gm_report *r) {
    struct gm_leaks sum = {0};
    for (size_t i = 0; i < r->site_count; i++) {
        const struct gm_site_totals *s = &r->sites[i].totals;
        struct gm_count_and_bytes *owner = r->sites[i].name.toolkit ? &sum.toolkit : &sum.own;
        sum.freed_last.count += s->freed_last_count;
        sum.freed_last.bytes += s->freed_last_bytes;
        owner->count += s->leaked_count;
        owner->bytes += s->leaked_bytes;
        sum.suppressed.count += s->suppressed_count;
        sum.suppressed.bytes += s->suppressed_bytes;
    }
    return sum;
}

struct gm_site_names gm_report_site_names(struct gm_report *r, const struct gm_report_site *site) {
    struct gm_site_names names = {.names = &site->name, .count = 1, .wrappers = stack};
    if (!r->stacks)
        return names;
    unsigned count = gm_symbols_stack(r->symbols, site->totals.id, GM_STACK_REQUESTER, stack, GM_STACK_ROOM);
    names.wrapper_count = gm_symbols_wrappers(r->symbols, site->totals.id);
    if (names.wrapper_count < count) {
        names.names = stack + names.wrapper_count;
        names.count = count - names.wrapper_count;
    }
    return names;
}
