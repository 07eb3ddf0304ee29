/* Resource "guard": what its users set. The blocks are in guard_ranges.h. */
#ifndef GM_RESOURCE_GUARD_H
#define GM_RESOURCE_GUARD_H

#include "shim/resource/guard_ranges.h"

/* Blocks start at the beginning of their mapping, where an access before them faults, and not at its end. Set it before
 * the first request. */
GM_INTERNAL extern bool gm_guard_at_begin;
/* Unmaps the freed blocks that no work uses any more: those that wait for others (guard_closing.h), and those that were
 * freed in stream order and that their streams have reached. Does not wait. */
GM_INTERNAL void gm_guard_settle(void);
/* The same, but leaves it to another thread if there is one (guard_closing.h). */
GM_INTERNAL void gm_guard_settle_later(void);

#endif
