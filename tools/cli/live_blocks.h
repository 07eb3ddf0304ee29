/* The blocks that are alive at one point of a trace. It is an open-addressing table of small records, because traces
 * have tens of millions of events. */
#ifndef GM_LIVE_BLOCKS_H
#define GM_LIVE_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gm_live_block {
    uint64_t key;        /* address or handle, distinct for each number space; 0 = empty */
    uint64_t bytes;      /* requested */
    uint64_t created_ns; /* end of the allocation call */
    uint64_t number;     /* position among the allocations of the trace, from 1 */
    union {
        uint64_t stream;
        uint64_t handle;    /* of memory that the program mapped */
        uint64_t mapped;    /* of a handle: bytes that are mapped */
        uint64_t on_device; /* of kind split: bytes of its first part */
    };
    uint32_t slack; /* bytes reserved - bytes requested */
    uint32_t site;
    int32_t thread; /* the thread that allocated it */
    uint16_t context;
    uint8_t kind, call;
    int8_t device;
    uint8_t hit;
    uint8_t displaced; /* the device had no room for it: served by this kind instead */
};

struct gm_live_blocks {
    struct gm_live_block *slots;
    size_t size, count; /* size is a power of two */
};

/* Adds a copy. Returns 1 if it replaced an older block with the same key, which is written to *old; else 0; -1 = no
 * memory. */
int gm_live_blocks_add(struct gm_live_blocks *table, const struct gm_live_block *block, struct gm_live_block *old);
/* The block with this key, until the table changes; NULL: there is none. */
struct gm_live_block *gm_live_blocks_find(const struct gm_live_blocks *table, uint64_t key);
bool gm_live_blocks_take(struct gm_live_blocks *table, uint64_t key, struct gm_live_block *block);
void gm_live_blocks_free(struct gm_live_blocks *table);

#endif
