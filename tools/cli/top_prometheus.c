/* Writes counters of running processes as text that Prometheus and its exporters read: all samples of a metric follow
 * its HELP and TYPE. */
#include "shim/base/options.h"
#include "tools/cli/shown.h"
#include "tools/cli/top.h"

#include <stddef.h>
#include <string.h>

enum index { ALONE, BY_KIND, BY_DEVICE };

struct metric {
    const char *name, *type, *help;
    size_t offset; /* in struct gm_counter_sample; of the first element of an array */
    enum index by; /* of the array */
};

#define ONE(member)       offsetof(struct gm_counter_sample, member), ALONE
#define BY_KIND(member)   offsetof(struct gm_counter_sample, member), BY_KIND
#define BY_DEVICE(member) offsetof(struct gm_counter_sample, devices[0].member), BY_DEVICE

static const struct metric metrics[] = {
    {"gpumem_live_bytes", "gauge", "Bytes of blocks that the program holds, all devices together.", BY_KIND(live)},
    {"gpumem_kept_bytes", "gauge", "Bytes of freed blocks kept for reuse.", BY_KIND(cached)},
    {"gpumem_reserved_bytes", "gauge", "Bytes taken from the driver.", BY_KIND(reserved)},
    {"gpumem_peak_bytes", "gauge", "Largest live bytes so far.", BY_KIND(peak)},
    {"gpumem_blocks", "gauge", "Blocks that the program holds.", BY_KIND(blocks)},
    {"gpumem_allocations_total", "counter", "Successful allocations.", BY_KIND(total.allocs)},
    {"gpumem_frees_total", "counter", "Frees.", BY_KIND(total.frees)},
    {"gpumem_reused_total", "counter", "Allocations served from a free block.", BY_KIND(total.hits)},
    {"gpumem_device_live_bytes", "gauge", "Bytes of blocks that the program holds on the device.", BY_DEVICE(live)},
    {"gpumem_device_peak_live_bytes", "gauge", "Largest live bytes on the device so far.", BY_DEVICE(peak_live)},
    {"gpumem_device_reserved_bytes", "gauge", "Bytes taken from the driver of the device.", BY_DEVICE(reserved)},
    {"gpumem_device_peak_reserved_bytes", "gauge", "Largest bytes taken from the driver of the device so far.",
     BY_DEVICE(peak_reserved)},
    {"gpumem_device_beyond_bytes", "gauge", "Bytes of the device that the process holds beyond gpumem's view.",
     BY_DEVICE(untracked)},
    {"gpumem_failed_allocations_total", "counter", "Failed allocations.", ONE(total.failed_allocs)},
    {"gpumem_failed_frees_total", "counter", "Failed frees.", ONE(total.failed_frees)},
    {"gpumem_oom_steps_total", "counter", "Steps taken because memory ran out.", ONE(total.oom_steps)},
    {"gpumem_trimmed_bytes_total", "counter", "Bytes released to the driver.", ONE(total.trimmed_bytes)},
    {"gpumem_fence_waits_total", "counter", "Waits of the host for the device.", ONE(total.fence_waits)},
    {"gpumem_limit_bytes", "gauge", "Limit of the device that is in force; 0 = none.", BY_DEVICE(limit)},
};

/* A label's value, which has the quote and the backslash escaped. */
static void put_value(FILE *out, const char *text) {
    for (const char *p = GM_SHOWN(text); *p; p++) {
        if (*p == '"' || *p == '\\')
            putc('\\', out);
        putc(*p, out);
    }
}

static void put_process(FILE *out, const struct metric *m, const struct gm_counter_sample *s, int index) {
    static const size_t strides[] = {[BY_KIND] = sizeof(uint64_t), [BY_DEVICE] = sizeof s->devices[0]};
    uint64_t value;
    memcpy(&value, (const char *)s + m->offset + strides[m->by] * (size_t)index, sizeof value);
    fprintf(out, "%s{pid=\"%d\",program=\"", m->name, (int)s->pid);
    put_value(out, s->program);
    fputs("\",group=\"", out);
    put_value(out, s->group);
    if (m->by == BY_KIND)
        fprintf(out, "\",kind=\"%s", gm_kind_name((enum gm_kind)index));
    if (m->by == BY_DEVICE)
        fprintf(out, "\",device=\"%d\",uuid=\"%s", index, s->devices[index].uuid);
    fprintf(out, "\"} %llu\n", (unsigned long long)value);
}

static bool is_there(const struct metric *m, const struct gm_counter_sample *s, int index) {
    return m->by == ALONE ||
           (m->by == BY_KIND ? gm_counter_sample_has_kind(s, (enum gm_kind)index) : s->devices[index].used);
}

static void head(FILE *out, const char *name, const char *type, const char *help) {
    fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void put_of_group(FILE *out, const char *name, const struct gm_group_sample *g) {
    fprintf(out, "%s{group=\"", name);
    put_value(out, g->name);
}

static void put_group(FILE *out, const struct gm_group_sample *g) {
    static const char limit[] = "gpumem_group_limit_bytes", ratio[] = "gpumem_group_limit_ratio",
                      processes[] = "gpumem_group_processes", used[] = "gpumem_group_used_bytes";
    if (gm_memory_is_part(g->limit)) {
        head(out, ratio, "gauge", "Limit of the group on each device, as a part of the device.");
        put_of_group(out, ratio, g);
        fprintf(out, "\"} %g\n", (double)gm_memory_part(g->limit) / GM_MEMORY_WHOLE);
    } else {
        head(out, limit, "gauge", "Limit of the group on each device; 0 = none.");
        put_of_group(out, limit, g);
        fprintf(out, "\"} %llu\n", (unsigned long long)g->limit);
    }
    head(out, processes, "gauge", "Running processes of the group.");
    put_of_group(out, processes, g);
    fprintf(out, "\"} %u\n", g->processes);
    head(out, used, "gauge", "Bytes of the group that count against its limit.");
    for (unsigned device = 0; device < g->devices; device++) {
        put_of_group(out, used, g);
        fprintf(out, "\",device=\"%u\"} %llu\n", device, (unsigned long long)g->used[device]);
    }
}

static void put_row(FILE *out, const struct gm_counter_sample *s, int device, const char *row, uint64_t bytes) {
    fprintf(out, "gpumem_device_account_bytes{pid=\"%d\",program=\"", (int)s->pid);
    put_value(out, s->program);
    fprintf(out, "\",device=\"%d\",uuid=\"%s\",row=\"%s\"} %llu\n", device, s->devices[device].uuid, row,
            (unsigned long long)bytes);
}

/* A sample for each row of the accounts; `suspended` and `elsewhere` are to be subtracted from their sum. */
static void put_accounts(FILE *out, const struct gm_counter_sample *s) {
    for (int device = 0; device < GM_STATS_DEVICES; device++) {
        const struct gm_account *account = &s->devices[device].accounts.latest;
        if (!account->taken_ns)
            continue;
        for (int row = 0; row < GM_ACCOUNT_ROWS; row++)
            put_row(out, s, device, gm_account_label(account, (enum gm_account_row)row), account->rows[row]);
        put_row(out, s, device, GM_ACCOUNT_SUSPENDED, account->suspended);
        put_row(out, s, device, GM_ACCOUNT_ELSEWHERE, account->elsewhere);
    }
}

static void put_stayed(FILE *out, const struct gm_counter_sample *s) {
    for (unsigned i = 0; s->suspended.asleep && i < GM_STATS_STAYED && s->suspended.stayed[i].bytes; i++) {
        fprintf(out, "gpumem_suspended_stayed_bytes{pid=\"%d\",program=\"", (int)s->pid);
        put_value(out, s->program);
        fputs("\",why=\"", out);
        put_value(out, s->suspended.stayed[i].why);
        fprintf(out, "\"} %llu\n", (unsigned long long)s->suspended.stayed[i].bytes);
    }
}

void gm_top_prometheus(FILE *out, const struct gm_counter_sample *const *samples, unsigned count,
                       const struct gm_group_sample *group) {
    static const int counts[] = {[ALONE] = 1, [BY_KIND] = GM_KIND_COUNT, [BY_DEVICE] = GM_STATS_DEVICES};
    for (size_t row = 0; row < sizeof metrics / sizeof *metrics; row++) {
        const struct metric *m = &metrics[row];
        head(out, m->name, m->type, m->help);
        for (unsigned i = 0; i < count; i++)
            for (int index = 0; index < counts[m->by]; index++)
                if (is_there(m, samples[i], index))
                    put_process(out, m, samples[i], index);
    }
    head(out, "gpumem_device_account_bytes", "gauge",
         "What the memory of the device was when it was looked at: rows that add up to the device, less "
         "suspended and elsewhere.");
    for (unsigned i = 0; i < count; i++)
        put_accounts(out, samples[i]);
    head(out, "gpumem_suspended_stayed_bytes", "gauge", "What a suspended process still has on devices, and why.");
    for (unsigned i = 0; i < count; i++)
        put_stayed(out, samples[i]);
    if (group->name[0])
        put_group(out, group);
}
