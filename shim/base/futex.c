/* Waits by the kernel's futex (futex.h). */
#include "shim/base/futex.h"

#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { WAIT = 128, WAKE = 129 };           /* for the threads of one process */
enum { WAIT_SHARED = 0, WAKE_SHARED = 1 }; /* for processes that map the word */

void gm_futex_wait(const uint32_t *word, uint32_t expected, const struct timespec *time) {
    const int saved = errno;
    syscall(SYS_futex, word, WAIT, expected, time, NULL, 0);
    errno = saved;
}

void gm_futex_wake(const uint32_t *word) {
    const int saved = errno;
    syscall(SYS_futex, word, WAKE, INT_MAX, NULL, NULL, 0);
    errno = saved;
}

void gm_shared_sleep(const uint32_t *word, uint32_t seen, uint64_t ns) {
    const struct timespec time = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
    const int saved = errno;
    syscall(SYS_futex, word, WAIT_SHARED, seen, &time, NULL, 0);
    errno = saved;
}

void gm_shared_raise(uint32_t *word) {
    const int saved = errno;
    __atomic_add_fetch(word, 1, __ATOMIC_SEQ_CST);
    syscall(SYS_futex, word, WAKE_SHARED, INT_MAX, NULL, NULL, 0);
    errno = saved;
}

void gm_condition_wait(struct gm_condition *condition, pthread_mutex_t *mutex) {
    const uint32_t seen = condition->sequence; /* only the kernel reads it without the mutex */
    condition->waiting++;
    pthread_mutex_unlock(mutex);
    gm_futex_wait(&condition->sequence, seen, NULL);
    pthread_mutex_lock(mutex);
    condition->waiting--;
}

void gm_condition_wake(struct gm_condition *condition) {
    if (!condition->waiting)
        return;
    __atomic_add_fetch(&condition->sequence, 1, __ATOMIC_RELAXED);
    gm_futex_wake(&condition->sequence);
}
