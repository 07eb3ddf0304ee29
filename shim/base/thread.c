/* The kernel's thread id, cached for each thread, and a hold on thread cancellation.
 *
 * After a fork the surviving thread has a new id, while its cache holds the parent's. An epoch distinguishes them: it
 * lies in a page that the kernel wipes in the child (Linux 4.14). That works for a bare clone(), too. On older kernels
 * a fork handler raises the epoch. */
#include "shim/base/base.h"

#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

static unsigned fallback_epoch = 1; /* used where the kernel cannot wipe pages */
static unsigned *epoch;             /* the current epoch; 0 = wiped by a fork */
static unsigned last_epoch = 1;     /* survives the fork; no epoch is above it */

__thread struct gm_mine gm_mine __attribute__((tls_model("initial-exec")));

static __thread int cached_id __attribute__((tls_model("initial-exec")));
static __thread unsigned cached_epoch __attribute__((tls_model("initial-exec")));

static void forked(void) { fallback_epoch++; }

static unsigned *find_epoch(void) {
    unsigned *current = __atomic_load_n(&epoch, __ATOMIC_ACQUIRE), *expected = NULL;
    if (current)
        return current;
    int saved = errno;
    long page = sysconf(_SC_PAGESIZE);
    unsigned *page_epoch = gm_pages((size_t)page);
    if (page_epoch && madvise(page_epoch, (size_t)page, MADV_WIPEONFORK)) {
        munmap(page_epoch, (size_t)page);
        page_epoch = NULL;
    }
    current = page_epoch ? page_epoch : &fallback_epoch;
    if (page_epoch)
        *page_epoch = 1;
    if (__atomic_compare_exchange_n(&epoch, &expected, current, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
        if (!page_epoch)
            pthread_atfork(NULL, NULL, forked);
    } else {
        if (page_epoch)
            munmap(page_epoch, (size_t)page);
        current = expected;
    }
    errno = saved;
    return current;
}

static unsigned current_epoch(void) {
    unsigned *current = find_epoch();
    unsigned now = __atomic_load_n(current, __ATOMIC_ACQUIRE);
    if (GM_LIKELY(now))
        return now;
    unsigned next = __atomic_add_fetch(&last_epoch, 1, __ATOMIC_ACQ_REL);
    if (__atomic_compare_exchange_n(current, &now, next, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        return next;
    return now;
}

int gm_thread_id(void) {
    unsigned now = current_epoch();
    if (GM_UNLIKELY(cached_epoch != now)) {
        cached_id = (int)syscall(SYS_gettid);
        cached_epoch = now;
    }
    return cached_id;
}

void gm_cancel_hold(void) {
    int before;
    if (gm_mine.holds++)
        return;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    gm_mine.held = (uint8_t)before;
}

void gm_cancel_release(void) {
    int disabled;
    if (!--gm_mine.holds)
        pthread_setcancelstate(gm_mine.held, &disabled);
}
