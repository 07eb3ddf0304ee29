/* Threads that wait for each other, by the kernel's futex. pthread_cond_wait and pthread_join are cancellation points:
 * a thread that the program cancels would end inside, with gpumem's locks held. A library that is built with glibc 2.34
 * and calls pthread_join does not load with an older one. The functions here have neither fault, and keep errno.
 *
 * A wait may end without a reason, so each caller reads again what it waits for. */
#ifndef GM_FUTEX_H
#define GM_FUTEX_H

#include <pthread.h>
#include <stdint.h>
#include <time.h>

/* ---- words. To wait for a change: read the word, decide to wait, call gm_futex_wait with the value read. To change:
 * store, then call gm_futex_wake. No wake-up is lost, because the kernel compares the word and adds the thread to the
 * sleeping ones in one step. A store before that step makes the wait return at once. A store after it is followed by a
 * gm_futex_wake that finds the thread. */

/* Sleeps while *word is `expected`, until gm_futex_wake(word), a signal, or the end of the time (NULL: no end). */
void gm_futex_wait(const uint32_t *word, uint32_t expected, const struct timespec *time);
/* Wakes all threads that sleep on the word. The word is not read: its memory may be freed already. */
void gm_futex_wake(const uint32_t *word);

/* The same between processes that map the word: sleeps at most `ns` while it is `seen`. */
void gm_shared_sleep(const uint32_t *word, uint32_t seen, uint64_t ns);
/* Raises the word by one, and wakes all that sleep on it. */
void gm_shared_raise(uint32_t *word);

/* ---- condition variables. What is waited for is guarded by a mutex, and all threads hold that mutex in these calls.
 * The threads of one process use a condition together. A zeroed one is ready for use, and nothing has to be destroyed.
 *
 * No wake-up is lost. A waiter finds under the mutex that it has to wait, and reads the sequence before it releases the
 * mutex. Whoever changes what it waits for takes the mutex later, finds the waiter counted in `waiting`, and raises the
 * sequence that the waiter read. If the waiter does not sleep yet, the kernel finds another sequence and lets it go on.
 * If it sleeps, it is woken. The one exception takes 2^32 wake-ups between a waiter's read and its sleep. */
struct gm_condition {
    uint32_t sequence, waiting;
};

/* Releases the mutex, sleeps until gm_condition_wake, and takes the mutex again. */
void gm_condition_wait(struct gm_condition *condition, pthread_mutex_t *mutex);
/* Wakes all threads that wait. A system call only where there is one. */
void gm_condition_wake(struct gm_condition *condition);

#endif
