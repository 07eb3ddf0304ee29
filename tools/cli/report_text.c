/* Writes the report as text. */
#include "tools/cli/colour.h"
#include "tools/cli/cuda_result.h"
#include "tools/cli/number_text.h"
#include "tools/cli/shown.h"
#include "tools/cli/trace_glossary.h"
#include "tools/cli/trace_report.h"
#include "tools/cli/trace_window.h"

#include <stdio.h>
#include <string.h>

#define BAR 40 /* width of a full bar */

static struct gm_text room[6], more;
#define BYTES(i, v) gm_text_bytes(&room[i], (v))
#define TIME(i, v)  gm_text_time(&room[i], (v))
#define COUNT(i, v) gm_text_count(&room[i], (v))

static const char *blocks(uint64_t count) { return count == 1 ? "block" : "blocks"; }

/* What is shown of the trace, if that is not all of it. */
static void print_part(void) {
    if (gm_window.from_ns)
        printf("from %s of the trace on: times count from there\n", TIME(0, gm_window.from_ns));
    if (gm_window.until_ns != UINT64_MAX)
        printf("until %s of the trace\n", TIME(0, gm_window.until_ns));
    if (gm_window.min_bytes)
        printf("only blocks of at least %s\n", BYTES(0, gm_window.min_bytes));
}

static void print_stepping(const struct gm_own_wrappers *own) {
    if (!own->count)
        return;
    printf("call sites: the callers of ");
    for (unsigned i = 0; i < own->count; i++)
        printf("%s%s", i ? ", " : "", own->names[i]);
    printf("; %s of %s call stacks pass through %s; --skip=none names %s\n", COUNT(0, own->passing),
           COUNT(1, own->stacks), own->count == 1 ? "it" : "them", own->count == 1 ? "it" : "them");
}

void gm_report_head(const struct gm_report *r) {
    const struct gm_trace_header *h = r->header;
    const struct gm_analysis *a = r->a;
    struct gm_device device;
    printf("%s%s%s: pid %d", gm_paint(stdout, GM_BOLD), GM_SHOWN(r->path), gm_paint(stdout, GM_PLAIN), h->pid);
    if (h->rank >= 0)
        printf(", rank %d", h->rank);
    if (h->host[0])
        printf(" on %s", h->host);
    printf(", %s, policy %s\n", h->program[0] ? h->program : "unknown program", h->policy[0] ? h->policy : "unknown");
    for (unsigned i = 0; gm_reader_device(r->reader, i, &device); i++)
        printf("device %d: %s, %s\n", device.device, device.name, BYTES(0, device.total));
    if (h->summary_ns)
        printf("summary in intervals of %s over %s: by call site and kind of memory, without single blocks\n",
               TIME(0, h->summary_ns), TIME(1, a->end_ns));
    else
        printf("%s events over %s\n", COUNT(0, a->events), TIME(1, a->end_ns));
    print_part();
    if (h->finished == GM_TRACE_CUT)
        puts("note: the program did not end normally (killed, crashed, or still running)");
    if (h->finished == GM_TRACE_STOPPED)
        puts(gm_window.until_ns == UINT64_MAX ? "note: recording was stopped before the program ended"
                                              : "note: the part ends before the program did");
    if (h->ring)
        puts("note: a ring (GPUMEM_TRACE_RING): only the latest events and the allocations of live blocks");
    if (h->dropped && h->limit)
        printf("note: %s events did not fit below GPUMEM_TRACE_LIMIT=%s\n", COUNT(0, h->dropped), BYTES(1, h->limit));
    else if (h->dropped)
        printf("note: %s events were lost while writing (disk full?)\n", COUNT(0, h->dropped));
    if (gm_reader_damaged(r->reader))
        printf("note: %s damaged or missing parts of the file were skipped\n", COUNT(0, gm_reader_damaged(r->reader)));
    print_stepping(gm_symbols_own_wrappers(r->symbols));
}

/* Memory that an out-of-memory step served in place of the device's. Only the managed part counts in the peak. */
static void print_displaced(const struct gm_analysis *a) {
    for (int k = 0; k < GM_KIND_COUNT; k++) {
        const struct gm_count_and_bytes *moved = &a->displaced[k].all;
        if (moved->count)
            printf("  %-16s  %s at most, since %s; at the end %s; %s %s: the device had no room, and this memory is "
                   "slower\n",
                   gm_kind_is_on_device((enum gm_kind)k) ? "of it managed" : "in host memory",
                   BYTES(0, a->displaced[k].peak), TIME(1, a->displaced_ns[k]), BYTES(2, a->displaced[k].live),
                   COUNT(3, moved->count), moved->count == 1 ? "allocation" : "allocations");
    }
}

static void print_totals(struct gm_report *r) {
    const struct gm_analysis *a = r->a;
    bool summary = r->header->summary_ns;
    gm_print_heading("TOTALS");
    printf("  allocations       %s (%s)\n", COUNT(0, a->allocs), BYTES(1, a->alloc_bytes));
    printf("  frees             %s\n", COUNT(0, a->frees));
    if (a->older.count)
        printf("  live before       %s in %s %s (made before recording began; counted with the allocations)\n",
               BYTES(0, a->older.bytes), COUNT(1, a->older.count), blocks(a->older.count));
    if (!summary)
        printf("  temporary         %s (%s of the allocations: freed before their thread allocated again)\n",
               COUNT(0, a->temporary), gm_text_percent(&room[1], a->temporary, a->allocs));
    if (!r->devices) {
        printf("  peak live         %s at %s\n", BYTES(0, a->peak_bytes), TIME(1, a->peak_ns));
        printf("  peak reserved     %s at %s\n", BYTES(0, a->peak_reserved), TIME(1, a->peak_reserved_ns));
    }
    if (a->untracked.peak && !r->devices)
        printf("  beyond gpumem     %s at %s: contexts, modules, graphs, libraries%s\n", BYTES(0, a->untracked.peak),
               TIME(1, a->untracked.peak_ns), a->untracked.shared ? "; other processes of the card included" : "");
    print_displaced(a);
    printf("  live at the end   %s in %s %s\n", BYTES(0, a->leaked_bytes), COUNT(1, a->leaked_count),
           blocks(a->leaked_count));
    if (a->released_count)
        printf("  with its context  %s in %s %s\n", BYTES(0, a->released_bytes), COUNT(1, a->released_count),
               blocks(a->released_count));
    if (!summary)
        printf("  in memory calls   %s (%s of the time from first to last event; all threads together)\n",
               TIME(0, a->time_ns), gm_text_percent(&room[1], a->time_ns, a->end_ns));
    if (a->hits)
        printf("  reused            %s (%s of the allocations: served from the cache)\n", COUNT(0, a->hits),
               gm_text_percent(&room[1], a->hits, a->allocs));
    if (a->moved)
        printf("  moved             %s to another kind of memory than requested\n", COUNT(0, a->moved));
    struct gm_count_and_bytes trims = gm_analysis_trims(a);
    if (trims.count)
        printf("  trimmed           %s of kept memory given back, in %s %s\n", BYTES(0, trims.bytes),
               COUNT(1, trims.count), trims.count == 1 ? "step" : "steps");
    if (a->failed_allocs || a->failed_frees)
        printf("  failed            %s allocations, %s frees\n", COUNT(0, a->failed_allocs), COUNT(1, a->failed_frees));
    if (a->unknown_frees)
        printf("  unknown frees     %s of blocks whose allocation is not in the trace\n", COUNT(0, a->unknown_frees));
    if (a->replaced)
        printf("  replaced          %s blocks without a free in the trace\n", COUNT(0, a->replaced));
}

static void print_devices(struct gm_report *r) {
    if (!r->devices)
        return;
    gm_print_heading(
        "BY DEVICE      allocations       frees    peak live           at  peak reserved  beyond gpumem  live at "
        "the end");
    for (unsigned device = 0; device < GM_DEVICES; device++) {
        const struct gm_device_totals *t = &r->a->devices[device];
        bool reserved = !r->header->summary_ns; /* a summary has these bytes of all devices together */
        if (gm_analysis_has_device(r->a, device))
            printf("  device %-4u %12s %11s %12s %12s %14s %14s %16s\n", device, COUNT(0, t->allocs),
                   COUNT(1, t->frees), BYTES(2, t->peak), TIME(3, t->peak_ns),
                   reserved ? BYTES(4, t->peak_reserved) : "-", t->untracked_peak ? BYTES(5, t->untracked_peak) : "-",
                   gm_text_bytes(&more, t->leaked_bytes));
    }
}

static void print_kinds_of(const struct gm_kind_totals *kinds) {
    for (int k = 0; k < GM_KIND_COUNT; k++) {
        const struct gm_kind_totals *t = &kinds[k];
        if (!t->allocs && !t->frees && !t->live_count && !t->peak_bytes)
            continue;
        printf("  %-14s %13s %12s %11s %12s %12s %12s\n", gm_kind_name((enum gm_kind)k), COUNT(0, t->allocs),
               BYTES(1, t->bytes), COUNT(2, t->frees), BYTES(3, t->live_bytes), BYTES(4, t->peak_bytes),
               gm_kind_is_on_device((enum gm_kind)k) ? BYTES(5, t->at_peak) : "-");
    }
}

static void print_kinds(struct gm_report *r) {
    gm_print_heading("BY KIND            allocations        bytes       frees         live    peak live  at the peak");
    if (!r->devices)
        print_kinds_of(r->a->by_kind);
    for (unsigned device = 0; r->devices && device < GM_DEVICES; device++)
        if (gm_analysis_has_device(r->a, device)) {
            printf("  device %u\n", device);
            print_kinds_of(r->a->devices[device].by_kind);
        }
}

static void print_calls(struct gm_report *r) {
    gm_print_heading("BY CALL                              calls       failed    allocated        freed  time inside   "
                     "  per call");
    for (int c = 1; c < GM_CALL_COUNT; c++) {
        const struct gm_call_totals *t = &r->a->by_call[c];
        if (t->count)
            printf("  %-29s %11s %12s %12s %12s %12s %12s\n", gm_call_name((enum gm_call)c), COUNT(0, t->count),
                   COUNT(1, t->failed), t->allocated ? BYTES(2, t->allocated) : "-",
                   t->freed ? BYTES(3, t->freed) : "-", TIME(4, t->time_ns), TIME(5, t->time_ns / t->count));
    }
}

/* ---- sites */

/* Ends the line of a call site; with --stacks, prints its callers. */
static void print_callers(struct gm_report *r, const struct gm_report_site *site, int indent) {
    struct gm_site_names names = gm_report_site_names(r, site);
    gm_out_callers(&names, indent);
    putchar('\n');
}

static void print_device(const struct gm_report *r, int device) {
    if (r->devices)
        printf("%6d  ", device);
}

static void print_holders(struct gm_report *r, unsigned device) {
    uint64_t peak = r->a->devices[device].peak;
    unsigned shown = 0;
    for (size_t i = 0; i < r->site_count && shown < r->top && r->sites[i].totals.at_peak; i++) {
        const struct gm_site_totals *s = &r->sites[i].totals;
        if (s->device != (int)device)
            continue;
        shown++;
        printf("  %12s  %7s  %s", BYTES(0, s->at_peak), gm_text_percent(&room[1], s->at_peak, peak),
               r->sites[i].name.text);
        print_callers(r, &r->sites[i], 28);
    }
}

static void print_peak(struct gm_report *r) {
    gm_report_sort_sites(r, GM_BY_PEAK);
    if (!r->devices)
        gm_print_heading("HELD AT THE PEAK");
    for (unsigned device = 0; device < GM_DEVICES; device++) {
        const struct gm_device_totals *t = &r->a->devices[device];
        char heading[96];
        snprintf(heading, sizeof heading, "HELD AT THE PEAK OF DEVICE %u: %s at %s", device, BYTES(0, t->peak),
                 TIME(1, t->peak_ns));
        if (r->devices && t->peak)
            gm_print_heading(heading);
        print_holders(r, device);
    }
    if (!r->a->peak_bytes)
        puts("  nothing");
}

static void print_sites(struct gm_report *r) {
    gm_report_sort_sites(r, GM_BY_BYTES);
    bool summary = r->header->summary_ns;
    gm_print_heading(r->devices ? "BY CALL SITE      bytes  allocations   temporary  device"
                                : "BY CALL SITE      bytes  allocations   temporary");
    for (size_t i = 0; i < r->site_count && i < r->top && r->sites[i].totals.allocs; i++) {
        const struct gm_site_totals *s = &r->sites[i].totals;
        printf("  %15s %12s %11s  ", BYTES(0, s->bytes), COUNT(1, s->allocs), summary ? "-" : COUNT(2, s->temporary));
        print_device(r, s->device);
        fputs(r->sites[i].name.text, stdout);
        print_callers(r, &r->sites[i], r->devices ? 54 : 46);
    }
}

/* Prints the leaks of the program, or of toolkit libraries. Returns their sum. */
static struct gm_count_and_bytes print_leaks_of(struct gm_report *r, bool toolkit) {
    struct gm_count_and_bytes sum = {0};
    unsigned shown = 0, more = 0;
    for (size_t i = 0; i < r->site_count; i++) {
        const struct gm_site_totals *s = &r->sites[i].totals;
        if (!s->leaked_count || r->sites[i].name.toolkit != toolkit)
            continue;
        sum.bytes += s->leaked_bytes;
        sum.count += s->leaked_count;
        if (shown++ >= r->top) {
            more++;
            continue;
        }
        if (toolkit && shown == 1)
            puts("  held by libraries of the CUDA toolkit:");
        printf("  %12s in %s %s", BYTES(0, s->leaked_bytes), COUNT(1, s->leaked_count), blocks(s->leaked_count));
        if (r->devices)
            printf(" on device %d", s->device);
        printf("  %s", r->sites[i].name.text);
        print_callers(r, &r->sites[i], 18);
    }
    if (more)
        printf("  and %u more call %s\n", more, more == 1 ? "site" : "sites");
    return sum;
}

static void print_leaks(struct gm_report *r) {
    gm_report_sort_sites(r, GM_BY_LEAK);
    bool whole = r->header->finished == GM_TRACE_WHOLE;
    gm_print_heading(whole ? "LEAKS (live at the end, not released with their context)"
                           : "LIVE AT THE END OF THE TRACE (the program had not ended: they need not be leaks)");
    struct gm_count_and_bytes own = print_leaks_of(r, false), toolkit = print_leaks_of(r, true);
    if (own.count)
        printf("  %s%s: %s in %s %s%s\n", gm_paint(stdout, whole ? GM_BAD : GM_PLAIN), whole ? "leaked" : "live",
               BYTES(0, own.bytes), COUNT(1, own.count), blocks(own.count), gm_paint(stdout, GM_PLAIN));
    else
        puts(whole ? "  leaked: nothing" : "  live: nothing");
    struct gm_leaks leaks = gm_report_leaks(r);
    if (!own.count && leaks.freed_last.count)
        printf("  freed after the last allocation: %s in %s %s; report --leaks says by whom they were held so long\n",
               BYTES(0, leaks.freed_last.bytes), COUNT(1, leaks.freed_last.count), blocks(leaks.freed_last.count));
    if (leaks.suppressed.count)
        printf("  suppressed: %s in %s %s\n", BYTES(0, leaks.suppressed.bytes), COUNT(1, leaks.suppressed.count),
               blocks(leaks.suppressed.count));
    if (toolkit.count)
        printf("  of toolkit libraries: %s in %s %s\n", BYTES(0, toolkit.bytes), COUNT(1, toolkit.count),
               blocks(toolkit.count));
}

/* ---- decisions */

static void print_decisions(struct gm_report *r) {
    static const char *const promises[GM_SOFT_PROMISES] = {"handles for other processes", "access by peer devices",
                                                           "registration with network cards"};
    const struct gm_analysis *a = r->a;
    gm_print_heading("DECISIONS          allocations        bytes  why");
    for (int k = 0; k < GM_KIND_COUNT; k++) {
        for (int why = 0; why < GM_REASON_COUNT; why++) {
            const struct gm_count_and_bytes *s = &a->decisions[k][why];
            if (s->count)
                printf("  %-14s %13s %12s  %s: %s\n", gm_kind_name((enum gm_kind)k), COUNT(0, s->count),
                       BYTES(1, s->bytes), gm_reason_name((enum gm_reason)why), gm_reason_meaning((enum gm_reason)why));
        }
    }
    for (int k = 0; k < GM_KIND_COUNT; k++)
        if (a->verdicts[k].count)
            printf("  the active list would have used %s for %s %s (%s), as %s\n", gm_kind_name((enum gm_kind)k),
                   COUNT(0, a->verdicts[k].count), a->verdicts[k].count == 1 ? "allocation" : "allocations",
                   BYTES(1, a->verdicts[k].bytes), k == GM_KIND_ASYNC ? "short-lived" : "lasting");
    for (int i = 0; i < GM_SOFT_PROMISES; i++)
        if (a->dropped[i])
            printf("  dropped for %s %s: %s\n", COUNT(0, a->dropped[i]), blocks(a->dropped[i]), promises[i]);
}

/* ---- distributions */

static void print_sizes(struct gm_report *r) {
    const struct gm_analysis *a = r->a;
    gm_print_heading("SIZES   bytes requested  allocations");
    for (size_t i = 0; i < a->size_count && i < r->top; i++)
        printf("  %21s %12s  %s\n", COUNT(0, a->sizes[i].size), COUNT(1, a->sizes[i].count),
               gm_text_percent(&room[2], a->sizes[i].count, a->allocs));
    printf("  %s different sizes%s\n", COUNT(0, a->size_count), a->sizes_cut ? " counted; there were more" : "");
}

static void print_lifetimes(struct gm_report *r) {
    static const char *const names[GM_LIFETIME_BINS] = {"< 1 us",   "< 10 us", "< 100 us", "< 1 ms",  "< 10 ms",
                                                        "< 100 ms", "< 1 s",   "< 10 s",   "< 100 s", "longer"};
    const struct gm_analysis *a = r->a;
    uint64_t most = 0;
    for (int i = 0; i < GM_LIFETIME_BINS; i++)
        if (a->lifetime_count[i] > most)
            most = a->lifetime_count[i];
    if (!most)
        return;
    int first = 0, last = GM_LIFETIME_BINS - 1;
    while (!a->lifetime_count[first])
        first++;
    while (!a->lifetime_count[last])
        last--;
    gm_print_heading("LIFETIMES            freed        bytes");
    for (int i = first; i <= last; i++) {
        /* rounded up, so that each bin with blocks is visible */
        int width = (int)((a->lifetime_count[i] * BAR + most - 1) / most);
        printf("  %-9s %14s %12s%s%.*s\n", names[i], COUNT(0, a->lifetime_count[i]), BYTES(1, a->lifetime_bytes[i]),
               width ? "  " : "", width, "########################################");
    }
}

static void print_failures(struct gm_report *r) {
    const struct gm_analysis *a = r->a;
    struct gm_frame_name name;
    if (!a->failure_count)
        return;
    gm_print_heading("FAILED CALLS        at          bytes    live then  result");
    for (unsigned i = 0; i < a->failure_count && i < r->top; i++) {
        const struct gm_failure *f = &a->failures[i];
        gm_symbols_site(r->symbols, f->site, &name);
        printf("  %20s %14s %12s  %u %s\n%24s%s, ", TIME(0, f->time_ns), f->bytes ? BYTES(1, f->bytes) : "-",
               BYTES(2, f->live_bytes), f->result, gm_result_name(f->result), "", gm_call_name((enum gm_call)f->call));
        if (r->devices)
            printf("device %d, ", f->device);
        puts(name.text);
    }
    uint64_t all = a->failed_allocs + a->failed_frees, shown = a->failure_count < r->top ? a->failure_count : r->top;
    if (all > shown)
        printf("  and %s more\n", COUNT(0, all - shown));
}

void gm_report_text(struct gm_report *r) {
    bool summary = r->header->summary_ns;
    print_totals(r);
    print_devices(r);
    print_failures(r);
    gm_report_errors_text(r);
    print_leaks(r);
    print_peak(r);
    print_sites(r);
    print_kinds(r);
    if (summary) {
        puts("\na summary has no single blocks, so it lacks temporary and reused blocks, decisions, calls, sizes and "
             "lifetimes");
        return;
    }
    print_decisions(r);
    print_calls(r);
    print_sizes(r);
    print_lifetimes(r);
}
