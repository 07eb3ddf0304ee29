/* Creates the counters file that the library fills while the program runs, and prints the closing lines from it. */
#include "shim/base/foreign.h"
#include "tools/cli/account_out.h"
#include "tools/cli/colour.h"
#include "tools/cli/launch.h"
#include "tools/cli/memory_kinds.h"
#include "tools/cli/number_text.h"
#include "tools/cli/reader.h"
#include "tools/cli/shown.h"
#include "tools/cli/symbols.h"
#include "tools/cli/top.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FILE_BYTES (GM_STATS_SLOTS * sizeof(struct gm_stats))

/* Extends the file to FILE_BYTES. Returns 0 or an errno. A limit on file sizes is meant for the program's own files, so
 * it is raised meanwhile. */
static int make_room(int fd) {
    struct rlimit before, lifted;
    struct sigaction ignore = {.sa_handler = SIG_IGN}, handler;
    bool limited = !getrlimit(RLIMIT_FSIZE, &before) && before.rlim_cur < FILE_BYTES;
    if (limited) {
        lifted = before;
        lifted.rlim_cur = before.rlim_max;
        setrlimit(RLIMIT_FSIZE, &lifted);
    }
    sigaction(SIGXFSZ, &ignore, &handler);
    int error = posix_fallocate(fd, 0, (off_t)FILE_BYTES);
    sigaction(SIGXFSZ, &handler, NULL);
    if (limited)
        setrlimit(RLIMIT_FSIZE, &before);
    return error;
}

#ifndef SYS_memfd_create
#define SYS_memfd_create (-1)
#endif

/* Creates a sealed memory file. No other process can shrink it, which would kill the program by a bus error, and it
 * leaves no file behind. */
static int make_memory_file(struct gm_run_counters *c) {
    enum { CLOEXEC = 1, ALLOW_SEALING = 2, NOEXEC_SEAL = 8 };
    int fd = (int)syscall(SYS_memfd_create, GM_STATS_RUN, CLOEXEC | ALLOW_SEALING | NOEXEC_SEAL);
    if (fd < 0)
        fd = (int)syscall(SYS_memfd_create, GM_STATS_RUN, CLOEXEC | ALLOW_SEALING);
    snprintf(c->path, sizeof c->path, "/proc/%d/fd/%d", (int)getpid(), fd);
    if (fd >= 0 && (make_room(fd) || fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW) ||
                    access(c->path, R_OK | W_OK))) {
        close(fd);
        fd = -1;
    }
    return c->fd = fd;
}

void gm_run_counters_create(struct gm_run_counters *c) {
    const char *folders[] = {"/dev/shm", getenv("TMPDIR"), "/tmp"};
    int fd = make_memory_file(c), error = ENOENT;
    c->slots = NULL;
    unsetenv("GPUMEM_STATS"); /* never the counters of an enclosing gpumem run */
    for (size_t i = 0; i < sizeof folders / sizeof folders[0] && fd < 0; i++) {
        if (!folders[i] || !*folders[i])
            continue;
        snprintf(c->path, sizeof c->path, "%s/gpumem-%u-XXXXXX", folders[i], (unsigned)getuid());
        fd = mkostemp(c->path, O_CLOEXEC);
        error = fd < 0 ? errno : make_room(fd);
        if (fd >= 0 && error) {
            unlink(c->path);
            close(fd);
            fd = -1;
        }
    }
    if (fd >= 0) {
        void *map = mmap(NULL, FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        error = map == MAP_FAILED ? errno : 0;
        if (c->fd < 0)
            close(fd);
        if (!error) {
            c->slots = map;
            if (!setenv("GPUMEM_STATS", c->path, 1))
                return;
            error = errno;
            gm_run_counters_destroy(c);
        } else if (c->fd < 0) {
            unlink(c->path);
        }
    }
    fprintf(stderr, "gpumem: cannot create the counters file, so there are no closing lines: %s\n", strerror(error));
}

void gm_run_counters_destroy(struct gm_run_counters *c) {
    if (!c->slots)
        return;
    munmap(c->slots, FILE_BYTES);
    if (c->fd < 0)
        unlink(c->path);
    else
        close(c->fd);
    c->slots = NULL;
}

/* Counters of one process, or the sum of several. Peaks of several processes may be at different times, so their sum is
 * an upper bound. */
struct sum {
    uint64_t allocs, frees, failed, temporary, moved, time_ns, unknown;
    uint64_t hits, reusable, cached, waits, wait_ns;
    bool cut; /* a process ended without normal exit */
    uint64_t peak, reserved, leaked_bytes, leaked_count, released_bytes;
    uint64_t kind_allocs[GM_KIND_COUNT], kind_frees[GM_KIND_COUNT], kind_peak[GM_KIND_COUNT], kind_live[GM_KIND_COUNT],
        kind_released[GM_KIND_COUNT];
    uint64_t guard_every, guard_refused, guard_errors, guard_races, guard_uncompared;
    uint64_t unkept[GM_UNKEPT_COUNT], given_back; /* freed blocks that went back to the driver: by reason, and all */
    /* Devices that were used, by UUID: processes may number them differently. */
    struct {
        char uuid[sizeof((struct gm_device_sample *)0)->uuid];
        int number;              /* of the first process */
        uint64_t live, reserved; /* peaks */
    } devices[GM_STATS_DEVICES];
    unsigned device_count;
    uint64_t displaced_peak[GM_KIND_COUNT], displaced_live[GM_KIND_COUNT];
    uint64_t displaced_ns[GM_KIND_COUNT]; /* from the start of a process to its first such block; the least */
};

static void add_displaced(struct sum *sum, const struct gm_stats *s, int kind) {
    const struct gm_stats_displaced *displaced = &s->displaced[kind];
    uint64_t since = displaced->since_ns > s->start_ns ? displaced->since_ns - s->start_ns : 0;
    if (!displaced->since_ns)
        return;
    if (!sum->displaced_peak[kind] || since < sum->displaced_ns[kind])
        sum->displaced_ns[kind] = since;
    sum->displaced_peak[kind] += displaced->peak;
    sum->displaced_live[kind] += displaced->live;
}

static void add_device(struct sum *sum, const struct gm_device_sample *d, int number) {
    unsigned i = 0;
    while (i < sum->device_count && !gm_device_is(d, number, sum->devices[i].uuid, sum->devices[i].number))
        i++;
    if (i == GM_STATS_DEVICES)
        return;
    if (i == sum->device_count) {
        snprintf(sum->devices[i].uuid, sizeof sum->devices[i].uuid, "%s", d->uuid);
        sum->devices[i].number = number;
        sum->device_count++;
    }
    sum->devices[i].live += d->peak_live;
    sum->devices[i].reserved += d->peak_reserved;
}

static void add(struct sum *sum, const struct gm_stats *s) {
    struct gm_counter_sample now;
    gm_counter_sample_take(&now, s, s->pid, 0);
    sum->cut |= !s->finished;
    for (int k = 0; k < GM_KIND_COUNT; k++) {
        sum->kind_allocs[k] += now.total.allocs[k];
        sum->kind_frees[k] += now.total.frees[k];
        sum->kind_released[k] += now.total.released[k];
        sum->kind_peak[k] += now.peak[k];
        sum->kind_live[k] += now.live[k];
        add_displaced(sum, s, k);
        if (gm_kind_can_leak((enum gm_kind)k)) {
            sum->leaked_bytes += now.live[k];
            sum->leaked_count += now.blocks[k];
        }
    }
    for (int device = 0; device < GM_STATS_DEVICES; device++)
        if (now.devices[device].peak_live || now.devices[device].peak_reserved)
            add_device(sum, &now.devices[device], device);
    sum->allocs += now.allocs;
    sum->frees += now.frees;
    sum->failed += now.total.failed_allocs + now.total.failed_frees;
    sum->unknown += now.total.unknown_frees;
    sum->temporary += now.total.temporary;
    sum->moved += now.total.moved;
    sum->time_ns += now.total.time_ns;
    sum->hits += now.hits;
    sum->reusable += now.reusable;
    sum->cached += now.cached_all;
    sum->waits += now.total.fence_waits;
    sum->wait_ns += now.total.fence_wait_ns;
    sum->peak += now.peak_all;
    sum->reserved += now.peak_reserved_all;
    sum->released_bytes += s->released_bytes;
    for (int why = 0; why < GM_UNKEPT_COUNT; why++)
        sum->unkept[why] += s->unkept[why];
    sum->given_back += now.total.trimmed_bytes + s->never_kept;
    sum->guard_every |= s->guard_every;
    sum->guard_refused += s->guard_refused;
    sum->guard_errors += s->guard_errors;
    sum->guard_races += s->guard_races;
    sum->guard_uncompared += s->guard_uncompared > 0 ? (uint64_t)s->guard_uncompared : 0;
}

static bool is_used(const struct gm_stats *s) { return s->pid && s->magic == GM_STATS_MAGIC; }

/* Processes without memory calls (shells, compilers, launchers) get no closing lines. */
static bool is_active(const struct gm_stats *s) {
    struct sum sum = {0};
    if (!is_used(s))
        return false;
    add(&sum, s);
    return sum.allocs || sum.frees || sum.failed || sum.unknown || s->trace[0];
}

/* Prints one closing line: a label, then the formatted text. */
static void say(const char *label, const char *format, ...) {
    va_list args;
    fprintf(stderr, "gpumem:   %-16s ", label);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
}

static const char *blocks(uint64_t count) { return count == 1 ? "block" : "blocks"; }

static uint64_t released_count(const struct sum *s) {
    uint64_t count = 0;
    for (int k = 0; k < GM_KIND_COUNT; k++)
        count += s->kind_released[k];
    return count;
}

/* Prints what an out-of-memory step served from slower memory. Host memory is not part of the peak above. */
static void print_displaced(const struct sum *s) {
    struct gm_text t[3];
    for (int k = 0; k < GM_KIND_COUNT; k++)
        if (s->displaced_peak[k])
            say(gm_kind_is_on_device((enum gm_kind)k) ? "of it managed" : "in host memory",
                "%s at most, since %s; at the end %s: the device had no room, and this memory is slower",
                gm_text_bytes(&t[0], s->displaced_peak[k]), gm_text_time(&t[1], s->displaced_ns[k]),
                gm_text_bytes(&t[2], s->displaced_live[k]));
}

static void print_guarded(const struct sum *s) {
    struct gm_text t[5];
    uint64_t guarded = s->kind_allocs[GM_KIND_GUARD];
    if (!guarded && !s->guard_every)
        return;
    say("guarded", "%s, %s of the allocations%s%s%s", gm_text_count(&t[0], guarded),
        gm_text_percent(&t[1], guarded, s->allocs), s->guard_refused ? "; " : "",
        s->guard_refused ? gm_text_count(&t[2], s->guard_refused) : "",
        s->guard_refused ? " more were not, for lack of memory" : "");
    say("memory errors", "%s%s%s%s%s%s%s", s->guard_errors ? gm_paint(stderr, GM_BAD) : "",
        s->guard_errors ? gm_text_count(&t[3], s->guard_errors) : "none found",
        s->guard_errors ? gm_paint(stderr, GM_PLAIN) : "", s->guard_uncompared ? "; the bytes beside " : "",
        s->guard_uncompared ? gm_text_count(&t[4], s->guard_uncompared) : "",
        s->guard_uncompared ? s->guard_uncompared == 1 ? " block were not compared" : " blocks were not compared" : "",
        s->guard_uncompared && s->cut ? ": no normal exit" : "");
    if (s->guard_races)
        say("possible races", "%s", gm_text_count(&t[3], s->guard_races));
}

/* What kept most of the freed bytes from being reused, and what would change it. */
static void print_unkept(const struct sum *s) {
    static const struct {
        const char *reason, *change;
    } words[] = {
#define X(enumerator, reason, change) {reason, change},
        GM_UNKEPT(X)
#undef X
    };
    const uint64_t little = (uint64_t)32 << 20;
    struct gm_text t[2];
    for (int why = 0; why < GM_UNKEPT_COUNT; why++)
        if (s->unkept[why] >= little && s->unkept[why] > (s->given_back + s->cached) / 2)
            say("not reused", "%s of the %s of freed blocks that no request reused went back %s: %s",
                gm_text_bytes(&t[0], s->unkept[why]), gm_text_bytes(&t[1], s->given_back + s->cached),
                words[why].reason, words[why].change);
}

static void print_sum(const struct sum *s, uint64_t run_ns, bool several) {
    struct gm_text t[4];
    say("calls", "%s %s, %s %s, %s%s failed%s", gm_text_count(&t[0], s->allocs),
        s->allocs == 1 ? "allocation" : "allocations", gm_text_count(&t[1], s->frees), s->frees == 1 ? "free" : "frees",
        s->failed ? gm_paint(stderr, GM_BAD) : "", gm_text_count(&t[2], s->failed),
        s->failed ? gm_paint(stderr, GM_PLAIN) : "");
    say("time in calls", "%s in all threads together, %s of the run's %s", gm_text_time(&t[0], s->time_ns),
        gm_text_percent(&t[1], s->time_ns, run_ns), gm_text_time(&t[2], run_ns));
    if (s->device_count < 2) {
        say("peak live", "%s%s", gm_text_bytes(&t[0], s->peak), several ? ", the sum of all processes' peaks" : "");
        print_displaced(s);
        say("peak reserved", "%s", gm_text_bytes(&t[0], s->reserved));
    } else {
        for (unsigned i = 0; i < s->device_count; i++)
            say("peak live", "%s, reserved %s, on device %d%s%s", gm_text_bytes(&t[0], s->devices[i].live),
                gm_text_bytes(&t[1], s->devices[i].reserved), s->devices[i].number,
                several && s->devices[i].uuid[0] ? ", " : "", several ? s->devices[i].uuid : "");
        if (several)
            say("", "each the sum of all processes' peaks");
        print_displaced(s);
    }
    say("temporary", "%s, %s of the allocations (freed before the next one)", gm_text_count(&t[0], s->temporary),
        gm_text_percent(&t[1], s->temporary, s->allocs));
    if (s->reusable) /* some kind keeps freed blocks */
        say("reused", "%s, %s of the allocations; kept at the end %s", gm_text_count(&t[0], s->hits),
            gm_text_percent(&t[1], s->hits, s->allocs), gm_text_bytes(&t[2], s->cached));
    print_unkept(s);
    if (s->waits)
        say("fence waits", "%s, %s", gm_text_count(&t[0], s->waits), gm_text_time(&t[1], s->wait_ns));
    if (s->moved)
        say("moved", "%s to another kind of memory than requested", gm_text_count(&t[0], s->moved));
    print_guarded(s);
    if (s->unknown)
        say("unknown frees", "%s, of addresses without a live block", gm_text_count(&t[0], s->unknown));
    if (s->cut)
        say("live at the end", "%s in %s %s, which need not leak: no normal exit",
            gm_text_bytes(&t[0], s->leaked_bytes), gm_text_count(&t[1], s->leaked_count), blocks(s->leaked_count));
    else if (s->leaked_count)
        say("leaked", "%s%s in %s %s%s", gm_paint(stderr, GM_BAD), gm_text_bytes(&t[0], s->leaked_bytes),
            gm_text_count(&t[1], s->leaked_count), blocks(s->leaked_count), gm_paint(stderr, GM_PLAIN));
    else
        say("leaked", "nothing");
    if (s->released_bytes)
        say("with its context", "%s in %s %s were released, not leaked", gm_text_bytes(&t[0], s->released_bytes),
            gm_text_count(&t[1], released_count(s)), blocks(released_count(s)));
}

/* What the memory of each device was. Accounts of several processes cannot be added up. */
static void print_accounts(const struct gm_stats *s, bool several) {
    static struct gm_counter_sample now;
    struct gm_text t;
    gm_counter_sample_take(&now, s, s->pid, 0);
    for (int device = 0; device < GM_STATS_DEVICES; device++) {
        const struct gm_stats_accounts *accounts = &now.devices[device].accounts;
        char label[16], process[32] = "";
        if (!accounts->fullest.taken_ns)
            continue;
        snprintf(label, sizeof label, "device %d", device);
        if (several)
            snprintf(process, sizeof process, "process %d: ", s->pid);
        fprintf(stderr, "gpumem:   %-16s %s%s, %s: ", label, process, gm_text_bytes(&t, accounts->fullest.total),
                accounts->failed ? "when memory ran out" : "at the fullest measured");
        gm_account_print(stderr, &accounts->fullest);
        fputc('\n', stderr);
    }
}

static void print_kinds(const struct sum *s) {
    struct gm_text t[4];
    say("kind of memory", "%12s %12s %12s %12s", "allocations", "frees", "peak live", "live at end");
    for (int k = 0; k < GM_KIND_COUNT; k++)
        if (s->kind_allocs[k] || s->kind_frees[k])
            fprintf(stderr, "gpumem:     %-14s %12s %12s %12s %12s\n", gm_kind_name((enum gm_kind)k),
                    gm_text_count(&t[0], s->kind_allocs[k]), gm_text_count(&t[1], s->kind_frees[k]),
                    gm_text_bytes(&t[2], s->kind_peak[k]), gm_text_bytes(&t[3], s->kind_live[k]));
}

static void print_name(const struct gm_stats *s) {
    fprintf(stderr, "gpumem: %s%s%s, process %d%s%s%s", gm_paint(stderr, GM_BOLD), GM_SHOWN(s->program),
            gm_paint(stderr, GM_PLAIN), s->pid, s->policy[0] ? ", policy " : "", GM_SHOWN(s->policy),
            s->finished ? "" : ", ended without normal exit");
}

/* Prints one line for a process, if there are several. */
static void print_process(const struct gm_stats *s) {
    struct gm_text t[3];
    struct sum sum = {0};
    add(&sum, s);
    print_name(s);
    fprintf(stderr, ": %s %s, peak live ", gm_text_count(&t[0], sum.allocs),
            sum.allocs == 1 ? "allocation" : "allocations");
    for (unsigned i = 0; i < sum.device_count && sum.device_count > 1; i++)
        fprintf(stderr, "%s%s on device %d", i ? ", " : "", gm_text_bytes(&t[1], sum.devices[i].live),
                sum.devices[i].number);
    fprintf(stderr, "%s, %s %s\n", sum.device_count > 1 ? "" : gm_text_bytes(&t[1], sum.peak),
            sum.cut ? "live at the end" : "leaked", gm_text_bytes(&t[2], sum.leaked_bytes));
}

static void name_site(struct gm_symbols *symbols, const struct gm_stats_reliance *row, struct gm_frame_name *name) {
    struct gm_module module = {.base = row->base, .path = row->module};
    unsigned count = row->frame_count < GM_STATS_FRAMES ? row->frame_count : GM_STATS_FRAMES;
    *name = (struct gm_frame_name){.text = "unknown site"};
    if (symbols && count)
        gm_symbols_frames(symbols, &module, row->frames, count, name);
}

/* Prints the result of GPUMEM_CHECK_ORDER: frees whose wait the program may rely on. */
static void print_order(const struct gm_stats *s) {
    struct gm_symbols *symbols = gm_symbols_new(NULL);
    struct gm_frame_name name;
    struct gm_text t;
    unsigned shown = s->reliance_count < GM_STATS_RELIANCES ? s->reliance_count : GM_STATS_RELIANCES;
    if (!s->reliance_count)
        say("check-order", "%s %s waited for work; none is seen to be relied on", gm_text_count(&t, s->waiting_frees),
            s->waiting_frees == 1 ? "cudaFree" : "cudaFrees");
    for (unsigned i = 0; i < shown; i++) {
        const struct gm_stats_reliance *row = &s->reliances[i];
        name_site(symbols, row, &name);
        say("check-order", "%s %s in %s: %s", gm_text_count(&t, row->count), row->count == 1 ? "cudaFree" : "cudaFrees",
            name.text, GM_SHOWN(row->text));
    }
    if (s->reliance_count > shown)
        say("check-order", "%u more call sites", s->reliance_count - shown);
    say("check-order", "%s", gm_stats_levels(s));
    gm_symbols_free(symbols);
}

/* The trace is a file that gpumem report can read. Also prints how many events it lost. */
static bool is_readable_trace(const char *name) {
    char error[GM_PATH + 256];
    struct gm_text t;
    struct gm_reader *reader = gm_reader_open(name, error, sizeof error);
    if (!reader)
        return false;
    uint64_t dropped = gm_reader_header(reader)->dropped;
    if (dropped)
        gm_complain("%s events are missing from the trace %s (%s)", gm_text_count(&t, dropped), name,
                    gm_reader_header(reader)->limit ? "GPUMEM_TRACE_LIMIT" : "disk full?");
    gm_reader_close(reader);
    return true;
}

/* Prints a word of a command, ready to copy: quoted if it has special characters, as $'\x1b' if some do more than show.
 */
static void print_word(const char *word) {
    bool simple = gm_foreign_is_plain(word), plain;
    if (!word[strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+=,:@%")]) {
        fputs(word, stderr);
        return;
    }
    fputs(simple ? "'" : "$'", stderr);
    for (size_t left = strlen(word), bytes; left; left -= bytes, word += bytes) {
        bytes = gm_foreign_character(word, left, &plain);
        if (plain && (*word == '\'' || (!simple && *word == '\\')))
            fputs(*word == '\\' ? "\\\\" : simple ? "'\\''" : "\\'", stderr);
        else if (plain)
            fwrite(word, 1, bytes, stderr);
        for (size_t i = 0; i < bytes && !plain; i++)
            fprintf(stderr, "\\x%02x", (unsigned char)word[i]);
    }
    fputc('\'', stderr);
}

/* Prints the next command. */
static void print_traces(const struct gm_run_counters *c) {
    bool any = false;
    for (unsigned i = 0; i < GM_STATS_SLOTS; i++) {
        const char *name = c->slots[i].trace;
        if (!is_used(&c->slots[i]) || !*name || !is_readable_trace(name))
            continue;
        fputs(any ? " " : "gpumem: trace written; next: gpumem report ", stderr);
        any = true;
        print_word(name);
    }
    if (any)
        fputc('\n', stderr);
}

void gm_run_counters_print(const struct gm_run_counters *c, uint64_t run_ns) {
    struct sum total = {0};
    const struct gm_stats *only = NULL;
    unsigned active = 0, used = 0;
    if (!c->slots)
        return;
    for (unsigned i = 0; i < GM_STATS_SLOTS; i++) {
        used += is_used(&c->slots[i]);
        if (!is_active(&c->slots[i]))
            continue;
        active++;
        only = &c->slots[i];
        add(&total, only);
    }
    if (!active) {
        fputs(used ? "gpumem: the program made no GPU memory calls\n"
              : c->simulated || gm_has_driver()
                  ? "gpumem: no process of the program used CUDA; one that lost LD_PRELOAD, as "
                    "behind env -i, is not seen\n"
                  : "gpumem: no libcuda.so.1 found; --sim runs on a simulated CUDA\n",
              stderr);
        return;
    }
    if (active == 1) {
        print_name(only);
        fputc('\n', stderr);
        if (only->free_sync[0])
            say("cudaFree", "%s", GM_SHOWN(only->free_sync));
    } else {
        for (unsigned i = 0; i < GM_STATS_SLOTS; i++)
            if (is_active(&c->slots[i]))
                print_process(&c->slots[i]);
        fprintf(stderr, "gpumem: all %u processes\n", active);
    }
    print_sum(&total, run_ns, active > 1);
    for (unsigned i = 0; i < GM_STATS_SLOTS; i++)
        if (is_active(&c->slots[i]))
            print_accounts(&c->slots[i], active > 1);
    print_kinds(&total);
    for (unsigned i = 0; i < GM_STATS_SLOTS; i++)
        if (is_active(&c->slots[i]) && c->slots[i].checked_order) {
            if (active > 1)
                gm_complain("%s, process %d", c->slots[i].program, c->slots[i].pid);
            print_order(&c->slots[i]);
        }
    if (used == GM_STATS_SLOTS)
        fprintf(stderr, "gpumem: only the first %d processes are counted\n", GM_STATS_SLOTS);
    print_traces(c);
}

uint64_t gm_run_counters_errors(const struct gm_run_counters *c) {
    uint64_t errors = 0;
    for (unsigned i = 0; c->slots && i < GM_STATS_SLOTS; i++)
        if (is_used(&c->slots[i]))
            errors += c->slots[i].guard_errors;
    return errors;
}
