/* Packs the events of a chunk; event.h describes the coding. */
#ifndef GM_TRACE_PACK_H
#define GM_TRACE_PACK_H

#include "shim/trace/event.h"

/* What the next event of a chunk is compared with. Zeroed before the first event. */
struct gm_packing {
    uint64_t seq, time_ns;
    uint64_t last[2][GM_PACKED_WORDS];
};

/* Appends the event, at most GM_PACKED_MOST bytes. Returns the end. */
unsigned char *gm_pack(struct gm_packing *packing, unsigned char *out, const struct gm_event *event);
/* Replaces `event` by the one that begins at `p`. Returns the end of its bytes; NULL: they are damaged, or end at
 * `end`. */
const unsigned char *gm_unpack(struct gm_packing *packing, const unsigned char *p, const unsigned char *end,
                               struct gm_event *event);

#endif
