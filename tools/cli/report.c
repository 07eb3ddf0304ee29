/* gpumem report: what a trace says, for people. */
#include "tools/cli/analysis.h"
#include "tools/cli/commands.h"
#include "tools/cli/symbols.h"
#include "tools/cli/text.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BAR 40 /* width of a full bar */

struct report {
    const struct gm_trace_header *header;
    const struct gm_reader *reader;
    const struct gm_analysis *a;
    struct gm_symbols *symbols;
    unsigned top;
};

static struct gm_text room[6];
#define BYTES(i, v) gm_text_bytes(&room[i], (v))
#define TIME(i, v)  gm_text_time(&room[i], (v))
#define COUNT(i, v) gm_text_count(&room[i], (v))

static void print_head(const struct report *r, const char *path) {
    const struct gm_trace_header *h = r->header;
    const struct gm_analysis *a = r->a;
    struct gm_device device;
    printf("%s: pid %d", path, h->pid);
    if (h->rank >= 0)
        printf(", rank %d", h->rank);
    if (h->host[0])
        printf(" on %s", h->host);
    printf(", %s, policy %s\n", h->program[0] ? h->program : "unknown program", h->policy[0] ? h->policy : "unknown");
    for (unsigned i = 0; gm_reader_device(r->reader, i, &device); i++)
        printf("device %d: %s, %s\n", device.device, device.name, BYTES(0, device.total));
    printf("%s events over %s\n", COUNT(0, a->events), TIME(1, a->end_ns));
    if (!h->finished)
        puts("note: the program did not end in order (killed, crashed, or still running)");
    if (h->dropped)
        printf("note: %s events were lost while writing (disk full?)\n", COUNT(0, h->dropped));
    if (gm_reader_damaged(r->reader))
        printf("note: %s damaged parts of the file were left out\n", COUNT(0, gm_reader_damaged(r->reader)));
}

static void print_totals(const struct report *r) {
    const struct gm_analysis *a = r->a;
    puts("\nTOTALS");
    printf("  allocations       %s (%s)\n", COUNT(0, a->allocs), BYTES(1, a->alloc_bytes));
    printf("  frees             %s\n", COUNT(0, a->frees));
    printf("  temporary         %s (%s of the allocations: freed before their thread allocated again)\n",
           COUNT(0, a->temporary), gm_text_percent(&room[1], a->temporary, a->allocs));
    printf("  peak live         %s at %s\n", BYTES(0, a->peak_bytes), TIME(1, a->peak_ns));
    printf("  peak reserved     %s at %s\n", BYTES(0, a->peak_reserved), TIME(1, a->peak_reserved_ns));
    printf("  live at the end   %s in %s blocks\n", BYTES(0, a->leaked_bytes), COUNT(1, a->leaked_count));
    printf("  with its context  %s in %s blocks\n", BYTES(0, a->released_bytes), COUNT(1, a->released_count));
    printf("  in memory calls   %s\n", TIME(0, a->time_ns));
    if (a->hits)
        printf("  hits              %s (%s of the allocations: served from memory kept back)\n", COUNT(0, a->hits),
               gm_text_percent(&room[1], a->hits, a->allocs));
    if (a->moved)
        printf("  moved             %s to another kind of memory than asked\n", COUNT(0, a->moved));
    if (a->failed_allocs || a->failed_frees)
        printf("  failed            %s allocations, %s frees\n", COUNT(0, a->failed_allocs), COUNT(1, a->failed_frees));
    if (a->unknown_frees)
        printf("  unknown frees     %s of blocks that this trace never saw allocated\n", COUNT(0, a->unknown_frees));
    if (a->replaced)
        printf("  replaced          %s blocks whose free was never seen\n", COUNT(0, a->replaced));
}

static void print_kinds(const struct report *r) {
    puts("\nBY KIND            allocations        bytes       frees         live    peak live  at the peak");
    for (int k = 0; k < GM_KIND_COUNT; k++) {
        const struct gm_kind_totals *t = &r->a->by_kind[k];
        if (!t->allocs && !t->frees && !t->live_count)
            continue;
        printf("  %-14s %13s %12s %11s %12s %12s %12s\n", gm_kind_name((enum gm_kind)k), COUNT(0, t->allocs),
               BYTES(1, t->bytes), COUNT(2, t->frees), BYTES(3, t->live_bytes), BYTES(4, t->peak_bytes),
               gm_kind_on_device((enum gm_kind)k) ? BYTES(5, t->at_peak) : "-");
    }
}

static void print_calls(const struct report *r) {
    puts("\nBY CALL                              calls       failed        bytes   time inside     per call");
    for (int c = 1; c < GM_CALL_COUNT; c++) {
        const struct gm_call_totals *t = &r->a->by_call[c];
        if (t->count)
            printf("  %-29s %11s %12s %12s %13s %12s\n", gm_call_name((enum gm_call)c), COUNT(0, t->count),
                   COUNT(1, t->failed), BYTES(2, t->bytes), TIME(3, t->time_ns), TIME(4, t->time_ns / t->count));
    }
}

/* ---- sites */

static int compare(uint64_t a, uint64_t b, uint32_t id_a, uint32_t id_b) {
    if (a != b)
        return a < b ? 1 : -1;
    return id_a > id_b ? 1 : id_a < id_b ? -1 : 0;
}

#define BY(field)                                                                                            \
    static int by_##field(const void *x, const void *y) {                                                    \
        const struct gm_site_totals *a = x, *b = y;                                                          \
        return compare(a->field, b->field, a->id, b->id);                                                    \
    }
BY(bytes)
BY(at_peak)
BY(leaked_bytes)

static void print_peak(const struct report *r) {
    struct gm_site_name name;
    qsort(r->a->sites, r->a->site_count, sizeof *r->a->sites, by_at_peak);
    puts("\nHELD AT THE PEAK");
    for (size_t i = 0; i < r->a->site_count && i < r->top && r->a->sites[i].at_peak; i++) {
        gm_symbols_site(r->symbols, r->a->sites[i].id, &name);
        printf("  %12s  %7s  %s\n", BYTES(0, r->a->sites[i].at_peak),
               gm_text_percent(&room[1], r->a->sites[i].at_peak, r->a->peak_bytes), name.text);
    }
    if (!r->a->peak_bytes)
        puts("  nothing");
}

static void print_sites(const struct report *r) {
    struct gm_site_name name;
    qsort(r->a->sites, r->a->site_count, sizeof *r->a->sites, by_bytes);
    puts("\nBY CALL SITE      bytes  allocations   temporary");
    for (size_t i = 0; i < r->a->site_count && i < r->top && r->a->sites[i].allocs; i++) {
        const struct gm_site_totals *s = &r->a->sites[i];
        gm_symbols_site(r->symbols, s->id, &name);
        printf("  %15s %12s %11s  %s\n", BYTES(0, s->bytes), COUNT(1, s->allocs), COUNT(2, s->temporary), name.text);
    }
}

static void print_leaks(const struct report *r) {
    const struct gm_analysis *a = r->a;
    struct gm_site_name name;
    uint64_t own_bytes = 0, own_count = 0, toolkit_bytes = 0, toolkit_count = 0;
    qsort(a->sites, a->site_count, sizeof *a->sites, by_leaked_bytes);
    puts("\nLEAKS (live at the end, not released with their context)");
    for (int toolkit = 0; toolkit < 2; toolkit++) {
        unsigned shown = 0, more = 0;
        for (size_t i = 0; i < a->site_count; i++) {
            const struct gm_site_totals *s = &a->sites[i];
            if (!s->leaked_count)
                continue;
            gm_symbols_site(r->symbols, s->id, &name);
            if (name.toolkit != (toolkit == 1))
                continue;
            *(toolkit ? &toolkit_bytes : &own_bytes) += s->leaked_bytes;
            *(toolkit ? &toolkit_count : &own_count) += s->leaked_count;
            if (shown++ >= r->top) {
                more++;
                continue;
            }
            if (toolkit && shown == 1)
                puts("  held by libraries of the CUDA toolkit:");
            printf("  %12s in %s blocks  %s\n", BYTES(0, s->leaked_bytes), COUNT(1, s->leaked_count), name.text);
        }
        if (more)
            printf("  and %u call sites more\n", more);
    }
    if (own_count)
        printf("  leaked: %s in %s blocks\n", BYTES(0, own_bytes), COUNT(1, own_count));
    else
        puts("  leaked: nothing");
    if (toolkit_count)
        printf("  of toolkit libraries: %s in %s blocks\n", BYTES(0, toolkit_bytes), COUNT(1, toolkit_count));
}

/* ---- distributions */

static void print_sizes(const struct report *r) {
    const struct gm_analysis *a = r->a;
    puts("\nSIZES       bytes asked  allocations");
    for (size_t i = 0; i < a->size_count && i < r->top; i++)
        printf("  %21s %12s  %s\n", COUNT(0, a->sizes[i].size), COUNT(1, a->sizes[i].count),
               gm_text_percent(&room[2], a->sizes[i].count, a->allocs));
    printf("  %s different sizes%s\n", COUNT(0, a->size_count), a->sizes_cut ? " counted; there were more" : "");
}

static void print_lifetimes(const struct report *r) {
    static const char *const names[GM_LIFETIME_BINS] = {"< 1 us",  "< 10 us", "< 100 us", "< 1 ms",  "< 10 ms",
                                                        "< 100 ms", "< 1 s",   "< 10 s",   "< 100 s", "longer"};
    const struct gm_analysis *a = r->a;
    uint64_t most = 0;
    for (int i = 0; i < GM_LIFETIME_BINS; i++)
        if (a->lifetime_count[i] > most)
            most = a->lifetime_count[i];
    puts("\nLIFETIMES OF FREED BLOCKS");
    for (int i = 0; i < GM_LIFETIME_BINS; i++) {
        /* Rounded up: a bin that is not empty shows. */
        int width = most ? (int)((a->lifetime_count[i] * BAR + most - 1) / most) : 0;
        printf("  %-9s %12s %12s%s%.*s\n", names[i], COUNT(0, a->lifetime_count[i]), BYTES(1, a->lifetime_bytes[i]),
               width ? "  " : "", width, "########################################");
    }
}

static void print_failures(const struct report *r) {
    struct gm_site_name name;
    if (!r->a->failures_kept)
        return;
    puts("\nFIRST FAILURES");
    for (unsigned i = 0; i < r->a->failures_kept; i++) {
        const struct gm_failure *f = &r->a->failures[i];
        gm_symbols_site(r->symbols, f->site, &name);
        printf("  at %-8s  %s of %s answered %u%s with %s live  %s\n", TIME(0, f->time_ns), gm_call_name((enum gm_call)f->call),
               BYTES(1, f->bytes), f->result, f->result == GM_OUT_OF_MEMORY ? " (out of memory)" : "",
               BYTES(2, f->live_bytes), name.text);
    }
}

static int report_file(const char *path, unsigned top) {
    char error[512];
    struct gm_reader *reader = gm_reader_open(path, error, sizeof error);
    if (!reader) {
        fprintf(stderr, "gpumem: %s\n", error);
        return 1;
    }
    int status = 1;
    struct gm_analysis *a = gm_analysis_read(reader);
    struct gm_symbols *symbols = a ? gm_symbols_new(reader) : NULL;
    if (symbols) {
        struct report r = {gm_reader_header(reader), reader, a, symbols, top};
        print_head(&r, path);
        print_totals(&r);
        print_kinds(&r);
        print_peak(&r);
        print_leaks(&r);
        print_sites(&r);
        print_calls(&r);
        print_sizes(&r);
        print_lifetimes(&r);
        print_failures(&r);
        status = 0;
    } else {
        fprintf(stderr, "gpumem: %s: out of memory\n", path);
    }
    gm_symbols_free(symbols);
    gm_analysis_free(a);
    gm_reader_close(reader);
    return status;
}

void gm_command_report_help(void) {
    puts("usage: gpumem report [--top N] FILE...\n\n"
         "Reads traces, binary or CSV, and prints for each: totals, who held memory at the peak, leaks, call sites,\n"
         "calls, sizes, lifetimes, failures.\n\n"
         "  --top N   rows of each list (default 10)");
}

int gm_command_report(int argc, char **argv) {
    static const struct option options[] = {{"top", required_argument, NULL, 't'}, {"help", no_argument, NULL, 'h'}, {0}};
    unsigned long top = 10;
    char *end;
    int option;
    opterr = 0;
    while ((option = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
        switch (option) {
        case 't':
            top = strtoul(optarg, &end, 10);
            if (end == optarg || *end || *optarg == '-' || top < 1 || top > 1000000)
                return gm_usage_error("report: --top '%s' is not a number from 1 to 1000000", optarg);
            break;
        case 'h':
            gm_command_report_help();
            return 0;
        case ':':
            return gm_usage_error("report: option '%s' needs a value", argv[optind - 1]);
        default:
            return gm_usage_error("report: unknown option '%s'; there is --top", argv[optind - 1]);
        }
    }
    if (optind == argc)
        return gm_usage_error("report: which file? usage: gpumem report [--top N] FILE...");
    int status = 0;
    for (int i = optind; i < argc; i++) {
        if (i > optind)
            putchar('\n');
        status |= report_file(argv[i], (unsigned)top);
    }
    if (fflush(stdout) || ferror(stdout)) {
        fputs("gpumem: cannot write the report\n", stderr);
        status = 1;
    }
    return status;
}
