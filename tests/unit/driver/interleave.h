/* Explores every interleaving of two threads that run real code of shim/driver.
 *
 * The threads are coroutines of one thread of the process. The code under test is compiled with this header included
 * before everything else: each atomic access, lock and pause becomes a point at which the explorer may continue the
 * other thread. The explorer runs a program again and again, each time with another choice at one of its points (depth
 * first). It stops a run in a state that it has seen before. A state consists of all static data of the process and the
 * live stacks of both threads, so whatever differs between runs lies in static variables; the explorer itself lives on
 * the heap. A thread that pauses continues only after the other one wrote something. So a run ends, and a run that does
 * not is a fault. An access of what the other thread never touches while one of them writes it, in any run of the
 * program, is no point. All accesses are sequentially consistent here: what weaker memory orders allow is not explored.
 */
#ifndef GM_TEST_INTERLEAVE_H
#define GM_TEST_INTERLEAVE_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "shim/base/base.h"
#include "shim/base/file.h"
#include "shim/accounts/stats.h"

/* ---- for the code under test */

/* The calling thread is about to read or write what is at this address. */
void il_point(const volatile void *at, bool writes, const char *where);
void il_pause(const char *where);
void il_lock(gm_spin *lock, const char *where);
bool il_try(gm_spin *lock, const char *where);
void il_unlock(gm_spin *lock);
void il_written(void); /* an atomic write was made */
void *il_pages(size_t bytes);

#define IL_TEXT_OF(line) #line
#define IL_TEXT(line)    IL_TEXT_OF(line)
#define IL_HERE          (__FILE__ ":" IL_TEXT(__LINE__))
/* A macro is not expanded again inside itself: the builtin remains. */
#define IL_READ(at, call) (il_point(at, false, IL_HERE), (call))
#define IL_CHANGE(at, call)                  \
    ({                                       \
        il_point(at, true, IL_HERE);         \
        __typeof__(call) il_result = (call); \
        il_written();                        \
        il_result;                           \
    })
#define __atomic_load_n(at, order) IL_READ(at, __atomic_load_n(at, order))
#define __atomic_store_n(at, value, order) \
    (il_point(at, true, IL_HERE), __atomic_store_n(at, value, order), il_written())
#define __atomic_exchange_n(at, value, order) IL_CHANGE(at, __atomic_exchange_n(at, value, order))
#define __atomic_fetch_add(at, value, order)  IL_CHANGE(at, __atomic_fetch_add(at, value, order))
#define __atomic_fetch_or(at, value, order)   IL_CHANGE(at, __atomic_fetch_or(at, value, order))
#define __atomic_fetch_and(at, value, order)  IL_CHANGE(at, __atomic_fetch_and(at, value, order))
#define __atomic_add_fetch(at, value, order)  IL_CHANGE(at, __atomic_add_fetch(at, value, order))
#define __atomic_sub_fetch(at, value, order)  IL_CHANGE(at, __atomic_sub_fetch(at, value, order))
#define __atomic_compare_exchange_n(at, expected, value, weak, success, failure) \
    IL_CHANGE(at, __atomic_compare_exchange_n(at, expected, value, weak, success, failure))

#define gm_spin_lock(lock)   il_lock(lock, IL_HERE)
#define gm_spin_try(lock)    il_try(lock, IL_HERE)
#define gm_spin_unlock(lock) il_unlock(lock)
#define sched_yield()        il_pause(IL_HERE)
#define gm_wait_for_users(users)                                                                           \
    for (int il_turns = 0; __atomic_load_n(users, __ATOMIC_SEQ_CST) > 0 && il_turns < 1000000; il_turns++) \
    sched_yield()
#define gm_sleep(ns)                ((void)(ns), il_pause(IL_HERE))
#define gm_pages(bytes)             il_pages(bytes)
#define gm_ticks()                  ((uint64_t)1) /* no capture lasts long */
#define gm_stats_fence_recorded()   ((void)0)
#define gm_stats_fence_queried()    ((void)0)
#define gm_stats_fence_waited(span) ((void)(span))
#define gm_log(...)                 ((void)(0 && (gm_log(__VA_ARGS__), 0)))
#define atexit(function)            ((void)(function))

/* ---- for tests */

enum { IL_THREADS = 2, IL_MAIN = IL_THREADS };

struct il_program {
    void (*before)(void);         /* by the main thread */
    void (*run)(unsigned thread); /* by both threads at once */
    void (*after)(void);          /* by the main thread */
    void (*written)(void);        /* after each write of any thread; may be NULL */
};
struct il_result {
    const char *fault;   /* NULL: none */
    char schedule[4096]; /* of the faulty run: what il_note wrote, and where threads were interrupted */
    uint64_t runs, states;
    unsigned preemptions; /* of the faulty run */
    bool complete;        /* false: there were too many runs */
};

/* Once, with all static data as it is at the begin of each run. */
void il_start(void);
/* Explores all runs with at most this number of preemptions (a thread is interrupted though it could go on). */
void il_explore(const struct il_program *program, unsigned preemptions, uint64_t most_runs, struct il_result *result);
unsigned il_thread(void); /* that runs now, or IL_MAIN */
/* The program is at fault: ends the run, unless the main thread runs. Static text. */
void il_fault(const char *text);
bool il_has_fault(void);
void il_note(const char *text); /* for the text of a faulty run */
void il_clean_stack(void);      /* erases what earlier calls left, so that more states are found equal */

#endif
