/* Freed guarded blocks that wait to be closed. Closing a block compares its pattern (guard_pattern.h), unmaps its
 * addresses, and opens its memory at new addresses for a later block (guard_memory.h). The driver's calls for these
 * take as long as those of a native pair, so a thread makes them, the closer, while the program goes on. It closes up
 * to 16 blocks in a row: one wait serves for all patterns.
 *
 * Up to 64 blocks or 256 MiB wait; then a free waits for the closer. The first blocks (gm_guard_prompt) are closed by
 * their frees, and so are all of a thread whose other blocks are native, or where no thread can be started. While a
 * block waits, a use of it does not fault, so whoever sees its address in a launch of the program closes all before
 * that is made.
 *
 * The closer waits for no work of the program. Where it would have to, because work fills the device or a stream
 * captures, the blocks wait until the next free or wait of the program.
 *
 * All functions are safe from any thread; none holds a lock across a driver call. */
#ifndef GM_GUARD_CLOSING_H
#define GM_GUARD_CLOSING_H

#include "policy/policy.h"
#include "shim/resource/guard_ranges.h"

/* So many of the next blocks are closed by their frees, so that small programs have the same result each time.
 * UINT_MAX: all. Set it before the first request. */
GM_INTERNAL extern unsigned gm_guard_prompt;
/* The number of blocks that wait. */
GM_INTERNAL extern unsigned gm_guard_waiting;

/* Adds a freed block that no work uses any more. False: it cannot wait. Runs in relaxed capture mode. */
GM_INTERNAL bool gm_guard_closing_add(const struct gm_guard_block *block);
/* Closes a block now and releases its memory. After an error it is open as before. Runs in relaxed capture mode. */
GM_INTERNAL gm_status gm_guard_close(const struct gm_guard_block *block);

enum gm_guard_closing {
    GM_GUARD_REUSE,   /* the memory is kept; waits for no work of the program: blocks that need that wait on */
    GM_GUARD_AT_LAST, /* the same, but waits for up to 20 ms, for up to 16 blocks at a time */
    GM_GUARD_RELEASE  /* the memory is released; may wait */
};
/* Closes all blocks that wait, also with the closer's help. Returns the bytes whose memory was released. */
GM_INTERNAL size_t gm_guard_close_all(enum gm_guard_closing how);
/* The same, but leaves it to the closer if there is one. */
GM_INTERNAL void gm_guard_close_later(void);
/* At the end of the process: the closer makes no more calls once gm_guard_close_all has returned. */
GM_INTERNAL void gm_guard_closer_end(void);

/* Whether the address lies in a block that waits. */
GM_INTERNAL bool gm_guard_waits_at(uint64_t address);
static inline bool gm_guard_any_waits(void) {
    return GM_UNLIKELY(__atomic_load_n(&gm_guard_waiting, __ATOMIC_RELAXED) != 0);
}
/* Bytes of a device that wait. */
GM_INTERNAL uint64_t gm_guard_waiting_bytes(int device);
GM_INTERNAL void gm_guard_closing_after_fork(void);

#endif
