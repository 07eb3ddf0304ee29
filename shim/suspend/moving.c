/* All of it, or nothing (moving.h). */
#include "shim/suspend/moving.h"

#include "shim/accounts/loans.h"
#include "shim/base/file.h"
#include "shim/resource/suspendable_memory.h"
#include "shim/suspend/contents.h"
#include "shim/suspend/kept.h"
#include "shim/suspend/stayed.h"

static int lacks = -1;
static uint64_t dropped;

int gm_moved_lacks(void) { return __atomic_load_n(&lacks, __ATOMIC_RELAXED); }
uint64_t gm_moved_dropped(void) { return dropped; }

/* ---- back: ranges with the choice GM_CHOICE_BACK */

static void release_created(const struct gm_suspendable_range *end) {
    for (struct gm_suspendable_range *range = gm_suspendable_first(); range != end; range = range->next)
        if (range->choice == GM_CHOICE_BACK)
            gm_suspendable_uncreate(range);
}

/* All pages, or none: two processes that each had a part of theirs would wait for each other. */
static gm_status create_all(void) {
    for (struct gm_suspendable_range *range = gm_suspendable_first(); range; range = range->next) {
        gm_status status = range->choice == GM_CHOICE_BACK ? gm_suspendable_create(range) : GM_OK;
        if (status == GM_OUT_OF_MEMORY && gm_loans_ask(range->device)) /* other processes keep memory for reuse */
            status = gm_suspendable_create(range);
        if (status) {
            __atomic_store_n(&lacks, range->device, __ATOMIC_RELAXED);
            release_created(range);
            return status;
        }
    }
    return GM_OK;
}

/* After an error the ranges that are mapped leave again, and the pages of the others are released. */
static void leave_all(void) {
    for (struct gm_suspendable_range *range = gm_suspendable_first(); range; range = range->next) {
        if (range->choice != GM_CHOICE_BACK)
            continue;
        if (range->away)
            gm_suspendable_uncreate(range);
        else if (gm_suspendable_leave(range) && !range->away)
            gm_log(GM_LOG_ERROR, "%zu bytes cannot be unmapped again", range->size);
    }
}

gm_status gm_move_back(uint64_t *bytes, unsigned *other) {
    gm_status status = create_all();
    *other = 0;
    if (status)
        return status;
    for (struct gm_suspendable_range *range = gm_suspendable_first(); !status && range; range = range->next)
        if (range->choice == GM_CHOICE_BACK)
            status = gm_suspendable_map(range);
    if (!status)
        status = gm_contents_back(other);
    if (status) {
        leave_all();
        return status;
    }
    for (struct gm_suspendable_range *range = gm_suspendable_first(); range; range = range->next)
        *bytes += range->choice == GM_CHOICE_BACK ? range->size : 0;
    gm_kept_after_resume();
    return GM_OK;
}

/* ---- out */

/* Ranges that have left come back. */
static void undo(char *why) {
    uint64_t bytes = 0;
    unsigned other;
    for (struct gm_suspendable_range *range = gm_suspendable_first(); range; range = range->next) {
        bool left = range->away && range->choice == GM_CHOICE_COPY;
        range->choice = left ? GM_CHOICE_BACK : GM_CHOICE_STAY;
    }
    if (gm_move_back(&bytes, &other))
        gm_log(GM_LOG_ERROR, "a suspend failed (%s), and so does the way back: the process tries it again", why);
}

static gm_status copy_out(const char *folder, char *why) {
    gm_status status = gm_kept_make(folder, why, GM_SUSPEND_WHY);
    if (status)
        return status;
    status = gm_contents_out();
    int error = status && folder ? gm_kept_file_error() : 0;
    if (error)
        gm_format(why, GM_SUSPEND_WHY, "the file in '%s' cannot be written: %s", folder, gm_errno_text(error));
    else if (status)
        gm_format(why, GM_SUSPEND_WHY, "the copy to %s fails with error %d", folder ? folder : "the host", status);
    return status;
}

gm_status gm_move_out(const struct gm_suspend_wish *wish, uint64_t *bytes, char *why) {
    gm_select_out(wish);
    gm_status status = copy_out(wish->to && *wish->to ? wish->to : NULL, why);
    if (status) {
        gm_kept_drop();
        return status;
    }
    for (struct gm_suspendable_range *range = gm_suspendable_first(); range; range = range->next) {
        if (range->choice != GM_CHOICE_COPY)
            continue;
        status = gm_suspendable_leave(range);
        if (status) {
            gm_format(why, GM_SUSPEND_WHY, "the driver answers %d to cuMemUnmap", status);
            undo(why);
            return status;
        }
        *bytes += range->size;
    }
    dropped = 0;
    for (struct gm_suspendable_range *range = gm_suspendable_first(); range; range = range->next) {
        if (range->choice != GM_CHOICE_DROP)
            continue;
        gm_suspendable_drop_backing(range);
        if (!gm_suspendable_leave(range) || range->away)
            dropped += range->size; /* what the driver does not unmap stays, with its contents */
    }
    *bytes += dropped;
    for (struct gm_suspendable_range *range = gm_suspendable_first(); range; range = range->next)
        if (range->away && range->choice != GM_CHOICE_STAY)
            range->aside = wish->aside;
    gm_stayed_publish();
    return GM_OK;
}
