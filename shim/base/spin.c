/* The slow path of the spinlock. The holder may have lost its processor, or may run at a lower real-time priority than
 * the waiter. So the waiter first pauses, then yields, then sleeps, and the holder can run in every case. */
#include "shim/base/base.h"
#include "shim/base/file.h"

#include <errno.h>
#include <sched.h>

enum { PAUSES = 200, YIELDS = 1000 };

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
            gm_sleep(50000);
        }
    }
    errno = saved;
}
