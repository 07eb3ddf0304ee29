/* Writes counters of running processes as text. */
#include "policy/policy.h"
#include "tools/cli/colour.h"
#include "tools/cli/number_text.h"
#include "tools/cli/shown.h"
#include "tools/cli/top.h"

#include <stdarg.h>
#include <string.h>

enum { WIDEST = 256 };

/* Prints a line, cut to the width so that a narrow terminal does not wrap it. */
static void line(FILE *out, unsigned width, const char *ending, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static void head_line(FILE *out, unsigned width, const char *ending, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static void put_line(FILE *out, unsigned width, const char *format, va_list args) {
    char raw[WIDEST], text[WIDEST];
    vsnprintf(raw, sizeof raw, format, args);
    gm_shown(text, width < WIDEST ? width + 1 : WIDEST, raw);
    size_t length = strlen(text);
    while (length && text[length - 1] == ' ')
        length--;
    fwrite(text, 1, length, out);
}

static void line(FILE *out, unsigned width, const char *ending, const char *format, ...) {
    va_list args;
    va_start(args, format);
    put_line(out, width, format, args);
    va_end(args);
    fputs(ending, out);
}

static void head_line(FILE *out, unsigned width, const char *ending, const char *format, ...) {
    va_list args;
    fputs(gm_paint(out, GM_BOLD), out);
    va_start(args, format);
    put_line(out, width, format, args);
    va_end(args);
    fprintf(out, "%s%s", gm_paint(out, GM_PLAIN), ending);
}

static const char *rate(struct gm_text *room, double value) {
    if (value < 0)
        return "-";
    if (value < 99.95)
        snprintf(room->text, sizeof room->text, "%.1f", value);
    else
        gm_text_count(room, (uint64_t)(value + 0.5));
    return room->text;
}

static const char *percent(struct gm_text *room, double value) {
    if (value < 0)
        return "-";
    snprintf(room->text, sizeof room->text, "%.1f %%", 100 * value);
    return room->text;
}

/* The latest account of the device. Returns the number of lines. */
static unsigned put_account(FILE *out, const struct gm_counter_sample *s, int device, unsigned width,
                            const char *ending) {
    const struct gm_account *account = &s->devices[device].accounts.latest;
    struct gm_text t[2];
    unsigned lines = 1;
    if (!account->taken_ns)
        return 0;
    head_line(out, width, ending, "  %-14s %11s %s ago", "CARD", gm_text_bytes(&t[0], account->total),
              gm_text_time(&t[1], s->time_ns > account->taken_ns ? s->time_ns - account->taken_ns : 0));
    for (int row = 0; row < GM_ACCOUNT_ROWS; row++)
        if (gm_account_shows(account, (enum gm_account_row)row)) {
            line(out, width, ending, "  %-14s %11s %s", gm_account_label(account, (enum gm_account_row)row),
                 gm_text_bytes(&t[0], account->rows[row]), gm_account_meaning(account, (enum gm_account_row)row));
            lines++;
        }
    if (account->suspended) {
        line(out, width, ending, "  %-14s -%10s %s", GM_ACCOUNT_SUSPENDED, gm_text_bytes(&t[0], account->suspended),
             GM_ACCOUNT_SUSPENDED_MEANING);
        lines++;
    }
    if (account->elsewhere) {
        line(out, width, ending, "  %-14s -%10s %s", GM_ACCOUNT_ELSEWHERE, gm_text_bytes(&t[0], account->elsewhere),
             GM_ACCOUNT_ELSEWHERE_MEANING);
        lines++;
    }
    return lines;
}

unsigned gm_top_detail(FILE *out, const struct gm_counter_sample *s, const struct gm_rates *r, unsigned width,
                       const char *ending) {
    struct gm_text t[6];
    unsigned lines = 8;
    head_line(out, width, ending, "%.32s, process %d, policy %.16s, up %s%s", s->program, s->pid, s->policy,
              gm_text_time(&t[0], s->time_ns > s->start_ns ? s->time_ns - s->start_ns : 0),
              s->finished ? ", finished" : "");
    line(out, width, ending, "  allocations   %s/s, %s in all, %s failed", rate(&t[0], r->allocs),
         gm_text_count(&t[1], s->allocs), gm_text_count(&t[2], s->total.failed_allocs));
    line(out, width, ending, "  frees         %s/s, %s in all", rate(&t[0], r->frees), gm_text_count(&t[1], s->frees));
    line(out, width, ending, "  reused        %s now, %s in all", percent(&t[0], r->hits),
         percent(&t[1], r->hits_in_all));
    line(out, width, ending, "  time in calls %s", percent(&t[0], r->time));
    line(out, width, ending, "  fence waits   %s/s, %s in all, %s; %s recorded, %s queried",
         rate(&t[0], r->fence_waits), gm_text_count(&t[1], s->total.fence_waits),
         gm_text_time(&t[2], s->total.fence_wait_ns), gm_text_count(&t[3], s->total.fence_records),
         gm_text_count(&t[4], s->total.fence_queries));
    line(out, width, ending, "  given back    %s in %s trims; memory ran out %s times",
         gm_text_bytes(&t[0], s->total.trimmed_bytes), gm_text_count(&t[1], s->total.trims),
         gm_text_count(&t[2], s->total.oom_steps));
    if (s->suspended.on) {
        line(out, width, ending,
             "  suspended     %s: %s away, %s of it on the host, %s kept; left in %s, came back in %s",
             s->suspended.asleep ? "yes" : "no", gm_text_bytes(&t[0], s->suspended.away),
             gm_text_bytes(&t[1], s->suspended.stored), gm_text_bytes(&t[2], s->suspended.kept),
             gm_text_time(&t[3], s->suspended.out_ns), gm_text_time(&t[4], s->suspended.in_ns));
        lines++;
        for (unsigned i = 0; s->suspended.asleep && i < GM_STATS_STAYED && s->suspended.stayed[i].bytes; i++, lines++)
            line(out, width, ending, "    stays       %11s %s", gm_text_bytes(&t[0], s->suspended.stayed[i].bytes),
                 s->suspended.stayed[i].why);
    }
    if (s->shared.group[0]) {
        bool waits = s->shared.waits_since_ns && s->time_ns > s->shared.waits_since_ns;
        line(out, width, ending, "  shares        in group %s: %s%s; left %s times for others, waited %s in all",
             s->shared.group,
             waits                 ? "waits since "
             : s->suspended.asleep ? "has left"
                                   : "has the card",
             waits ? gm_text_time(&t[0], s->time_ns - s->shared.waits_since_ns) : "",
             gm_text_count(&t[1], s->shared.left), gm_text_time(&t[2], s->shared.waited_ns));
        lines++;
    }
    head_line(out, width, ending, "  %-14s %11s %11s %11s %11s %11s", "KIND", "LIVE", "KEPT", "RESERVED", "PEAK",
              "BLOCKS");
    for (int k = 0; k < GM_KIND_COUNT; k++) {
        if (!gm_counter_sample_has_kind(s, k))
            continue;
        line(out, width, ending, "  %-14s %11s %11s %11s %11s %11s", gm_kind_name((enum gm_kind)k),
             gm_text_bytes(&t[0], s->live[k]), gm_text_bytes(&t[1], s->cached[k]), gm_text_bytes(&t[2], s->reserved[k]),
             gm_text_bytes(&t[3], s->peak[k]), gm_text_count(&t[4], s->blocks[k]));
        lines++;
    }
    head_line(out, width, ending, "  %-14s %11s %11s %11s %11s", "DEVICE", "LIVE", "BEYOND", "RESERVED", "PEAK");
    for (int device = 0; device < GM_STATS_DEVICES; device++) {
        const struct gm_device_sample *d = &s->devices[device];
        if (!d->used)
            continue;
        line(out, width, ending, "  %-14d %11s %11s %11s %11s  %s", device, gm_text_bytes(&t[0], d->live),
             gm_text_bytes(&t[1], d->untracked), gm_text_bytes(&t[2], d->reserved), gm_text_bytes(&t[3], d->peak_live),
             d->uuid);
        lines++;
    }
    for (int device = 0; device < GM_STATS_DEVICES; device++)
        lines += put_account(out, s, device, width, ending);
    return lines + 1;
}

void gm_top_print_sites(FILE *out, const struct gm_top_sites *sites, unsigned lines, unsigned width,
                        const char *ending) {
    struct gm_text t[2];
    if (sites->why[0]) {
        line(out, width, ending, "  no call sites: %s", sites->why);
        return;
    }
    head_line(out, width, ending, "  %-11s %11s %6s  %s", "LIVE", "BLOCKS", "DEVICE", "CALL SITE");
    for (size_t i = 0; i < sites->count && i < lines; i++) {
        const struct gm_top_site *site = &sites->rows[i];
        line(out, width, ending, "  %-11s %11s %6d  %s", gm_text_bytes(&t[0], site->bytes),
             gm_text_count(&t[1], site->blocks), site->device, site->name);
    }
    if (sites->count > lines)
        line(out, width, ending, "  and %s more call sites", gm_text_count(&t[0], sites->count - lines));
}

#define ROW "%7s %-13.13s %6.6s %10s %10s %10s %9s %9s %7s %7s"

void gm_top_head(FILE *out, bool clock, unsigned width, const char *ending) {
    head_line(out, width, ending, "%s" ROW, clock ? "TIME     " : "", "PID", "PROGRAM", "DEVICE", "LIVE", "RESERVED",
              "LIMIT", "ALLOCS/S", "FREES/S", "REUSED", "WAITS/S");
}

/* The process's rates are in its first line only. */
unsigned gm_top_rows(FILE *out, const char *clock, const struct gm_counter_sample *s, const struct gm_rates *r,
                     const char *uuid, int number, unsigned width, const char *ending) {
    struct gm_text t[7];
    char pid[16], device[16] = "-";
    unsigned lines = 0;
    bool any = false;
    snprintf(pid, sizeof pid, "%d", s->pid);
    for (int i = 0; i < GM_STATS_DEVICES; i++) {
        const struct gm_device_sample *d = &s->devices[i];
        any |= d->used;
        bool last = i == GM_STATS_DEVICES - 1 && !any && number < 0; /* a process that used no device */
        if (!last && (!d->used || (number >= 0 && !gm_device_is(d, i, uuid, number))))
            continue;
        if (!last)
            snprintf(device, sizeof device, "%d", i);
        line(out, width, ending, "%s%s" ROW, clock ? clock : "", clock ? " " : "", pid, s->program, device,
             gm_text_bytes(&t[0], last ? s->live_all : d->live),
             gm_text_bytes(&t[1], last ? s->reserved_all : d->reserved),
             s->limit ? gm_text_memory(&t[6], s->limit) : "-", lines ? "" : rate(&t[2], r->allocs),
             lines ? "" : rate(&t[3], r->frees), lines ? "" : percent(&t[4], r->hits),
             lines ? "" : rate(&t[5], r->fence_waits));
        lines++;
    }
    return lines;
}

void gm_top_group(FILE *out, const struct gm_group_sample *group, unsigned width, const char *ending) {
    struct gm_text t[2];
    char devices[160] = "";
    size_t used = 0;
    for (unsigned device = 0; device < group->devices && used < sizeof devices; device++)
        used += (size_t)snprintf(devices + used, sizeof devices - used, ", device %u %s", device,
                                 gm_text_bytes(&t[0], group->used[device]));
    head_line(out, width, ending, "group %s, %u processes, limit %s%s", group->name, group->processes,
              group->limit ? gm_text_memory(&t[1], group->limit) : "none", devices);
}

void gm_top_history(FILE *out, int device, const uint64_t *bytes, unsigned count, unsigned width, const char *ending) {
    static const char levels[] = " .:-=+*#%@";
    char text[WIDEST];
    struct gm_text t;
    uint64_t most = 1;
    unsigned columns = width < 80 ? width : 80;
    columns = columns > 40 ? columns - 40 : 1;
    if (count > columns) {
        bytes += count - columns;
        count = columns;
    }
    for (unsigned i = 0; i < count; i++)
        most = bytes[i] > most ? bytes[i] : most;
    for (unsigned i = 0; i < count; i++)
        text[i] = levels[(size_t)((double)bytes[i] / (double)most * (sizeof levels - 2) + 0.5)];
    text[count] = 0;
    line(out, width, ending, "device %d live [%s] most %s", device, text, gm_text_bytes(&t, most));
}

void gm_top_keys(FILE *out, const char *sort, int device, unsigned width, const char *ending) {
    char which[16] = "all";
    if (device >= 0)
        snprintf(which, sizeof which, "%d", device);
    line(out, width, ending, "keys: s sorts by %s, d shows device %s, q ends", sort, which);
}
