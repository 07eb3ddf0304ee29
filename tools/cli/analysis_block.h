/* What events and blocks are, apart from totals. */
#ifndef GM_ANALYSIS_BLOCK_H
#define GM_ANALYSIS_BLOCK_H

#include "shim/trace/event.h"
#include "tools/cli/live_blocks.h"

/* A trim of blocks that gpumem kept, as opposed to the program's trim of its own pool. */
bool gm_event_is_own_trim(const struct gm_event *event);
/* The event is a call of the program. False for events that gpumem records in addition to a call. */
bool gm_event_is_call(const struct gm_event *event);
/* The block is memory that the program can use (gm_call_allocates). */
bool gm_live_block_allocates(const struct gm_live_block *block);

/* The stream of the block's allocation, 0 = default or none. */
uint64_t gm_live_block_stream(const struct gm_live_block *block);
/* Bytes of the block on its device: all, none, or of kind split those of its first part. */
uint64_t gm_live_block_on_device(const struct gm_live_block *block);
/* The block's address or handle as the program knows it. */
uint64_t gm_live_block_address(const struct gm_live_block *block);
/* The block is a leak if it is alive at the end. */
bool gm_live_block_is_leak(const struct gm_live_block *block);
/* Key of the event's block: its address or handle, distinct for each number space. */
uint64_t gm_event_key(const struct gm_event *event);

bool gm_live_block_is_handle(const struct gm_live_block *block); /* of memory that the program maps */

#endif
