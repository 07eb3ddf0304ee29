/* The life of the trace: set up at start, opened at the first event, flushed by a thread, finished at exit, and opened
 * anew in a forked child. A format writes the events (parts.h). */
#include "shim/trace/writer.h"
#include "shim/base/events.h"
#include "shim/base/futex.h"
#include "shim/base/options.h"
#include "shim/base/real_dl.h"
#include "shim/trace/parts.h"
#include "shim/trace/ring.h"
#include "shim/trace/summary.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

enum { FORMAT_AUTO, FORMAT_BINARY, FORMAT_CSV };

bool gm_trace_on, gm_trace_flusher, gm_trace_paused;
uint32_t gm_trace_session = 1u << 12 | 1;

static uint32_t no_trace; /* used until the first opening */
uint32_t *gm_trace_generation = &no_trace;

static char pattern[GM_TRACE_NAME];
static int wanted_format;
static uint64_t flush_interval;
static uint64_t process_start; /* of the process that was set up: for its children, its own files are never old; 0: no
                                  trace is old enough to be overwritten */
static char policy_name[64], library_version[32];

GM_LOCK(opening);
static const struct gm_trace_format unopened;
static const struct gm_trace_format *current = &unopened; /* of the open trace; NULL: it ended */
static uint32_t generations;
static uint64_t sequence, first_sequence; /* events before the first one belong to an earlier trace of the process */
static struct gm_trace_file file = {.fd = -1};

/* An event needs no more than a place in its thread's chunk: the trace is binary and no summary, and a thread flushes
 * it. */
static bool appends;

bool gm_trace_prepare(const char *name, int format, uint64_t flush_ns, const char *policy, const char *version) {
    if (!name || !*name)
        return false;
    /* Stored as an absolute path, since the program may change its directory before the first event. */
    static char here[GM_TRACE_NAME];
    int length;
    if (name[0] != '/' && getcwd(here, sizeof here)) {
        /* A % in the name of the directory is not a pattern. */
        size_t used = 0;
        for (const char *p = here; *p && used + 2 < sizeof pattern; p++) {
            if (*p == '%')
                pattern[used++] = '%';
            pattern[used++] = *p;
        }
        length = (int)used + gm_format(pattern + used, sizeof pattern - used, "/%s", name);
    } else {
        length = gm_format(pattern, sizeof pattern, "%s", name);
    }
    if (length >= (int)sizeof pattern) {
        gm_log(GM_LOG_ERROR, "trace file name '%s' is too long", name);
        return false;
    }
    wanted_format = format;
    __atomic_store_n(&flush_interval, flush_ns, __ATOMIC_RELAXED);
    process_start = gm_trace_process_start();
    gm_format(policy_name, sizeof policy_name, "%s", policy ? policy : "");
    gm_format(library_version, sizeof library_version, "%s", version ? version : "");
    return true;
}

void gm_trace_setup(const char *name, int format, uint64_t flush_ns, const char *policy, const char *version) {
    if (gm_trace_prepare(name, format, flush_ns, policy, version))
        __atomic_store_n(&gm_trace_on, true, __ATOMIC_RELAXED);
}

static uint64_t most_bytes; /* of the file */

void gm_trace_bound(uint64_t bytes, uint64_t ring_bytes, uint64_t ring_ns) {
    most_bytes = bytes;
    gm_ring_setup(ring_bytes, ring_ns);
}

/* Whoever takes a number of the next trace finds the session of the last one closed (recorded.h). */
uint64_t gm_trace_sequence(void) { return __atomic_add_fetch(&sequence, 1, __ATOMIC_ACQ_REL); }

static void fill_header(struct gm_trace_header *h) {
    struct utsname host;
    memset(h, 0, sizeof *h);
    h->version = gm_ring_on() ? 1 : GM_TRACE_VERSION;
    h->header_bytes = GM_TRACE_HEADER;
    h->chunk_bytes = GM_TRACE_CHUNK;
    h->event_bytes = sizeof(struct gm_event);
    h->start_ns = gm_now_ns();
    h->epoch_ns = gm_clock_ns(CLOCK_REALTIME);
    h->pid = getpid();
    h->parent = getppid();
    h->rank = gm_trace_rank();
    gm_format(h->host, sizeof h->host, "%s", uname(&host) ? "" : host.nodename);
    if (readlink("/proc/self/exe", h->program, sizeof h->program - 1) < 0)
        h->program[0] = 0;
    gm_format(h->policy, sizeof h->policy, "%s", policy_name);
    gm_format(h->library, sizeof h->library, "%s", library_version);
    h->summary_ns = gm_summary_ns;
    h->limit = most_bytes;
    h->ring = gm_ring_on();
}

/* The generation lies in a page that the kernel clears in every child, also after a bare clone(), which runs no fork
 * handlers. */
static bool new_generation(void) {
    if (gm_trace_generation == &no_trace) {
        long bytes = sysconf(_SC_PAGESIZE);
        uint32_t *fresh = gm_pages((size_t)bytes);
        if (!fresh)
            return false;
#ifdef MADV_WIPEONFORK
        madvise(fresh, (size_t)bytes, MADV_WIPEONFORK); /* on older kernels, fork handlers notify the child */
#endif
        __atomic_store_n(&gm_trace_generation, fresh, __ATOMIC_RELEASE);
    }
    /* The page is set first, because a count without its page indicates a fork. */
    uint32_t next = generations + 1;
    __atomic_store_n(gm_trace_generation, next, __ATOMIC_RELEASE);
    __atomic_store_n(&generations, next, __ATOMIC_RELEASE);
    return true;
}

static bool is_unnotified_child(void) {
    return __atomic_load_n(&generations, __ATOMIC_ACQUIRE) &&
           !__atomic_load_n(__atomic_load_n(&gm_trace_generation, __ATOMIC_ACQUIRE), __ATOMIC_RELAXED);
}

static void give_up(void) {
    GM_PUBLISH(trace_named, "");
    __atomic_store_n(&gm_trace_on, false, __ATOMIC_RELAXED);
    __atomic_store_n(&current, NULL, __ATOMIC_RELEASE);
}

/* The caller holds `opening`. NULL, or why there is no trace. */
static const char *open_file(uint64_t started_ns, bool only_regular) {
    static struct gm_trace_header header;
    if (!new_generation())
        return "no memory for a trace";
    if (gm_trace_open(pattern, started_ns, gm_option_is_set(GM_OPT_STATS), &file))
        return file.why;
    if (only_regular && !file.regular) {
        gm_format(file.why, sizeof file.why, "'%s' is not a regular file", file.name);
        gm_trace_file_close(&file);
        return file.why;
    }
    fill_header(&header);
    if (gm_summary_on() && !gm_summary_open(header.start_ns)) {
        gm_format(file.why, sizeof file.why, "trace '%s': no memory for a summary", file.name);
        gm_trace_file_close(&file);
        return file.why;
    }
    bool text = wanted_format == FORMAT_CSV ||
                (wanted_format == FORMAT_AUTO && (!file.regular || gm_trace_name_is_csv(file.name)));
    if (!text) {
        int error = file.regular ? gm_trace_binary.open(&file, &header, flush_interval) : ENODEV;
        if (error == ENOSPC || error == EDQUOT || error == EFBIG) {
            gm_format(file.why, sizeof file.why, "cannot write trace file '%s': %s", file.name, gm_errno_text(error));
            gm_trace_file_close(&file);
            return file.why;
        }
        if (error)
            gm_log(GM_LOG_WARN, "'%s' %s: the trace is written as CSV", file.name, gm_errno_text(error));
        text = error != 0;
    }
    if (text && gm_ring_on())
        gm_log(GM_LOG_WARN, "trace '%s' is text: GPUMEM_TRACE_RING needs the binary format, all events are written",
               file.name);
    if (text)
        gm_trace_text.open(&file, &header, flush_interval);
    __atomic_store_n(&current, text ? &gm_trace_text : &gm_trace_binary, __ATOMIC_RELEASE);
    GM_PUBLISH(trace_named, file.name);
    return NULL;
}

/* The caller holds `opening`. */
static void open_trace(void) {
    const char *why = gm_trace_is_on() ? open_file(process_start, false) : "";
    if (why && *why)
        gm_log(GM_LOG_ERROR, "%s", why);
    if (why)
        give_up();
}

/* ---- a summary */

/* End of an interval, where it is over; or of the trace. */
static void write_summary(const struct gm_trace_format *now, uint64_t now_ns, bool end) {
    if (end && now->use_reserve)
        now->use_reserve();
    now->flush(true); /* so that it is known how much room there is */
    gm_summary_write(now_ns, end, now->have_room, now->row);
}

/* ---- flushing */

static uint32_t woken;

void gm_trace_wake(enum gm_trace_wake why) {
    if (!__atomic_fetch_or(&woken, why, __ATOMIC_RELAXED))
        gm_futex_wake(&woken);
}

static void *flush_often(void *opened_as);

/* Called without the lock, since thread creation may wait for the loader's lock. */
static void start_flusher(void) {
    const struct gm_trace_format *now = __atomic_load_n(&current, __ATOMIC_ACQUIRE);
    if (!__atomic_load_n(&flush_interval, __ATOMIC_RELAXED) || !now)
        return;
    uint32_t generation = __atomic_load_n(&generations, __ATOMIC_ACQUIRE);
    bool flushes = !gm_thread_start(flush_often, (void *)(uintptr_t)generation);
    __atomic_store_n(&gm_trace_flusher, flushes, __ATOMIC_RELEASE);
    __atomic_store_n(&appends, flushes && now == &gm_trace_binary && !gm_summary_on(), __ATOMIC_RELEASE);
}

/* A stop waits for the threads that are inside the trace. A thread adds to `users` and then reads the format. A stop
 * clears the format and then adds 0 to `users`. So the second of the two sees what the first one stored. */
static uint32_t users;

static const struct gm_trace_format *ready(void) {
    const struct gm_trace_format *now = __atomic_load_n(&current, __ATOMIC_ACQUIRE);
    if (GM_LIKELY(now != &unopened))
        return now;
    gm_spin_lock(&opening);
    bool first = current == &unopened;
    if (first)
        open_trace();
    now = current;
    gm_spin_unlock(&opening);
    if (first)
        start_flusher();
    return now;
}

/* The format of the trace, or NULL if there is none. gm_trace_leave follows in any case. */
static inline const struct gm_trace_format *enter_trace(void) {
    if (GM_UNLIKELY(is_unnotified_child()))
        gm_trace_after_fork();
    gm_trace_hold();
    return ready();
}

void gm_trace_hold(void) { __atomic_add_fetch(&users, 1, __ATOMIC_ACQ_REL); }

void gm_trace_leave(void) { __atomic_sub_fetch(&users, 1, __ATOMIC_RELEASE); }

/* A thread that does not come back, as one that was interrupted by this one, is left behind. */
static void wait_for_users(void) {
    enum { TURNS = 1000, TURN_NS = 1000000 };
    for (int turn = 0; turn < TURNS && __atomic_add_fetch(&users, 0, __ATOMIC_ACQ_REL); turn++)
        gm_sleep(TURN_NS);
}

/* Sleeps until the time, or until somebody wakes the flusher. True: everything must be flushed. */
static bool wait_until(uint64_t due_ns) {
    uint64_t now_ns = gm_now_ns(), rest = due_ns > now_ns ? due_ns - now_ns : 0;
    const struct timespec time = {(time_t)(rest / 1000000000u), (long)(rest % 1000000000u)};
    if (rest)
        gm_futex_wait(&woken, 0, &time);
    return (__atomic_exchange_n(&woken, 0, __ATOMIC_RELAXED) & GM_TRACE_WAKE_ALL) || gm_now_ns() >= due_ns;
}

/* The thread gets its generation as argument, because the trace may end before the thread first runs. */
static void *flush_often(void *opened_as) {
    uint32_t generation = (uint32_t)(uintptr_t)opened_as;
    uint64_t interval = __atomic_load_n(&flush_interval, __ATOMIC_RELAXED), due_ns = gm_now_ns();
    if (gm_summary_on() && gm_summary_ns < interval)
        interval = gm_summary_ns;
    due_ns += interval;
    for (;;) {
        bool due = wait_until(due_ns);
        const struct gm_trace_format *now = enter_trace();
        bool ended = !now || __atomic_load_n(&generations, __ATOMIC_ACQUIRE) != generation;
        if (!ended && due && gm_summary_on())
            write_summary(now, gm_now_ns(), false);
        if (!ended)
            now->flush(due);
        gm_trace_leave();
        if (ended)
            return NULL;
        if (!due)
            continue;
        due_ns = gm_now_ns() + interval;
        GM_PUBLISH(request_due);
    }
}

void gm_trace_sum_up(const struct gm_event *event) {
    const struct gm_trace_format *now = enter_trace();
    if (now && gm_summary_change(event) && GM_UNLIKELY(!gm_trace_flushes())) {
        write_summary(now, event->time_ns, false);
        now->flush(true);
    }
    gm_trace_leave();
}

static inline bool is_of_earlier_trace(uint64_t number) {
    return GM_UNLIKELY(number < __atomic_load_n(&first_sequence, __ATOMIC_RELAXED));
}

void gm_trace_event(const struct gm_event *event) {
    const struct gm_trace_format *now = enter_trace();
    if (now && !is_of_earlier_trace(event->seq) && (GM_LIKELY(!gm_summary_on()) || gm_summary_keeps(event))) {
        now->event(event);
        /* Often this is the program's last event, so the events before it must be in the file. */
        if (GM_UNLIKELY(event->action == GM_ACT_ALLOC_FAIL))
            now->flush(true);
    }
    gm_trace_leave();
}

void gm_trace_amount(enum gm_action action, enum gm_kind kind, int device, uint64_t bytes, enum gm_reason reason) {
    if (!gm_trace_is_on())
        return;
    struct gm_event event;
    gm_event_fill(&event, gm_trace_sequence(), gm_now_ns(), action, kind, device);
    event.bytes = bytes;
    event.reason = (uint8_t)reason;
    gm_trace_event(&event);
}

static GM_RARE void flush_now(void) {
    const struct gm_trace_format *now = enter_trace();
    if (now)
        now->flush(true);
    gm_trace_leave();
}

/* A place in a chunk can be used without entry, because only make_buffer_room gives room, and gives it for one
 * generation of the trace. */
struct gm_event *gm_trace_place(uint64_t number, struct gm_event *otherwise) {
    bool appends_it = GM_LIKELY(__atomic_load_n(&appends, __ATOMIC_RELAXED)) && !is_of_earlier_trace(number);
    struct gm_event *place = appends_it ? gm_chunks_place() : NULL;
    return GM_LIKELY(place != NULL) ? place : otherwise;
}

void gm_trace_placed(struct gm_event *place, const struct gm_event *otherwise) {
    if (GM_UNLIKELY(place == otherwise)) {
        gm_trace_event(place);
        return;
    }
    gm_chunks_add(place);
    if (GM_UNLIKELY(place->action == GM_ACT_ALLOC_FAIL))
        flush_now();
}

void gm_trace_record(const struct gm_record *record) {
    const struct gm_trace_format *now = enter_trace();
    if (now)
        now->record(record);
    gm_trace_leave();
}

bool gm_trace_start(bool fresh, const char **why) {
    const uint32_t next = 1u << 12, last = gm_trace_session & ~(next - 1);
    __atomic_store_n(&gm_trace_session, (last + next) | 2, __ATOMIC_SEQ_CST);
    gm_spin_lock(&opening);
    __atomic_store_n(&first_sequence, gm_trace_sequence(), __ATOMIC_SEQ_CST);
    if (fresh)
        process_start = 0; /* forked children leave every trace alone, too */
    *why = open_file(process_start, fresh);
    if (*why)
        __atomic_store_n(&current, NULL, __ATOMIC_RELEASE);
    gm_spin_unlock(&opening);
    if (*why)
        return false;
    __atomic_store_n(&gm_trace_session, (last + 2 * next) | 1, __ATOMIC_SEQ_CST);
    start_flusher();
    return true;
}

static void finish_trace(enum gm_trace_end how) {
    if (is_unnotified_child())
        gm_trace_after_fork(); /* the child must not finish its parent's file */
    __atomic_store_n(&gm_trace_on, false, __ATOMIC_RELAXED);
    gm_spin_lock(&opening);
    __atomic_store_n(&appends, false, __ATOMIC_RELAXED);
    const struct gm_trace_format *was = current;
    __atomic_store_n(&current, NULL, __ATOMIC_RELEASE);
    gm_spin_unlock(&opening);
    if (how == GM_TRACE_STOPPED)
        wait_for_users();
    if (!was || was == &unopened)
        return;
    if (gm_summary_on())
        write_summary(was, gm_now_ns(), true);
    was->finish(how);
}

void gm_trace_stop(void) {
    finish_trace(GM_TRACE_STOPPED);
    gm_spin_lock(&opening);
    __atomic_store_n(&gm_trace_flusher, false, __ATOMIC_RELAXED);
    new_generation(); /* what a thread still has in its buffer belongs to no file */
    gm_spin_unlock(&opening);
    wait_for_users(); /* threads that ended meanwhile may write their buffers */
    gm_spin_lock(&opening);
    gm_trace_file_close(&file);
    gm_spin_unlock(&opening);
    gm_trace_wake(GM_TRACE_WAKE_ALL);
}

void gm_trace_finish(void) { finish_trace(GM_TRACE_WHOLE); }

void gm_trace_after_fork(void) {
    users = 0;
    if (current && current->forget)
        current->forget();
    if (gm_summary_on())
        gm_summary_forget();
    appends = gm_trace_flusher = false; /* the child has no flusher thread */
    gm_trace_file_close(&file);         /* otherwise the child would keep the parent's file lock */
    if (gm_trace_generation != &no_trace)
        new_generation();
    if (current)
        __atomic_store_n(&current, &unopened, __ATOMIC_RELEASE);
}

const char *gm_trace_file(void) { return gm_trace_fd(&file) >= 0 ? file.name : ""; }

bool gm_trace_is_in_place(void) {
    struct stat st;
    return !file.regular || (!gm_stat(file.name, &st) && st.st_dev == file.device && st.st_ino == file.inode);
}
