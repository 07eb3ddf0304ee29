/* The pattern in the bytes of a mapping beside a guarded block: up to 511 bytes behind it, because native memory is
 * aligned to 512 bytes, and 512 bytes before it. For a block at the beginning of its mapping: all bytes behind it.
 *
 * It is compared when no work uses the block any more. Blocks that are closed together have their patterns copied to
 * pinned memory of the context first, so one wait serves for all. Where there is no such copy, the bytes are read by a
 * call that waits. */
#ifndef GM_GUARD_PATTERN_H
#define GM_GUARD_PATTERN_H

#include "shim/driver/driver.h"
#include "shim/resource/guard_ranges.h"

enum { GM_GUARD_EDGE = 512 };
/* How long to wait for work, in ns. It may be work of the program, which may hold the device for long. */
#define GM_GUARD_BRIEFLY   ((uint64_t)200 * 1000)
#define GM_GUARD_PATIENTLY ((uint64_t)20 * 1000 * 1000)
#define GM_GUARD_FOREVER   UINT64_MAX

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
/* Compares the pattern and reports a difference (the event guard_damaged). True: every byte of it was seen and is
 * right. Memory that cannot be read, as after a fault or the end of its context, is not compared. Neither is that of a
 * live block whose pattern may not be written yet, because a kernel that has all of the device may never end. */
GM_INTERNAL bool gm_guard_pattern_check(const struct gm_guard_block *block, enum gm_guard_found found);
/* Frees the pinned memory of contexts in which no copy waits for its gm_guard_pattern_check. May wait for work, as
 * cuMemFreeHost does. */
GM_INTERNAL void gm_guard_pattern_trim(void);
/* The context was destroyed, and its pinned memory with it. */
GM_INTERNAL void gm_guard_pattern_forget(uint64_t context_id);
GM_INTERNAL void gm_guard_pattern_after_fork(void);

#endif
