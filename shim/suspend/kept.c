/* Looks at the host's memory once a second (kept.h). */
#include "shim/suspend/kept.h"

#include "shim/accounts/stats.h"
#include "shim/base/hostmem.h"
#include "shim/base/options.h"
#include "shim/resource/suspendable_memory.h"
#include "shim/suspend/select.h"

#define LOOK_NS 1000000000ull

enum { DROPPED, KEPT, REGISTERED }; /* GPUMEM_SUSPEND_BACKING */

static bool due; /* pages were stored since all was registered */

static uint64_t takeable(void) {
    struct gm_hostmem memory;
    return gm_hostmem_read("", -1, &memory) ? gm_hostmem_takeable(&memory) : UINT64_MAX;
}

static void drop(bool (*chooses)(const struct gm_suspendable_range *range)) {
    for (struct gm_suspendable_range *range = gm_suspendable_first(); range; range = range->next)
        if (!range->away && chooses(range))
            gm_suspendable_drop_backing(range);
}

static bool any(const struct gm_suspendable_range *range) { return true; }
static bool not_copied(const struct gm_suspendable_range *range) { return range->choice != GM_CHOICE_COPY; }

void gm_kept_drop(void) { drop(any); }

static void sweep(void) {
    while (gm_backing_sweep(true))
        ;
}

static bool in_file(const struct gm_suspendable_range *range) { return range->backing && range->backing->file; }

static uint64_t needed_bytes(bool all) {
    uint64_t needed = 0;
    for (const struct gm_suspendable_range *range = gm_suspendable_first(); range; range = range->next)
        if (range->choice == GM_CHOICE_COPY)
            needed += range->size - (range->backing && !all ? gm_backing_stored(range->backing) : 0);
    return needed;
}

static bool host_has_room(char *why, size_t size) {
    uint64_t needed = needed_bytes(false), room = UINT64_MAX;
    CUstreamCaptureMode mode = gm_capture_relax();
    sweep();
    if (needed && (room = takeable()) < needed) {
        drop(not_copied);
        sweep();
        room = takeable();
    }
    gm_capture_unrelax(mode);
    if (needed > room)
        gm_format(why, size, "the host has room for %llu MiB, and %llu MiB would be copied",
                  (unsigned long long)room >> 20, (unsigned long long)needed >> 20);
    return needed <= room;
}

/* An earlier copy in host memory is given up where that is to be spared. */
static bool make_all(struct gm_backing_file *file) {
    for (struct gm_suspendable_range *range = gm_suspendable_first(); range; range = range->next) {
        if (range->choice != GM_CHOICE_COPY)
            continue;
        if (file)
            gm_suspendable_drop_backing(range);
        if (!range->backing && !(range->backing = gm_backing_create(range->size, range->device, file)))
            return false;
    }
    return true;
}

gm_status gm_kept_make(const char *folder, char *why, size_t size) {
    struct gm_backing_file *file = NULL;
    uint64_t needed = needed_bytes(true);
    due = true;
    if (!folder && !host_has_room(why, size))
        return GM_OUT_OF_MEMORY;
    if (folder && needed && !(file = gm_backing_file_make(folder, needed, why, size)))
        return CUDA_ERROR_OPERATING_SYSTEM;
    bool made = make_all(file);
    gm_backing_file_leave(file);
    if (!made)
        gm_format(why, size, "the host has no room for the addresses of a copy");
    return made ? GM_OK : GM_OUT_OF_MEMORY;
}

int gm_kept_file_error(void) {
    int error = 0;
    for (const struct gm_suspendable_range *range = gm_suspendable_first(); !error && range; range = range->next)
        error = in_file(range) ? range->backing->file->error : 0;
    return error;
}

void gm_kept_after_resume(void) {
    due = true;
    drop(in_file);
    if (gm_option_number(GM_OPT_SUSPEND_BACKING) == DROPPED || !takeable())
        gm_kept_drop();
}

/* How many bytes may be registered, which the kernel then cannot move or write to a disk. */
static uint64_t look(void) {
    static uint64_t looked, most;
    struct gm_hostmem memory;
    uint64_t now = gm_now_ns();
    if (looked && now - looked < LOOK_NS)
        return most;
    looked = now;
    if (!gm_hostmem_read("", -1, &memory))
        return most;
    most = memory.total / 2;
    if (gm_hostmem_takeable(&memory))
        return most;
    most = 0;
    gm_suspendable_lock();
    gm_kept_drop();
    gm_suspendable_unlock();
    return most;
}

bool gm_kept_tend(bool idle) {
    bool swept = gm_backing_sweep(idle);
    if (!gm_backing_exists())
        return swept;
    uint64_t most = look();
    due = due && gm_option_number(GM_OPT_SUSPEND_BACKING) == REGISTERED && gm_backing_register(most);
    __atomic_store_n(&gm_stats->suspended.registered, gm_backing_registered(), __ATOMIC_RELAXED);
    return due || swept;
}
