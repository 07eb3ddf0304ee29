/* Backings after a resume. They are kept (GPUMEM_SUSPEND_BACKING), so that the next suspend copies only what changed,
 * and a thread registers them. They go with their ranges, when a suspend needs the room for others, and when the host
 * runs short of memory.
 *
 * One thread at a time. But for gm_kept_tend the memory is held alone, and nothing runs on the device. */
#ifndef GM_SUSPEND_KEPT_H
#define GM_SUSPEND_KEPT_H

#include "shim/base/base.h"
#include "shim/resource/resource.h"

/* Gives each range with GM_CHOICE_COPY a backing: in memory, or in a new file in `folder` unless that is NULL. After an
 * error `why` says it: GM_OUT_OF_MEMORY; CUDA_ERROR_OPERATING_SYSTEM, the file cannot be made or has no room. */
GM_INTERNAL gm_status gm_kept_make(const char *folder, char *why, size_t size);
/* errno of the first failure of a file that holds contents; 0: there was none. */
GM_INTERNAL int gm_kept_file_error(void);
/* Gives up the backings of all ranges that are not away. */
GM_INTERNAL void gm_kept_drop(void);
/* The same for those in files, and for all unless they are to be kept. */
GM_INTERNAL void gm_kept_after_resume(void);
/* Registers or releases a piece. To be called now and then, by a thread in relaxed capture mode. `idle`: nothing runs
 * on the device. True: soon again, there may be more. */
GM_INTERNAL bool gm_kept_tend(bool idle);

#endif
