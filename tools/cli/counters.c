/* The file of counters that the library fills while the program runs, and the closing lines made of it. */
#include "tools/cli/launch.h"
#include "tools/cli/text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define FILE_BYTES (GM_STATS_SLOTS * sizeof(struct gm_stats))

int gm_counters_make(struct gm_counters *c) {
    const char *folders[] = {"/dev/shm", getenv("TMPDIR"), "/tmp"};
    int fd = -1, error = ENOENT;
    c->slots = NULL;
    for (size_t i = 0; i < sizeof folders / sizeof folders[0] && fd < 0; i++) {
        if (!folders[i] || !*folders[i])
            continue;
        snprintf(c->path, sizeof c->path, "%s/gpumem-%u-XXXXXX", folders[i], (unsigned)getuid());
        fd = mkostemp(c->path, O_CLOEXEC);
        error = fd < 0 ? errno : posix_fallocate(fd, 0, (off_t)FILE_BYTES);
        if (fd >= 0 && error) {
            unlink(c->path);
            close(fd);
            fd = -1;
        }
    }
    if (fd >= 0) {
        void *map = mmap(NULL, FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        error = map == MAP_FAILED ? errno : 0;
        close(fd);
        if (!error) {
            c->slots = map;
            if (!setenv("GPUMEM_STATS", c->path, 1))
                return 0;
        }
        unlink(c->path);
    }
    fprintf(stderr, "gpumem: cannot make the file of counters: %s\n", strerror(error));
    return -1;
}

void gm_counters_drop(struct gm_counters *c) {
    if (!c->slots)
        return;
    munmap(c->slots, FILE_BYTES);
    unlink(c->path);
    c->slots = NULL;
}

/* One process, or several added up. Peaks of several processes need not fall together: their sum is an upper bound. */
struct sum {
    uint64_t allocs, frees, failed, temporary, moved, time_ns, unknown;
    uint64_t peak, reserved, leaked_bytes, leaked_count, released_bytes;
    uint64_t kind_allocs[GM_KIND_COUNT], kind_frees[GM_KIND_COUNT], kind_peak[GM_KIND_COUNT], kind_live[GM_KIND_COUNT];
};

static void add(struct sum *sum, const struct gm_stats *s) {
    for (int k = 0; k < GM_KIND_COUNT; k++) {
        sum->kind_peak[k] += s->peak_bytes[k];
        sum->kind_live[k] += s->live_bytes[k];
        if (k != GM_KIND_IMPORTED && k != GM_KIND_GRAPH) {
            sum->leaked_bytes += s->live_bytes[k];
            sum->leaked_count += gm_stats_live_count(s, k);
        }
    }
    for (int i = 0; i < GM_STATS_SHARDS; i++) {
        const struct gm_stats_shard *shard = &s->shards[i];
        for (int k = 0; k < GM_KIND_COUNT; k++) {
            sum->allocs += shard->allocs[k];
            sum->frees += shard->frees[k];
            sum->kind_allocs[k] += shard->allocs[k];
            sum->kind_frees[k] += shard->frees[k];
        }
        sum->failed += shard->failed_allocs + shard->failed_frees;
        sum->unknown += shard->unknown_frees;
        sum->temporary += shard->temporary;
        sum->moved += shard->moved;
        sum->time_ns += shard->time_ns;
    }
    sum->peak += s->peak_total;
    sum->reserved += s->peak_reserved;
    sum->released_bytes += s->released_bytes;
}

static bool is_used(const struct gm_stats *s) { return s->pid && s->magic == GM_STATS_MAGIC; }

/* Processes that never called CUDA's memory functions (shells, compilers, launchers) say nothing. */
static bool is_active(const struct gm_stats *s) {
    struct sum sum = {0};
    if (!is_used(s))
        return false;
    add(&sum, s);
    return sum.allocs || sum.frees || sum.failed || sum.unknown || s->trace[0];
}

static void say_sum(const struct sum *s) {
    struct gm_text t[4];
    fprintf(stderr, "gpumem:   calls: %s allocations, %s frees, %s failed; %s inside them\n", gm_text_count(&t[0], s->allocs),
            gm_text_count(&t[1], s->frees), gm_text_count(&t[2], s->failed), gm_text_time(&t[3], s->time_ns));
    fprintf(stderr, "gpumem:   peak live: %s, peak reserved: %s\n", gm_text_bytes(&t[0], s->peak),
            gm_text_bytes(&t[1], s->reserved));
    fprintf(stderr, "gpumem:   temporary: %s (%s of the allocations)", gm_text_count(&t[0], s->temporary),
            gm_text_percent(&t[1], s->temporary, s->allocs));
    if (s->moved)
        fprintf(stderr, ", moved to another kind: %s", gm_text_count(&t[2], s->moved));
    fprintf(stderr, "\ngpumem:   leaked: %s in %s blocks", gm_text_bytes(&t[0], s->leaked_bytes),
            gm_text_count(&t[1], s->leaked_count));
    if (s->released_bytes)
        fprintf(stderr, " (%s more went with their context)", gm_text_bytes(&t[2], s->released_bytes));
    fputc('\n', stderr);
}

static void say_kinds(const struct sum *s, bool table) {
    struct gm_text t[4];
    if (table)
        fprintf(stderr, "gpumem:   %-13s %12s %12s %12s %12s\n", "kind", "allocations", "frees", "peak", "live");
    for (int k = 0; k < GM_KIND_COUNT; k++) {
        if (!s->kind_allocs[k] && !s->kind_frees[k])
            continue;
        fprintf(stderr,
                table ? "gpumem:   %-13s %12s %12s %12s %12s\n" : "gpumem:   %s: %s allocations, %s frees, peak %s, live %s\n",
                gm_kind_name((enum gm_kind)k), gm_text_count(&t[0], s->kind_allocs[k]), gm_text_count(&t[1], s->kind_frees[k]),
                gm_text_bytes(&t[2], s->kind_peak[k]), gm_text_bytes(&t[3], s->kind_live[k]));
    }
}

static void say_process(const struct gm_stats *s) {
    struct gm_text t[3];
    struct sum sum = {0};
    add(&sum, s);
    fprintf(stderr, "gpumem: %s (pid %d%s%s)%s: %s allocations, peak %s, leaked %s\n", s->program, s->pid,
            s->policy[0] ? ", " : "", s->policy, s->finished ? "" : " without orderly exit", gm_text_count(&t[0], sum.allocs), gm_text_bytes(&t[1], sum.peak),
            gm_text_bytes(&t[2], sum.leaked_bytes));
}

void gm_counters_say(const struct gm_counters *c, bool table) {
    struct sum total = {0};
    unsigned active = 0, used = 0;
    for (unsigned i = 0; i < GM_STATS_SLOTS; i++) {
        used += is_used(&c->slots[i]);
        if (!is_active(&c->slots[i]))
            continue;
        active++;
        add(&total, &c->slots[i]);
    }
    if (!active) {
        fprintf(stderr, "gpumem: %s\n",
                used ? "the program made no GPU memory calls"
                     : "libgpumem was loaded into no process that used CUDA: nothing to say");
        return;
    }
    for (unsigned i = 0; i < GM_STATS_SLOTS; i++)
        if (is_active(&c->slots[i]))
            say_process(&c->slots[i]);
    if (active > 1)
        fprintf(stderr, "gpumem: all %u processes (peaks added up):\n", active);
    say_sum(&total);
    say_kinds(&total, table);
    if (used == GM_STATS_SLOTS)
        fprintf(stderr, "gpumem: only the first %d processes are counted\n", GM_STATS_SLOTS);
    for (unsigned i = 0; i < GM_STATS_SLOTS; i++)
        if (is_used(&c->slots[i]) && c->slots[i].trace[0])
            fprintf(stderr, "gpumem: trace written, see: gpumem report %s\n", c->slots[i].trace);
}
