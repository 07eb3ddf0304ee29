/* One entry for each living context (stream_counts.h). */
#include "shim/driver/stream_counts.h"

#include "shim/driver/streams.h"

enum { CONTEXTS = 64 };

static struct living {
    CUcontext handle;                     /* NULL: unused */
    uint32_t created, destroyed, settled; /* settled: destroyed ones that no longer count */
} living[CONTEXTS];
GM_LOCK(lock);
static bool some;

/* The lock is held. NULL: there is no such entry. `context` NULL: an unused one. */
static struct living *entry_of_counts(CUcontext context) {
    for (unsigned i = 0; i < CONTEXTS; i++)
        if (living[i].handle == context)
            return &living[i];
    return NULL;
}

/* Takes the lock. NULL: the context is not listed. */
static struct living *lock_counts(CUcontext context) {
    gm_spin_lock(&lock);
    return context ? entry_of_counts(context) : NULL;
}

static void unlock_changed(void) {
    bool any = false;
    for (unsigned i = 0; i < CONTEXTS && !any; i++)
        any = living[i].handle && living[i].created != living[i].settled;
    __atomic_store_n(&some, any, __ATOMIC_RELEASE);
    gm_spin_unlock(&lock);
}

bool gm_stream_counts_any(void) {
    return __atomic_load_n(&some, __ATOMIC_ACQUIRE) || __atomic_load_n(&gm_streams_per_thread, __ATOMIC_ACQUIRE);
}

bool gm_stream_counts_has(CUcontext context) {
    bool listed = lock_counts(context) != NULL;
    gm_spin_unlock(&lock);
    return listed;
}

bool gm_stream_counts_list(CUcontext context) {
    bool listed = lock_counts(context) != NULL;
    struct living *added = listed ? NULL : entry_of_counts(NULL);
    if (added)
        *added = (struct living){.handle = context};
    unlock_changed();
    return !listed;
}

bool gm_stream_counts_forget(CUcontext context) {
    struct living *of = lock_counts(context);
    if (of)
        *of = (struct living){0};
    unlock_changed();
    return of != NULL;
}

void gm_stream_counts_created(CUcontext context) {
    struct living *of = lock_counts(context);
    if (of)
        of->created++;
    unlock_changed();
}

void gm_stream_counts_destroyed(CUcontext context) {
    struct living *of = lock_counts(context);
    if (of)
        of->destroyed++;
    unlock_changed();
}

uint32_t gm_stream_counts_begin(CUcontext context) {
    const struct living *of = lock_counts(context);
    uint32_t destroyed = of ? of->destroyed : 0;
    gm_spin_unlock(&lock);
    return destroyed;
}

void gm_stream_counts_settle(CUcontext context, uint32_t destroyed) {
    struct living *of = lock_counts(context);
    bool more = of && (int32_t)(destroyed - of->settled) > 0;
    if (more)
        of->settled = destroyed;
    more ? unlock_changed() : gm_spin_unlock(&lock);
}
