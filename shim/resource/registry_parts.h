/* The registry in memory, for its two files. registry.c: the two indexes. registry_walk.c: walks over all blocks. */
#ifndef GM_REGISTRY_PARTS_H
#define GM_REGISTRY_PARTS_H

#include "shim/resource/record.h"

enum { SHARD_BITS = 6, SHARDS = 1 << SHARD_BITS, FIRST_BUCKETS = 64, CLASSES = 64 };

struct gm_registry_table {
    struct gm_registry_table *older; /* the smaller one before it */
    uint32_t count;                  /* power of two */
    struct gm_block_record *buckets[];
};

struct gm_registry_first {
    struct gm_registry_table table;
    struct gm_block_record *buckets[FIRST_BUCKETS];
};

struct gm_registry_shard {
    gm_spin lock;
    uint32_t count;
    struct gm_registry_table *table; /* NULL before first use */
    struct gm_block_record *free;    /* in the address index: nodes that were used and recycled */
    struct gm_block_record *slabs;   /* in the address index: first nodes of its slabs, which hold no block */
    uint32_t untouched;              /* last nodes of the latest slab that were never used */
} __attribute__((aligned(64)));

struct gm_registry {
    struct gm_registry_shard by_address[SHARDS];
    struct gm_registry_shard by_range[SHARDS];
    struct gm_registry_first first[SHARDS]; /* of by_address, so that they share pages */
    uint32_t class_count[CLASSES];          /* blocks of each class in the range index */
    bool ranged;   /* a thread that adds a block links it by range; set once, before the walk of the address shards */
    bool complete; /* set after the walk: every block is in the range index */
    gm_spin ranging;
};

static inline uint32_t gm_registry_buckets(const struct gm_registry_shard *shard) {
    return shard->table ? shard->table->count : 0;
}

/* Copies the block. False: it is free. */
static inline bool gm_registry_copy_live(const struct gm_block_record *node, struct gm_block *block) {
    gm_record_read(node, block);
    return !gm_word_is_held(block->address);
}

#endif
