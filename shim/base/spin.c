/* The slow path of the spinlock. The holder may have lost its processor, or may run at a lower real-time priority than
 * the waiter. So the waiter first pauses, then yields, then sleeps, and the holder can run in every case. */
#include "shim/base/base.h"
#include "shim/base/file.h"

#include <errno.h>
#include <sched.h>
#include <string.h>

enum { PAUSES = 200, YIELDS = 1000, NAP_NS = 50000, NAPS = 10000 };

static void pause_briefly(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

void gm_spin_lock_slow(gm_spin *lock) {
    int saved = errno;
    for (unsigned tries = 0;; tries++) {
        if (!__atomic_load_n(&lock->held, __ATOMIC_RELAXED) && !__atomic_exchange_n(&lock->held, 1, __ATOMIC_ACQUIRE))
            break;
        if (tries < PAUSES) {
            pause_briefly();
        } else if (tries < YIELDS) {
            sched_yield();
        } else {
            gm_sleep(NAP_NS);
        }
    }
    errno = saved;
}

void gm_wait_for_users(const int *users) {
    for (int tries = 0; __atomic_load_n(users, __ATOMIC_SEQ_CST) > 0 && tries < YIELDS + NAPS; tries++)
        if (tries < YIELDS)
            sched_yield();
        else
            gm_sleep(NAP_NS);
}

/* Where the linker puts the rows. */
extern const struct gm_fork_row __start_gm_fork_rows[] __attribute__((weak, visibility("hidden")));
extern const struct gm_fork_row __stop_gm_fork_rows[] __attribute__((weak, visibility("hidden")));

void gm_fork_zero(void) {
    for (const struct gm_fork_row *row = __start_gm_fork_rows; row < __stop_gm_fork_rows; row++)
        memset(row->at, 0, row->bytes);
}
