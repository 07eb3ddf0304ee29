/* The kernel's thread id, cached per thread. After a fork the surviving thread has a new id while its cache holds the
 * parent's: an epoch tells them apart. The epoch lives in a page that the kernel wipes in the child (Linux 4.14), which
 * covers raw clone() as well; older kernels get a fork handler. */
#include "shim/base/base.h"

#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

static unsigned plain_epoch = 1; /* used where the kernel cannot wipe */
static unsigned *epoch;          /* current; 0 = wiped by a fork */
static unsigned last_epoch = 1;  /* survives the fork */

static __thread int cached_id __attribute__((tls_model("initial-exec")));
static __thread unsigned cached_epoch __attribute__((tls_model("initial-exec")));

static void forked(void) { plain_epoch++; }

static unsigned *find_epoch(void) {
    unsigned *place = __atomic_load_n(&epoch, __ATOMIC_ACQUIRE), *expected = NULL;
    if (place)
        return place;
    int saved = errno;
    long page = sysconf(_SC_PAGESIZE);
    unsigned *own = gm_pages((size_t)page);
    if (own && madvise(own, (size_t)page, MADV_WIPEONFORK)) {
        munmap(own, (size_t)page);
        own = NULL;
    }
    place = own ? own : &plain_epoch;
    if (own)
        *own = 1;
    if (__atomic_compare_exchange_n(&epoch, &expected, place, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
        if (!own)
            pthread_atfork(NULL, NULL, forked);
    } else {
        if (own)
            munmap(own, (size_t)page);
        place = expected;
    }
    errno = saved;
    return place;
}

static unsigned current_epoch(void) {
    unsigned *place = find_epoch();
    unsigned now = __atomic_load_n(place, __ATOMIC_ACQUIRE);
    if (GM_LIKELY(now))
        return now;
    unsigned next = __atomic_load_n(&last_epoch, __ATOMIC_ACQUIRE) + 1;
    if (__atomic_compare_exchange_n(place, &now, next, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
        __atomic_store_n(&last_epoch, next, __ATOMIC_RELEASE);
        return next;
    }
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

static __thread unsigned char holds __attribute__((tls_model("initial-exec")));
static __thread unsigned char held __attribute__((tls_model("initial-exec"))); /* state to go back to */

void gm_cancel_hold(void) {
    int before;
    if (holds++)
        return;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    held = (unsigned char)before;
}

void gm_cancel_release(void) {
    int disabled;
    if (!--holds)
        pthread_setcancelstate(held, &disabled);
}
