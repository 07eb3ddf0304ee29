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

/* The lock is held. NULL: no entry is unused. */
static struct living *unused(void) {
    for (unsigned i = 0; i < CONTEXTS; i++)
        if (!living[i].handle)
            return &living[i];
    return NULL;
}

/* The lock is held. NULL: the context is not listed. */
static struct living *find(CUcontext context) {
    for (unsigned i = 0; i < CONTEXTS && context; i++)
        if (living[i].handle == context)
            return &living[i];
    return NULL;
}

static void unlock(void) {
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
    gm_spin_lock(&lock);
    bool listed = find(context) != NULL;
    gm_spin_unlock(&lock);
    return listed;
}

bool gm_stream_counts_list(CUcontext context) {
    gm_spin_lock(&lock);
    bool listed = find(context) != NULL;
    struct living *added = listed ? NULL : unused();
    if (added)
        *added = (struct living){.handle = context};
    unlock();
    return !listed;
}

bool gm_stream_counts_forget(CUcontext context) {
    gm_spin_lock(&lock);
    struct living *of = find(context);
    if (of)
        *of = (struct living){0};
    unlock();
    return of != NULL;
}

void gm_stream_counts_created(CUcontext context) {
    gm_spin_lock(&lock);
    struct living *of = find(context);
    if (of)
        of->created++;
    unlock();
}

void gm_stream_counts_destroyed(CUcontext context) {
    gm_spin_lock(&lock);
    struct living *of = find(context);
    if (of)
        of->destroyed++;
    unlock();
}

uint32_t gm_stream_counts_begin(CUcontext context) {
    gm_spin_lock(&lock);
    const struct living *of = find(context);
    uint32_t destroyed = of ? of->destroyed : 0;
    gm_spin_unlock(&lock);
    return destroyed;
}

void gm_stream_counts_settle(CUcontext context, uint32_t destroyed) {
    gm_spin_lock(&lock);
    struct living *of = find(context);
    bool more = of && (int32_t)(destroyed - of->settled) > 0;
    if (more)
        of->settled = destroyed;
    more ? unlock() : gm_spin_unlock(&lock);
}
