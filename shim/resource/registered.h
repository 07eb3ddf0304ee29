/* What the registry stores for a block, and how a record stays in place while its block is kept for reuse.
 *
 * The record's word `block.address` holds its state: the address = the block is live; the address with
 * GM_REGISTERED_KEPT = the block was freed and is kept; 0 = unused. A look-up for an address therefore finds live
 * blocks only. The free of a live block claims the record by one compare-and-swap, so that one of two frees succeeds.
 * After that the claiming thread owns the record until it stores the address again. */
#ifndef GM_RESOURCE_REGISTERED_H
#define GM_RESOURCE_REGISTERED_H

#include "shim/base/base.h"
#include "shim/resource/resource.h"

/* In an address the bits from 57 to 63 are equal, and other keys differ from addresses in the upper two only. */
#define GM_REGISTERED_KEPT  (1ull << 61)
#define GM_REGISTERED_STATE (31ull << 57)

struct gm_registered {
    struct gm_block block;
    struct gm_registered *next_address; /* in the registry; also links unused records */
    union {
        struct gm_registered *next_range; /* in the registry's index by range */
        struct gm_size_class *of_size;    /* where it is kept or was kept last, in the shard `of_shard` */
    };
    struct gm_registered *next_kept; /* in a list of kept blocks */
    bool in_range;
    uint32_t of_shard;          /* gm_shard.number then; 0 = registered anew since, or marked */
} __attribute__((aligned(64))); /* threads that work on two blocks share no cache line */

_Static_assert(sizeof(struct gm_registered) == 128, "two cache lines; a plain pair writes to both");

static inline uint64_t gm_registered_word(const struct gm_registered *record) {
    return __atomic_load_n(&record->block.address, __ATOMIC_ACQUIRE);
}
static inline bool gm_registered_is_kept(uint64_t word) { return (word & GM_REGISTERED_STATE) == GM_REGISTERED_KEPT; }
static inline uint64_t gm_registered_address(const struct gm_registered *record) {
    uint64_t word = gm_registered_word(record);
    return gm_registered_is_kept(word) ? word & ~GM_REGISTERED_KEPT : word;
}
/* Copies the block of a record that the caller has claimed. Only `recorded` may change meanwhile, when a trace begins,
 * and nobody uses that of the copy. */
__attribute__((no_sanitize("thread"))) static inline void gm_registered_copy(const struct gm_registered *record,
                                                                             uint64_t address, struct gm_block *block) {
    *block = record->block;
    block->address = address;
}

/* live -> kept. False: another thread freed the block. */
static inline bool gm_registered_claim(struct gm_registered *record, uint64_t address) {
    return __atomic_compare_exchange_n(&record->block.address, &address, address | GM_REGISTERED_KEPT, false,
                                       __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}
/* kept -> live, by the thread that owns the record. */
static inline void gm_registered_revive(struct gm_registered *record, uint64_t address) {
    __atomic_store_n(&record->block.address, address, __ATOMIC_RELEASE);
}

/* Removes the record of a block that is no longer kept in place. Set by the registry, because a cache keeps records
 * only after the registry gave them. */
GM_INTERNAL extern void (*gm_registered_forget)(struct gm_registered *record);

#endif
