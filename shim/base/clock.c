/* Time stamps from the processor's counter, converted to nanoseconds of CLOCK_MONOTONIC.
 *
 * The relation between counter and time is a chain of straight segments. The first segment begins at gm_clock_init().
 * Its slope is set at the first conversion, from the two points (init, now). From time to time a conversion compares
 * the line with the clock and appends a segment. A new segment begins a little in the future, at a point of the old
 * line, and its slope is corrected towards the clock. A segment never changes once it is appended. So the same count
 * always gives the same time, and a later count never gives an earlier time, in any thread. Only the newest RING
 * segments are stored. An older count is converted with the oldest stored one. */
#include "shim/base/base.h"
#include "shim/base/room.h"
#include "shim/base/file.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <time.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

enum { RING = 64, ORIGINS = 8 };
#define SHIFT 32 /* slopes are ns per tick * 2^SHIFT */
#define COLD_NS \
    250000 /* shortest base line of the first slope: a reading error of 10 ns gives a relative error of 4e-5 */
#define LEAD_NS        100000 /* a new segment begins this far in the future */
#define PERIOD_NS      1000000000
#define STEP_NS        1000000 /* a larger difference means that counter and clock parted (suspend, migration) */
#define MAX_CORRECTION 16384   /* the correction is at most 1/MAX_CORRECTION of the slope */
#define READING_NS     2000    /* a reading that takes longer was interrupted */

struct point {
    uint64_t tick, ns;
};
struct segment {
    struct point from;
    uint64_t slope;
    struct point seen; /* the clock when the segment was created */
    uint64_t due;      /* tick at which to compare with the clock again */
};

static struct segment origins[ORIGINS];
static unsigned origins_taken;
static struct segment *origin; /* NULL: gm_clock_init has not run; its slope is 0 until the first conversion */
static bool use_counter;       /* valid once `origin` is set; false before */

static struct segment ring[RING];
static uint64_t newest;   /* number of the newest segment: 0 = only the origin; segment n > 0 lies in ring[n % RING] */
static uint64_t refining; /* tick at which a thread began to append, 0 = nobody */

static uint64_t clock_ns(void) { return gm_clock_ns(CLOCK_MONOTONIC); }

static inline uint64_t counter(void) {
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    uint64_t ticks;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
#else
    return clock_ns();
#endif
}

/* The kernel checks the counter. It changes to another clock source when the counter is unstable or differs between
 * processors. */
static bool kernel_trusts_counter(void) {
    static const char *const good[] = {"tsc", "kvm-clock", "hyperv_clocksource_tsc_page"};
    char name[64];
    if (!gm_read_text("/sys/devices/system/clocksource/clocksource0/current_clocksource", name, sizeof name))
        return true;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        size_t n = strlen(good[i]);
        if (!strncmp(name, good[i], n) && (name[n] == '\n' || name[n] == '\0'))
            return true;
    }
    return false;
}

static bool counter_is_good(void) {
#if defined(__x86_64__)
    unsigned eax, ebx, ecx, edx;
    if (!__get_cpuid(0x80000007u, &eax, &ebx, &ecx, &edx) || !(edx & (1u << 8))) /* invariant TSC */
        return false;
    return kernel_trusts_counter();
#elif defined(__aarch64__)
    return true; /* the generic timer is invariant by architecture */
#else
    return false;
#endif
}

/* Reads counter and clock as closely together as a few tries allow; returns the uncertainty in ticks. */
static uint64_t read_both(struct point *point) {
    uint64_t best = UINT64_MAX;
    for (int i = 0; i < 5; i++) {
        uint64_t before = counter(), ns = clock_ns(), after = counter();
        if (after - before < best) {
            best = after - before;
            *point = (struct point){before + best / 2, ns};
        }
    }
    return best;
}

static uint64_t scale(uint64_t ticks, uint64_t slope) {
    return (uint64_t)(((unsigned __int128)ticks * slope) >> SHIFT);
}

static uint64_t ticks_of(uint64_t ns, uint64_t slope) { return (uint64_t)(((unsigned __int128)ns << SHIFT) / slope); }

static uint64_t slope_between(const struct point *a, const struct point *b) {
    return (uint64_t)(((unsigned __int128)(b->ns - a->ns) << SHIFT) / (b->tick - a->tick));
}

static uint64_t on_line(const struct segment *segment, uint64_t tick) {
    if (tick >= segment->from.tick)
        return segment->from.ns + scale(tick - segment->from.tick, segment->slope);
    uint64_t back = scale(segment->from.tick - tick, segment->slope);
    return back < segment->from.ns ? segment->from.ns - back : 0;
}

/* No lock: after a fork the child must not wait for a thread that it does not have. */
void gm_clock_init(void) {
    if (__atomic_load_n(&origin, __ATOMIC_ACQUIRE))
        return;
    int saved = errno;
    unsigned mine = __atomic_fetch_add(&origins_taken, 1, __ATOMIC_RELAXED);
    if (mine < ORIGINS) {
        struct segment *expected = NULL;
        __atomic_store_n(&use_counter, counter_is_good(), __ATOMIC_RELAXED);
        read_both(&origins[mine].from);
        origins[mine].seen = origins[mine].from;
        __atomic_compare_exchange_n(&origin, &expected, &origins[mine], false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
    }
    while (!__atomic_load_n(&origin, __ATOMIC_ACQUIRE))
        sched_yield();
    errno = saved;
}

static struct segment *ready_origin(void) {
    struct segment *first = __atomic_load_n(&origin, __ATOMIC_ACQUIRE);
    if (GM_UNLIKELY(!first)) {
        gm_clock_init();
        first = __atomic_load_n(&origin, __ATOMIC_ACQUIRE);
    }
    return first;
}

/* Sets the first slope. Each early thread computes one, and the first to store it wins. So it is with `due`, which is
 * constant from then on: threads keep the line until it is due. */
static void warm_up(struct segment *first) {
    struct point now;
    do {
        read_both(&now);
    } while (now.ns - first->from.ns < COLD_NS || now.tick <= first->from.tick);
    uint64_t none = 0, never = 0, slope = slope_between(&first->from, &now);
    __atomic_compare_exchange_n(&first->due, &never, now.tick + (now.tick - first->from.tick), false, __ATOMIC_RELAXED,
                                __ATOMIC_RELAXED);
    __atomic_compare_exchange_n(&first->slope, &none, slope, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

/* Copies segment `number`. False: a newer segment replaced it meanwhile. */
static bool get_segment(const struct segment *first, uint64_t number, struct segment *segment) {
    const struct segment *slot = number ? &ring[number % RING] : first;
    segment->from.tick = __atomic_load_n(&slot->from.tick, __ATOMIC_ACQUIRE);
    segment->from.ns = __atomic_load_n(&slot->from.ns, __ATOMIC_ACQUIRE);
    segment->slope = __atomic_load_n(&slot->slope, __ATOMIC_ACQUIRE);
    segment->due = __atomic_load_n(&slot->due, __ATOMIC_ACQUIRE);
    segment->seen.tick = __atomic_load_n(&slot->seen.tick, __ATOMIC_ACQUIRE);
    segment->seen.ns = __atomic_load_n(&slot->seen.ns, __ATOMIC_ACQUIRE);
    return !number || __atomic_load_n(&newest, __ATOMIC_RELAXED) < number + RING - 1;
}

/* Appends segment `number` + 1 behind `last`. Gives up when it was interrupted; the next conversion tries again. */
static void append(const struct segment *last, uint64_t number) {
    struct point now;
    uint64_t lead = ticks_of(LEAD_NS, last->slope);
    if (read_both(&now) > ticks_of(READING_NS, last->slope) || now.tick <= last->from.tick ||
        now.tick <= last->seen.tick || now.ns <= last->seen.ns)
        return;
    struct segment next = {.seen = now, .slope = slope_between(&last->seen, &now)};
    if (!next.slope)
        return;
    next.from.tick = now.tick + lead;
    next.from.ns = on_line(last, next.from.tick);
    uint64_t window_ns = now.ns - last->seen.ns;
    window_ns = window_ns < PERIOD_NS / 2 ? 2 * window_ns : PERIOD_NS;
    int64_t ahead = (int64_t)(now.ns - on_line(last, now.tick)); /* clock ahead of the line: positive */
    if (ahead > STEP_NS) {
        next.from.ns += (uint64_t)ahead;
    } else if (ahead < -STEP_NS) {
        next.slope -= next.slope / 2;
    } else {
        int64_t most = (int64_t)(next.slope / MAX_CORRECTION);
        int64_t correction = (int64_t)((__int128)ahead * (__int128)next.slope / (__int128)window_ns);
        correction = correction > most ? most : correction < -most ? -most : correction;
        next.slope = (uint64_t)((int64_t)next.slope + correction);
    }
    next.due = next.from.tick + ticks_of(window_ns, next.slope);

    struct segment *slot = &ring[(number + 1) % RING];
    if (counter() >= next.from.tick - lead / 2 || __atomic_load_n(&newest, __ATOMIC_RELAXED) != number)
        return;
    __atomic_store_n(&slot->from.tick, next.from.tick, __ATOMIC_RELEASE);
    __atomic_store_n(&slot->from.ns, next.from.ns, __ATOMIC_RELEASE);
    __atomic_store_n(&slot->slope, next.slope, __ATOMIC_RELEASE);
    __atomic_store_n(&slot->seen.tick, next.seen.tick, __ATOMIC_RELEASE);
    __atomic_store_n(&slot->seen.ns, next.seen.ns, __ATOMIC_RELEASE);
    __atomic_store_n(&slot->due, next.due, __ATOMIC_RELEASE);
    __atomic_store_n(&newest, number + 1, __ATOMIC_RELEASE);
}

/* One thread at a time appends. A claim older than a second belongs to a thread that does not exist after a fork. */
static void refine(const struct segment *last, uint64_t number) {
    uint64_t claim = __atomic_load_n(&refining, __ATOMIC_RELAXED), now = counter() | 1;
    if (claim && now - claim < ticks_of(PERIOD_NS, last->slope))
        return;
    if (!__atomic_compare_exchange_n(&refining, &claim, now, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
        return;
    append(last, number);
    __atomic_store_n(&refining, 0, __ATOMIC_RELEASE);
}

/* Finds the segment that `tick` lies on; *number is its number. */
static void find_segment(struct segment *first, uint64_t tick, struct segment *segment, uint64_t *number) {
    for (;;) {
        uint64_t last = __atomic_load_n(&newest, __ATOMIC_ACQUIRE), n = last;
        bool intact = get_segment(first, n, segment);
        while (intact && n > 0 && tick < segment->from.tick && n > 1 + (last > RING - 4 ? last - (RING - 4) : 0)) {
            intact = get_segment(first, --n, segment);
        }
        if (intact && n == 1 && tick < segment->from.tick)
            intact = get_segment(first, --n, segment);
        if (intact) {
            *number = n;
            return;
        }
    }
}

static GM_APART uint64_t ticks_of_clock(void) {
    ready_origin();
    return __atomic_load_n(&use_counter, __ATOMIC_RELAXED) ? counter() : clock_ns();
}

uint64_t gm_ticks(void) {
    return GM_LIKELY(__atomic_load_n(&use_counter, __ATOMIC_RELAXED)) ? counter() : ticks_of_clock();
}

/* The thread's copy of the line that it used last. It holds at least until the segment is due, because the next one
 * begins later. */
struct line {
    uint64_t tick, ns, slope, ticks; /* valid for [tick, tick + ticks) */
};

GM_ROOM_FITS(struct line, clock);

uint64_t gm_ticks_to_ns(uint64_t ticks) {
    struct line *cached = gm_room_part_known(GM_ROOM_CLOCK);
    if (GM_LIKELY(cached && ticks - cached->tick < cached->ticks))
        return cached->ns + scale(ticks - cached->tick, cached->slope);
    struct segment *first = ready_origin(), segment;
    uint64_t number;
    if (!__atomic_load_n(&use_counter, __ATOMIC_RELAXED))
        return ticks;
    if (GM_UNLIKELY(!__atomic_load_n(&first->slope, __ATOMIC_ACQUIRE)))
        warm_up(first);
    find_segment(first, ticks, &segment, &number);
    if (GM_UNLIKELY(ticks > segment.due) && number == __atomic_load_n(&newest, __ATOMIC_RELAXED))
        refine(&segment, number);
    if (segment.due > segment.from.tick && (cached = gm_room_part(GM_ROOM_CLOCK)))
        *cached = (struct line){segment.from.tick, segment.from.ns, segment.slope, segment.due - segment.from.tick};
    return on_line(&segment, ticks);
}

uint64_t gm_ticks_span_ns(uint64_t ticks) {
    const struct line *cached = gm_room_part_known(GM_ROOM_CLOCK);
    if (GM_LIKELY(cached && cached->slope != 0))
        return scale(ticks, cached->slope);
    struct segment *first = ready_origin(), segment;
    if (!__atomic_load_n(&use_counter, __ATOMIC_RELAXED))
        return ticks;
    if (GM_UNLIKELY(!__atomic_load_n(&first->slope, __ATOMIC_ACQUIRE)))
        warm_up(first);
    while (!get_segment(first, __atomic_load_n(&newest, __ATOMIC_ACQUIRE), &segment))
        ;
    return scale(ticks, segment.slope);
}

uint64_t gm_ticks_to_times(uint64_t begin, uint64_t end, uint64_t *span_ns) {
    const struct line *cached = gm_room_part_known(GM_ROOM_CLOCK);
    if (GM_UNLIKELY(!cached || begin - cached->tick >= cached->ticks)) {
        *span_ns = gm_ticks_span_ns(end - begin);
        return gm_ticks_to_ns(begin);
    }
    *span_ns = scale(end - begin, cached->slope);
    return cached->ns + scale(begin - cached->tick, cached->slope);
}

uint64_t gm_now_ns(void) { return gm_ticks_to_ns(gm_ticks()); }
