/* The ring of a binary trace (GPUMEM_TRACE_RING): the file holds the latest events only, and its oldest chunks are
 * used again. The file is complete at each flush, so nobody has to write it out when memory runs out or the process is
 * killed. Chunks of definitions are never used again. An allocation whose block is still alive moves from an old chunk
 * to a chunk of survivors, which states no thread (0). */
#ifndef GM_TRACE_RING_H
#define GM_TRACE_RING_H

#include "shim/trace/parts.h"

#define GM_RING_CHUNK (16u * 1024u)
#define GM_RING_LEAST ((uint64_t)1 << 20) /* bytes of the smallest ring */

/* Keeps the latest `bytes` of chunks, or (bytes = 0) those of the latest `ns`. Both 0 = no ring. Call before the trace
 * opens. */
GM_INTERNAL void gm_ring_setup(uint64_t bytes, uint64_t ns);
GM_INTERNAL bool gm_ring_on(void);
/* The file is open and holds no chunk. */
GM_INTERNAL void gm_ring_open(struct gm_trace_file *file);
/* Returns the number of a chunk of GM_RING_CHUNK bytes that nobody uses, or -1: there is none. `kept`: it will never be
 * used again. */
GM_INTERNAL int gm_ring_take(uint64_t now_ns, bool kept);
GM_INTERNAL uint64_t gm_ring_offset(int chunk);
/* The owner writes no more into the chunk. */
GM_INTERNAL void gm_ring_leave(int chunk, uint64_t now_ns);
/* In the child of a fork. */
GM_INTERNAL void gm_ring_forget(void);

/* Bounds the file: at most `bytes` (0 = any), or a ring of its latest bytes or nanoseconds (ring.h; both 0 = none).
 * Call before gm_trace_setup. */
void gm_trace_bound(uint64_t bytes, uint64_t ring_bytes, uint64_t ring_ns);

#endif
