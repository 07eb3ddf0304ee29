/* Writes counters of running processes as text that Prometheus and its exporters read: all samples of a metric follow
 * its HELP and TYPE. */
#include "tools/cli/top.h"

#include <stddef.h>

struct metric {
    const char *name, *type, *help;
    size_t offset;   /* in struct gm_counter_sample */
    bool is_by_kind; /* an array by kind of memory */
};

#define ONE(member)     offsetof(struct gm_counter_sample, member), false
#define BY_KIND(member) offsetof(struct gm_counter_sample, member), true

static const struct metric metrics[] = {
    {"gpumem_live_bytes", "gauge", "Bytes of blocks that the program holds.", BY_KIND(live)},
    {"gpumem_kept_bytes", "gauge", "Bytes of freed blocks kept for reuse.", BY_KIND(cached)},
    {"gpumem_reserved_bytes", "gauge", "Bytes taken from the driver.", BY_KIND(reserved)},
    {"gpumem_peak_bytes", "gauge", "Largest live bytes so far.", BY_KIND(peak)},
    {"gpumem_blocks", "gauge", "Blocks that the program holds.", BY_KIND(blocks)},
    {"gpumem_allocations_total", "counter", "Successful allocations.", BY_KIND(total.allocs)},
    {"gpumem_frees_total", "counter", "Frees.", BY_KIND(total.frees)},
    {"gpumem_reused_total", "counter", "Allocations served from a free block.", BY_KIND(total.hits)},
    {"gpumem_device_peak_bytes", "gauge", "Largest live bytes on devices so far.", ONE(peak_all)},
    {"gpumem_failed_allocations_total", "counter", "Failed allocations.", ONE(total.failed_allocs)},
    {"gpumem_failed_frees_total", "counter", "Failed frees.", ONE(total.failed_frees)},
    {"gpumem_oom_steps_total", "counter", "Steps taken because memory ran out.", ONE(total.oom_steps)},
    {"gpumem_trimmed_bytes_total", "counter", "Bytes released to the driver.", ONE(total.trimmed_bytes)},
    {"gpumem_fence_waits_total", "counter", "Waits of the host for the device.", ONE(total.fence_waits)},
    {"gpumem_limit_bytes", "gauge", "Limit of each device that is in force; 0 = none.", ONE(limit)},
};

/* A label's value: bytes that are not printable ASCII become question marks. */
static void put_value(FILE *out, const char *text) {
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            putc('\\', out);
        putc(*text < ' ' || *text > '~' ? '?' : *text, out);
    }
}

static void put_process(FILE *out, const struct metric *m, const struct gm_counter_sample *s, int kind) {
    const uint64_t *values = (const uint64_t *)((const char *)s + m->offset);
    fprintf(out, "%s{pid=\"%d\",program=\"", m->name, (int)s->pid);
    put_value(out, s->program);
    fputs("\",group=\"", out);
    put_value(out, s->group);
    if (m->is_by_kind)
        fprintf(out, "\",kind=\"%s", gm_kind_name((enum gm_kind)kind));
    fprintf(out, "\"} %llu\n", (unsigned long long)values[m->is_by_kind ? kind : 0]);
}

static void head(FILE *out, const char *name, const char *type, const char *help) {
    fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void put_group(FILE *out, const struct gm_group_sample *g) {
    head(out, "gpumem_group_limit_bytes", "gauge", "Limit of the group on each device; 0 = none.");
    fprintf(out, "gpumem_group_limit_bytes{group=\"%s\"} %llu\n", g->name, (unsigned long long)g->limit);
    head(out, "gpumem_group_processes", "gauge", "Running processes of the group.");
    fprintf(out, "gpumem_group_processes{group=\"%s\"} %u\n", g->name, g->processes);
    head(out, "gpumem_group_used_bytes", "gauge", "Bytes of the group that count against its limit.");
    for (unsigned device = 0; device < g->devices; device++)
        fprintf(out, "gpumem_group_used_bytes{group=\"%s\",device=\"%u\"} %llu\n", g->name, device,
                (unsigned long long)g->used[device]);
}

void gm_top_prometheus(FILE *out, const struct gm_counter_sample *const *samples, unsigned count,
                       const struct gm_group_sample *group) {
    for (size_t row = 0; row < sizeof metrics / sizeof *metrics; row++) {
        const struct metric *m = &metrics[row];
        head(out, m->name, m->type, m->help);
        for (unsigned i = 0; i < count; i++)
            for (int kind = 0; kind < (m->is_by_kind ? GM_KIND_COUNT : 1); kind++)
                if (!m->is_by_kind || gm_counter_sample_has_kind(samples[i], (enum gm_kind)kind))
                    put_process(out, m, samples[i], kind);
    }
    if (group->name[0])
        put_group(out, group);
}
