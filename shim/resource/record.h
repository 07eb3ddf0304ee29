/* The record of a block: one for the whole time in which gpumem holds its memory. It stays in the registry all that
 * time, and says in which state the block is (GM_BLOCK_STATES, GM_BLOCK_TRANSITIONS).
 *
 * The word `block.address` tells live from the other states: the address of a live block, the address with
 * GM_RECORD_HELD else, and 0 for an unused record. So a look-up by address finds live blocks only, and one of two frees
 * of a block succeeds: the free claims the record by one compare-and-swap. Pending, ready and releasing blocks lie on a
 * list of their cache, whose lock guards them (shim/cache/free_lists.h). */
#ifndef GM_RESOURCE_RECORD_H
#define GM_RESOURCE_RECORD_H

#include "shim/base/base.h"
#include "shim/resource/resource.h"

/* X(enumerator, name, what the block is) */
#define GM_BLOCK_STATES(X)                                                                         \
    X(GM_BLOCK_GONE, "gone", "not held: its record is unused, or is about to be")                  \
    X(GM_BLOCK_LIVE, "live", "the program's")                                                      \
    X(GM_BLOCK_CLAIMED, "claimed", "the one thread's that frees it, or is about to hand it out")   \
    X(GM_BLOCK_PENDING, "pending", "free, in a batch that is open or whose fence is not complete") \
    X(GM_BLOCK_READY, "ready", "free, in the bin of its size class: earlier work is done")         \
    X(GM_BLOCK_RELEASING, "releasing", "free, and waits for its native free")

enum gm_block_state {
#define X(enumerator, name, what) enumerator,
    GM_BLOCK_STATES(X)
#undef X
};

/* X(from, to, when) */
#define GM_BLOCK_TRANSITIONS(X)                                                                                       \
    X(GONE, CLAIMED, "its memory was obtained")                                                                       \
    X(CLAIMED, LIVE, "it is handed out")                                                                              \
    X(LIVE, CLAIMED, "a thread frees it, by one compare-and-swap: a second free finds no live block")                 \
    X(CLAIMED, PENDING, "it is put, and earlier work may still use it")                                               \
    X(CLAIMED, READY, "it is put, and is settled: nothing uses it any more, or what does runs before its next owner") \
    X(PENDING, READY, "the fence of its batch is complete")                                                           \
    X(READY, CLAIMED, "it is taken for a request")                                                                    \
    X(READY, RELEASING, "a limit is reached, it was idle too long, or memory is needed")                              \
    X(PENDING, RELEASING, "memory is needed before its fence is complete, or the fence failed")                       \
    X(RELEASING, CLAIMED, "a thread frees it natively")                                                               \
    X(CLAIMED, RELEASING, "its native free failed")                                                                   \
    X(CLAIMED, GONE, "its memory was given back, or goes on without a record")                                        \
    X(LIVE, GONE, "it was freed by a call that keeps nothing, or its context ended")

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

#define GM_BLOCK_BIT(from, to) (1ull << (GM_BLOCK_##from * 8 + GM_BLOCK_##to))
static inline bool gm_block_may_become(unsigned from, unsigned to) {
#define X(from, to, when) GM_BLOCK_BIT(from, to) |
    return (GM_BLOCK_TRANSITIONS(X) 0) >> (from * 8 + to) & 1;
#undef X
}
/* Whoever owns the block changes its state: the thread that claimed it, or holds the lock of its list. */
static inline void gm_record_become(struct gm_block_record *record, enum gm_block_state state) {
    GM_ASSERT(gm_block_may_become(record->block.state, state));
    __atomic_store_n(&record->block.state, (uint8_t)state, __ATOMIC_RELAXED);
}

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
    if (!__atomic_compare_exchange_n(&record->block.address, &address, address | GM_RECORD_HELD, false,
                                     __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
        return false;
    gm_record_become(record, GM_BLOCK_CLAIMED);
    return true;
}
/* claimed -> live, by the thread that owns the record. */
static inline void gm_record_revive(struct gm_block_record *record, uint64_t address) {
    gm_record_become(record, GM_BLOCK_LIVE);
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
/* Writes a new record, whose block is claimed. Its word comes last: a thread that reads it sees the whole block. */
static inline void gm_record_write(struct gm_block_record *record, const struct gm_block *block) {
    GM_ASSERT(record->block.state == GM_BLOCK_GONE);
#pragma GCC unroll 16
    for (size_t i = 1; i < sizeof *block / sizeof(uint64_t); i++)
        __atomic_store_n((gm_block_word *)&record->block + i, ((const gm_block_word *)block)[i], __ATOMIC_RELAXED);
    __atomic_store_n(&record->block.state, (uint8_t)GM_BLOCK_CLAIMED, __ATOMIC_RELAXED);
    __atomic_store_n(&record->block.address, block->address | GM_RECORD_HELD, __ATOMIC_RELEASE);
}

#endif
