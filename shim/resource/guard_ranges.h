/* The address ranges of guarded blocks (resource "guard"), and what is known of each block, live or freed.
 *
 * Addresses are reserved in arenas. A range is one or more places of 4 MiB: the mapping of the block at its start, and
 * behind it addresses that are never mapped, at least one granule and as many as the mapping has, up to 1 GiB. The
 * addresses behind a range guard the start of the next one. Ranges are handed out in the order of their addresses,
 * again from the start when the budget of addresses is used up. So the range that was freed longest ago returns first,
 * and until then every use of a freed block faults.
 *
 * The calls need no driver. Any thread may call them; none holds a lock when it returns or while it reserves. */
#ifndef GM_GUARD_RANGES_H
#define GM_GUARD_RANGES_H

#include "shim/base/base.h"

enum gm_guard_state { GM_GUARD_NONE, GM_GUARD_LIVE, GM_GUARD_FREED };

struct gm_guard_block {
    uint64_t address;
    size_t size;      /* bytes that the program may use: those requested, or all rows of pitched memory */
    uint64_t mapping; /* start of its range */
    size_t mapped;    /* bytes from there on that are mapped while it lives */
    uint64_t memory;  /* handle of what is mapped */
    uint64_t context, context_id;
    uint64_t stream, order;          /* in_order: its stream, and gm_guard_order_now() when it was allocated */
    uint32_t allocated_at, freed_at; /* call sites; 0 = unknown */
    uint32_t earlier;                /* blocks that had these addresses before: a late use may be of one of them */
    int16_t device;
    uint8_t state;    /* enum gm_guard_state */
    uint8_t released; /* freed, and nothing is mapped any more */
    uint8_t ended;    /* it was not freed: its context ended */
    uint8_t in_order; /* allocated in the order of a stream that the program created */
    uint8_t whole;    /* all bytes beside it held the pattern at first; else only those near it (guard_pattern.h) */
    uint8_t reusable; /* it takes whole mappings, so others may have its memory before and after it */
};

/* Bytes beside a block that belong to its mapping were written. Called without locks. NULL: nobody wants to know. */
enum gm_guard_found { GM_GUARD_AT_FREE, GM_GUARD_AT_CONTEXT_END, GM_GUARD_AT_EXIT, GM_GUARD_AFTER_KERNEL };
struct gm_guard_damage {
    bool before; /* before the start of the block, else behind its end */
    enum gm_guard_found found;
    size_t distance; /* bytes between the block and the nearest changed byte */
    size_t count;    /* bytes from the nearest to the farthest changed one */
    bool more;       /* there may be others, further away than was compared */
};

#define GM_GUARD_GRANULE ((size_t)2 << 20)

/* All arenas lie in [low, high). */
GM_INTERNAL extern uint64_t gm_guard_low, gm_guard_high;
/* The address may lie in a range: one comparison tells most others. */
static inline bool gm_guard_covers(uint64_t address) {
    return address >= __atomic_load_n(&gm_guard_low, __ATOMIC_RELAXED) &&
           address < __atomic_load_n(&gm_guard_high, __ATOMIC_RELAXED);
}

/* Rises with each call that may order streams behind each other: while it stays, work of two streams runs in any order.
 * 0: no block was allocated in the order of a stream. */
GM_INTERNAL extern uint64_t gm_guard_order;
static inline uint64_t gm_guard_order_now(void) { return __atomic_load_n(&gm_guard_order, __ATOMIC_RELAXED); }
static inline void gm_guard_orders(void) {
    if (GM_UNLIKELY(gm_guard_order_now()))
        __atomic_add_fetch(&gm_guard_order, 1, __ATOMIC_RELAXED);
}

/* Sets the budget in bytes of addresses, and the function that reserves so many bytes, aligned to GM_GUARD_GRANULE (0:
 * refused). Only the first call counts. */
GM_INTERNAL void gm_guard_ranges_setup(uint64_t budget, uint64_t (*reserve)(size_t bytes));
/* Takes a range for `mapped` bytes, a multiple of GM_GUARD_GRANULE, and returns its start. 0: all addresses of the
 * budget belong to live blocks, or the kernel has no memory. */
GM_INTERNAL uint64_t gm_guard_range_take(size_t mapped);
/* The block lives in the range that starts at block->mapping. */
GM_INTERNAL void gm_guard_range_live(const struct gm_guard_block *block);
/* The program freed the block that starts at `address`, by the call at `site`; `ended`: its context is about to end.
 * False: no such block lives. */
GM_INTERNAL bool gm_guard_range_freed(uint64_t address, uint32_t site, bool ended);
/* The block that starts at `address` belongs to another context. */
GM_INTERNAL void gm_guard_range_moved(uint64_t address, uint64_t context, uint64_t context_id);
/* The free failed: the block lives on. */
GM_INTERNAL void gm_guard_range_revive(uint64_t address);
/* Nothing is mapped in the range any more; a block that lives ended with its context. The range may be handed out
 * again, after all others. */
GM_INTERNAL void gm_guard_range_release(uint64_t mapping);

/* Copies the block to which the address belongs: the one that contains it, else the nearer one of those before and
 * behind it. False: none. */
GM_INTERNAL bool gm_guard_find(uint64_t address, struct gm_guard_block *block);
/* Copies the block, live or freed, that starts at `address`. */
GM_INTERNAL bool gm_guard_at(uint64_t address, struct gm_guard_block *block);
/* Calls visit for a copy of each live block. */
GM_INTERNAL void gm_guard_each(void (*visit)(const struct gm_guard_block *block, void *arg), void *arg);
/* The number of arenas, each of which is a reservation of the driver. They stay until the process ends. */
GM_INTERNAL unsigned gm_guard_arenas(void);
/* In the child of a fork: its parent's blocks are not its own. */
GM_INTERNAL void gm_guard_ranges_after_fork(void);

#endif
