/* GPUMEM_SUSPEND: the process gives its device memory back, and gets it again with its contents, under the same
 * addresses. Programs need not be changed.
 *
 *     awake      every call goes on
 *     asleep     calls that submit work are held at their entries (submissions.h). Unless the suspend says `wait`, the
 *                first one of them resumes the process
 *
 * A suspend that says `aside` leaves the process awake: the program does not use what is away until it asks for it.
 *
 * A suspend closes the entries, waits until the work in flight is done, copies what has contents to the host, unmaps it
 * and releases it. Whatever fails, the process is afterwards as it was before. A resume makes all pages first, then
 * maps them, then copies. If one step fails, the process stays asleep and has its copies still, and the next resume
 * begins anew. One thread at a time suspends or resumes; others wait for it.
 *
 * Calls that allocate and free go on meanwhile, except while pages move. */
#ifndef GM_SUSPEND_SUSPEND_H
#define GM_SUSPEND_SUSPEND_H

#include "shim/driver/driver.h"
#include "shim/resource/resource.h"
#include "shim/suspend/select.h"
#include "shim/suspend/submissions.h"

/* GPUMEM_SUSPEND is on: call it before the first request. False: it is not, or cannot be, which is logged. */
GM_INTERNAL bool gm_suspend_start(bool excluded);
GM_INTERNAL bool gm_suspend_is_on(void);
/* Joins the group of GPUMEM_SHARE, unless the process is in it: the child of a fork is not. */
GM_INTERNAL void gm_suspend_share(void);

/* *bytes (may be NULL): that left the device. Suspends a process that is asleep once more: what came back meanwhile.
 * After an error `why` has one line, and the process is as before. Errors: GM_NOT_SUPPORTED, GM_INVALID_VALUE from a
 * call that is held itself; CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED; CUDA_ERROR_NOT_READY, the work in flight took too
 * long; GM_OUT_OF_MEMORY, of the host; CUDA_ERROR_OPERATING_SYSTEM, of the file; the driver's own. */
GM_INTERNAL gm_status gm_suspend(const struct gm_suspend_wish *wish, uint64_t *bytes, char why[GM_SUSPEND_WHY]);
/* Brings back what a glob names, NULL or "" = everything. The entries open when nothing but what was set aside is away.
 * Errors:
 * GM_OUT_OF_MEMORY, of the device; the driver's own. The process stays asleep then. */
GM_INTERNAL gm_status gm_resume(const char *glob, uint64_t *bytes, char why[GM_SUSPEND_WHY]);
/* The same, but waits for memory where the card is shared (shim/accounts/share.h). */
GM_INTERNAL gm_status gm_resume_in_row(const char *glob, uint64_t *bytes, char why[GM_SUSPEND_WHY]);
GM_INTERNAL bool gm_suspend_is_asleep(void);
/* Registers and releases memory of the host, for at most some ten milliseconds, unless a thread suspends or resumes.
 * True: soon again. To be called now and then by a thread in relaxed capture mode. */
GM_INTERNAL bool gm_suspend_tend(void);
/* The process is asleep, and held calls wait for gm_resume. */
GM_INTERNAL bool gm_suspend_waits(void);
/* Since when no call has submitted work, as far as calls of this function show; nanoseconds. */
GM_INTERNAL uint64_t gm_suspend_idle_since(void);

/* Ends the child's sleep: its memory is the parent's. */
GM_INTERNAL void gm_suspend_after_fork(void);

/* A counted call waits for memory of the device: meanwhile the process can be suspended. At the end the call waits
 * while the entries are closed. */
GM_INTERNAL void gm_submission_awaits_memory(bool begins);
/* Before a counted call: waits while the entries are closed. */
GM_INTERNAL void gm_submission_begin(void);
static inline void gm_submission_begin_hook(void) {
    if (!gm_submissions_mine.by_hook)
        gm_submission_begin();
    gm_submissions_mine.by_hook = 1;
}

#endif
