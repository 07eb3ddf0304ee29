/* The base of the library: formatter, log, clock, pages, spinlock, thread id. None of it allocates from the heap, uses
 * stdio or ends the process. All of it may run inside the host program at any moment and in many threads. */
#ifndef GM_BASE_H
#define GM_BASE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GM_INTERNAL    __attribute__((visibility("hidden")))
#define GM_PUBLIC      __attribute__((visibility("default")))
#define GM_LIKELY(x)   __builtin_expect(!!(x), 1)
#define GM_UNLIKELY(x) __builtin_expect(!!(x), 0)
/* What must hold, in a build with -Dchecked=true. */
#ifdef GM_CHECKED
void gm_assert_failed(const char *text, const char *file, int line);
#define GM_ASSERT(x) (GM_LIKELY(x) ? (void)0 : gm_assert_failed(#x, __FILE__, __LINE__))
#else
#define GM_ASSERT(x) ((void)0)
#endif
/* GM_APART keeps a rare path out of the stack frame of its caller. GM_RARE also moves it away from the hot code.
 * GM_IN_PLACE inlines what every call needs. */
#define GM_APART    __attribute__((noinline))
#define GM_RARE     __attribute__((noinline, cold))
#define GM_IN_PLACE inline __attribute__((always_inline))

/* ---- formatter (fmt.c): the subset %s %c %d %i %u %x %p %% with l, ll, z, width, 0-flag and %.*s / %.Ns. Returns the
 * length that the whole text would have, like snprintf. Always terminates the text when size > 0. */
int gm_format(char *out, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));
int gm_vformat(char *out, size_t size, const char *format, va_list args);
/* A number of bytes for people, e.g. "8.50 GiB". Returns the text. */
struct gm_size_text {
    char text[24];
};
const char *gm_size_text(struct gm_size_text *room, uint64_t bytes);

/* ---- log (log.c): one write(2) for each line to stderr, with the prefix "gpumem: ". A line ends where its text ends:
 * characters with which a name could act in a terminal, or begin a line, are shown as "\x1b" (foreign.h). */
enum gm_log_level { GM_LOG_OFF, GM_LOG_ERROR, GM_LOG_WARN, GM_LOG_INFO, GM_LOG_DEBUG };
void gm_log_set(enum gm_log_level level); /* default GM_LOG_WARN */
/* Appends the lines to this file instead; "" = standard error. Call before other threads log. Where the file cannot be
 * opened they go to standard error. */
GM_INTERNAL void gm_log_to(const char *path);
void gm_log(enum gm_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Logs only the first time. `once` is a static flag of the caller, initially 0. */
void gm_log_once(int *once, enum gm_log_level level, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Several lines that one write(2) logs, so that no other line stands between them. The caller provides the room. A line
 * for which there is no room is left out. */
struct gm_log_lines {
    char *text;
    size_t size, length;
};
void gm_log_add(struct gm_log_lines *lines, const char *format, ...) __attribute__((format(printf, 2, 3)));
void gm_log_lines(enum gm_log_level level, const struct gm_log_lines *lines);
/* Writes one line to any descriptor, without a prefix. */
void gm_say_line(int fd, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- clock (clock.c): nanoseconds of CLOCK_MONOTONIC, computed from the calibrated time stamp counter, or read by
 * clock_gettime where the counter is not invariant. gm_ticks() reads the raw counter (a few ns). gm_ticks_to_ns()
 * converts an absolute count. */
void gm_clock_init(void);
uint64_t gm_ticks(void);
uint64_t gm_ticks_to_ns(uint64_t ticks);
uint64_t gm_ticks_span_ns(uint64_t ticks); /* converts a difference of counts */
/* Both: returns the time of `begin`, and its distance to `end` in *span_ns. */
GM_INTERNAL uint64_t gm_ticks_to_times(uint64_t begin, uint64_t end, uint64_t *span_ns);
uint64_t gm_now_ns(void);

/* ---- zeroed anonymous memory from the kernel (pages.c); NULL on failure. Never freed, unless the caller calls
 * munmap. */
void *gm_pages(size_t bytes);
/* The same for a table that threads share: that of *table, which is made at first. Threads that come at the same time
 * get the one of the first. */
void *gm_pages_once(void **table, size_t bytes);

/* Add to a number, or subtract from it, that one thread at a time writes and any thread reads. One instruction on
 * x86-64, where a relaxed load and store are three. */
static inline void gm_add_alone(uint64_t *number, uint64_t by) {
#if defined(__x86_64__)
    __asm__("addq %1, %0" : "+m"(*number) : "er"(by) : "cc");
#else
    __atomic_store_n(number, *number + by, __ATOMIC_RELAXED);
#endif
}
static inline void gm_take_alone(uint64_t *number, uint64_t by) {
#if defined(__x86_64__)
    __asm__("subq %1, %0" : "+m"(*number) : "er"(by) : "cc");
#else
    __atomic_store_n(number, *number - by, __ATOMIC_RELAXED);
#endif
}

/* ---- spinlock (spin.c) for critical sections of a few dozen instructions. A waiter yields after a while. */
typedef struct {
    int held;
} gm_spin;
void gm_spin_lock_slow(gm_spin *lock);
static inline void gm_spin_lock(gm_spin *lock) {
    if (GM_UNLIKELY(__atomic_exchange_n(&lock->held, 1, __ATOMIC_ACQUIRE)))
        gm_spin_lock_slow(lock);
}
static inline bool gm_spin_try(gm_spin *lock) { return !__atomic_exchange_n(&lock->held, 1, __ATOMIC_ACQUIRE); }
static inline void gm_spin_unlock(gm_spin *lock) { __atomic_store_n(&lock->held, 0, __ATOMIC_RELEASE); }

/* Waits until *users is 0. Most users stay inside for a few microseconds, some until work of the device is done. The
 * wait is bounded by about a second, so that a stopped thread cannot hang the program. */
GM_INTERNAL void gm_wait_for_users(const int *users);

/* ---- the child of a fork (spin.c). Its copy of the parent's memory may have locks that no thread of the child
 * releases, and what it holds of the driver is the parent's. These two, at file scope, say what is zero in the child.
 */

struct gm_fork_row {
    void *at;
    size_t bytes;
};
#define GM_FORK_ROW_(variable, number)                \
    static const struct gm_fork_row fork_row_##number \
        __attribute__((used, section("gm_fork_rows"))) = {&(variable), sizeof(variable)}
#define GM_FORK_ROW(variable, number) GM_FORK_ROW_(variable, number)
/* A static variable, or a member of one. */
#define GM_ZERO_IN_CHILD(variable) GM_FORK_ROW(variable, __COUNTER__)
/* Defines a spinlock. */
#define GM_LOCK(name)    \
    static gm_spin name; \
    GM_ZERO_IN_CHILD(name)
/* The first call in the child. */
GM_INTERNAL void gm_fork_zero(void);

/* ---- the kernel's thread id, cached for each thread (thread.c). */
int gm_thread_id(void);

/* ---- what a plain call reads of its thread (thread.c), in one place, since each thread-local variable costs a load */
struct gm_mine {
    uint8_t depth;                 /* a hook runs */
    uint8_t holds, held;           /* gm_cancel_hold */
    uint8_t number;                /* the lowest, from 1 on, that no other thread has; 0 = none (stats.c) */
    struct gm_stats_shard *counts; /* that shard; NULL while it has none */
    struct gm_shard *shard; /* its free lists, for the fast case of a call (shim/pipeline/fast.h); NULL: none yet */
    const struct gm_context *context; /* of its latest allocation; valid where `shard` is not NULL */
    uint64_t newest;                  /* its latest allocation, until it is freed; 0 = none */
};
GM_INTERNAL extern __thread struct gm_mine gm_mine __attribute__((tls_model("initial-exec")));

/* ---- between these two calls a cancelled thread does not end. It ends at its next cancellation point afterwards. The
 * calls may be nested. */
void gm_cancel_hold(void);
void gm_cancel_release(void);

#endif
