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

/* Writes the pattern and does not wait: nobody may write there, and whatever compares it runs behind all work of the
 * context. Within the capture guard; the context is current. After a failure nothing is left to be written. */
GM_INTERNAL gm_status gm_guard_pattern_write(const struct gm_guard_block *block);
/* Whether the pattern can be read without a wait for work of the program, which may hold the device for long. Asks for
 * 0.2 ms at most, as patterns of new blocks may be on their way. */
GM_INTERNAL bool gm_guard_pattern_is_written(const struct gm_guard_block *block);
/* Begins to copy the pattern, for one gm_guard_pattern_check after a gm_guard_pattern_wait. Where that is not possible
 * it does nothing. */
GM_INTERNAL void gm_guard_pattern_fetch(const struct gm_guard_block *block);
/* Waits for all copies that this thread began in the context of the block. False: they did not arrive. */
GM_INTERNAL bool gm_guard_pattern_wait(const struct gm_guard_block *block);
/* Compares the pattern and reports a difference (gm_guard_damaged). True: every byte of it was seen and is right.
 * Memory that cannot be read, as after a fault, is not compared. `at_exit`: neither is a pattern that may not be
 * written yet, because a kernel that has all of the device may never end. */
GM_INTERNAL bool gm_guard_pattern_check(const struct gm_guard_block *block, bool at_exit);
/* Frees the pinned memory of contexts in which no copy waits for its gm_guard_pattern_check. May wait for work, as
 * cuMemFreeHost does. */
GM_INTERNAL void gm_guard_pattern_trim(void);
/* The context was destroyed, and its pinned memory with it. */
GM_INTERNAL void gm_guard_pattern_forget(uint64_t context_id);
GM_INTERNAL void gm_guard_pattern_after_fork(void);

#endif
