/* The record of a block: one for the whole time in which gpumem holds its memory. It stays in the registry all that
 * time. The block is
 *
 *   live       the program has it
 *   claimed    a thread frees it, or is about to hand it out; that thread owns the record
 *   pending    free; its batch has no complete fence yet
 *   ready      free; earlier work is done, so the next request of its class may have it
 *   releasing  free; it goes back to the driver, by the thread that takes it off that list
 *
 * The word `block.address` tells live from the rest: the address of a live block, the address with GM_RECORD_HELD else,
 * and 0 for an unused record. So a look-up by address finds live blocks only, and one of two frees of a block succeeds:
 * the free claims the record by one compare-and-swap. Pending, ready and releasing blocks lie on a list of their cache,
 * whose lock guards them (shim/cache/free_lists.h). */
#ifndef GM_RESOURCE_RECORD_H
#define GM_RESOURCE_RECORD_H

#include "shim/base/base.h"
#include "shim/resource/resource.h"

/* In an address the bits from 57 to 63 are equal, and other keys differ from addresses in the upper two only. */
#define GM_RECORD_HELD  (1ull << 61)
#define GM_RECORD_STATE (31ull << 57)

/* A link of a circular list. The list's head is part of the circle, so the first and last link need no special case. */
struct gm_link {
    struct gm_link *next, *previous;
};

struct gm_block_record {
    struct gm_block block;
    struct gm_block_record *next_address; /* in the registry; also links unused records */
    struct gm_block_record *next_range;   /* in the registry's index by range */
    struct gm_link link;                  /* of a free block: in a list of its cache */
} __attribute__((aligned(64)));           /* threads that work on two blocks share no cache line */

_Static_assert(sizeof(struct gm_block_record) == 128, "two cache lines; a pair writes to both");

static inline uint64_t gm_record_tagged(const struct gm_block_record *record) {
    return __atomic_load_n(&record->block.address, __ATOMIC_ACQUIRE);
}
static inline bool gm_word_is_held(uint64_t word) { return (word & GM_RECORD_STATE) == GM_RECORD_HELD; }
static inline uint64_t gm_record_address(const struct gm_block_record *record) {
    uint64_t word = gm_record_tagged(record);
    return gm_word_is_held(word) ? word & ~GM_RECORD_HELD : word;
}

/* live -> claimed. False: another thread freed the block. */
static inline bool gm_record_claim(struct gm_block_record *record, uint64_t address) {
    return __atomic_compare_exchange_n(&record->block.address, &address, address | GM_RECORD_HELD, false,
                                       __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}
/* claimed -> live, by the thread that owns the record. */
static inline void gm_record_revive(struct gm_block_record *record, uint64_t address) {
    __atomic_store_n(&record->block.address, address, __ATOMIC_RELEASE);
}

_Static_assert(sizeof(struct gm_block) % sizeof(uint64_t) == 0 && offsetof(struct gm_block, address) == 0,
               "a block is copied by words, the address apart");
typedef uint64_t __attribute__((may_alias)) gm_block_word;

/* Copies the block, whose record another thread may claim and revive meanwhile. `address`: the word as it was. */
static inline void gm_record_read(const struct gm_block_record *record, struct gm_block *block) {
    uint64_t word = gm_record_tagged(record);
#pragma GCC unroll 16
    for (size_t i = 1; i < sizeof *block / sizeof word; i++)
        ((gm_block_word *)block)[i] = __atomic_load_n((const gm_block_word *)&record->block + i, __ATOMIC_RELAXED);
    block->address = word;
}
/* Writes a new record. Its word comes last: a thread that reads it sees the whole block. */
static inline void gm_record_write(struct gm_block_record *record, const struct gm_block *block) {
#pragma GCC unroll 16
    for (size_t i = 1; i < sizeof *block / sizeof(uint64_t); i++)
        __atomic_store_n((gm_block_word *)&record->block + i, ((const gm_block_word *)block)[i], __ATOMIC_RELAXED);
    gm_record_revive(record, block->address);
}

#endif
