/* The pattern in the bytes of a mapping beside a guarded block, on both sides: all that the block leaves of it.
 *
 * It is compared when no work uses the block any more. Blocks that are closed together have the bytes next to them
 * copied to pinned memory of the context first, so one wait serves for all. Where there is no such copy, the bytes are
 * read by a call that waits. The bytes further away are read so, too, for some blocks only, because that takes longer
 * than all other calls of a pair: for samples, while kernels block, and for the first blocks of a process. */
#ifndef GM_GUARD_PATTERN_H
#define GM_GUARD_PATTERN_H

#include "shim/driver/driver.h"
#include "shim/resource/guard_ranges.h"

/* How long to wait for work, in ns. It may be work of the program, which may hold the device for long. */
#define GM_GUARD_BRIEFLY   ((uint64_t)200 * 1000)
#define GM_GUARD_PATIENTLY ((uint64_t)20 * 1000 * 1000)
#define GM_GUARD_FOREVER   UINT64_MAX

/* The bytes further away are compared for every block, too. Set it before the first request. */
GM_INTERNAL extern bool gm_guard_compares_all;

/* Writes the pattern. Waits until it is written, for 20 ms at most: while work of the program holds the device, a write
 * of the program to these bytes may come first, and is then not found. Within the capture guard; the context is
 * current. After a failure nothing is left to be written. */
GM_INTERNAL gm_status gm_guard_pattern_write(const struct gm_guard_block *block);
/* Begins to copy the pattern, for one gm_guard_pattern_check after all of them have arrived. Where that is not possible
 * it does nothing. */
GM_INTERNAL void gm_guard_pattern_fetch(const struct gm_guard_block *block);
/* Whether all patterns of the context are written and all copies that this thread began have arrived. Waits for them
 * for at most so long, because work of the program may hold the device for long. Errors: CUDA_ERROR_NOT_READY;
 * GM_INVALID_CONTEXT: the context ended, so nothing is on its way and nothing can be read; GM_NOT_SUPPORTED during
 * captures; or the driver's own. */
GM_INTERNAL gm_status gm_guard_pattern_arrived(const struct gm_guard_block *block, uint64_t patience_ns);
/* Compares the pattern and reports a difference (the event guard_damaged). Memory that cannot be read, as after a fault
 * or the end of its context, is not compared. Neither is that of a live block whose pattern may not be written yet,
 * because a kernel that has all of the device may never end. */
enum gm_guard_pattern { GM_GUARD_UNSURE, GM_GUARD_NEAR_RIGHT, GM_GUARD_ALL_RIGHT };
GM_INTERNAL enum gm_guard_pattern gm_guard_pattern_check(const struct gm_guard_block *block, enum gm_guard_found found);
/* Compares all of the pattern of a live block that no work uses now, and reports nothing. True: it is damaged, and
 * *damage says how. The pattern is written anew then, so that the same is not found again. */
GM_INTERNAL bool gm_guard_pattern_look(const struct gm_guard_block *block, struct gm_guard_damage *damage);
/* Frees the pinned memory of contexts in which no copy waits for its gm_guard_pattern_check. May wait for work, as
 * cuMemFreeHost does. */
GM_INTERNAL void gm_guard_pattern_trim(void);
/* The context was destroyed, and its pinned memory with it. */
GM_INTERNAL void gm_guard_pattern_forget(uint64_t context_id);
GM_INTERNAL void gm_guard_pattern_after_fork(void);

#endif
