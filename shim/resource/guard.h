/* Resource "guard": what its users set. The blocks are in guard_ranges.h. */
#ifndef GM_RESOURCE_GUARD_H
#define GM_RESOURCE_GUARD_H

#include "shim/resource/guard_ranges.h"

/* Where blocks lie: at the end of their mapping, where an access behind them faults, but for their alignment; or at its
 * beginning, where an access before them does; or at random. */
enum gm_guard_side { GM_GUARD_AT_END, GM_GUARD_AT_BEGIN, GM_GUARD_AT_ANY };
/* Set these before the first request. */
GM_INTERNAL extern enum gm_guard_side gm_guard_side;
/* A power of two, at most 512, which is the least alignment of native memory: programs rely on it, for loads of several
 * elements, textures, and where a library chooses a kernel by it. Pitched memory always has that one, and so has a
 * request that asks for an alignment. Blocks at random have one that lies between both. */
GM_INTERNAL extern unsigned gm_guard_alignment;
/* Unmaps the freed blocks that no work uses any more: those that wait for others (guard_closing.h), and those that were
 * freed in stream order and that their streams have reached. Does not wait. */
GM_INTERNAL void gm_guard_settle(void);
/* The same, but leaves it to another thread if there is one (guard_closing.h). */
GM_INTERNAL void gm_guard_settle_later(void);

#endif
