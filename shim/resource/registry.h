/* The registry of all memory that gpumem knows: the blocks that the program has, and those that a cache keeps for reuse
 * (record.h). By address and by range.
 *
 * One order keeps it correct when addresses are reused: a record is removed before its memory is released and added
 * after it was obtained. A release that fails adds the record again. No function holds a lock when it returns. All
 * functions are safe from any thread. */
#ifndef GM_REGISTRY_H
#define GM_REGISTRY_H

#include "shim/base/base.h"
#include "shim/resource/record.h"
#include "shim/resource/resource.h"

struct gm_registry;

/* The process's registry, created at first use. NULL only when the kernel has no memory. */
GM_INTERNAL extern struct gm_registry *gm_registry_known;
struct gm_registry *gm_registry_find_shared(void);
static inline struct gm_registry *gm_registry_shared(void) {
    struct gm_registry *registry = __atomic_load_n(&gm_registry_known, __ATOMIC_ACQUIRE);
    return GM_LIKELY(registry != NULL) ? registry : gm_registry_find_shared();
}
/* A separate registry, of an adaptor that remembers blocks. NULL: the kernel has no memory. */
struct gm_registry *gm_registry_new(void);
/* Unmaps a separate registry. NULL is accepted. */
GM_INTERNAL void gm_registry_discard(struct gm_registry *registry);

/* Adds a copy of `block`. A record that is already at that address is replaced and written to *previous (if not
 * NULL; address 0 = none): gpumem never saw its free. GM_OUT_OF_MEMORY: there is no memory for the record, and the
 * block stays unknown. */
gm_status gm_registry_add(struct gm_registry *registry, const struct gm_block *block, struct gm_block *previous);
/* Removes the block that starts at `address` and writes it to *block. False: there is no such block. */
bool gm_registry_take(struct gm_registry *registry, uint64_t address, struct gm_block *block);
/* Copies the block that starts at `address` to *block. False: there is no such block. */
bool gm_registry_find(struct gm_registry *registry, uint64_t address, struct gm_block *block);
/* Marks the block that starts at `address`: it must be freed natively (gm_block.pinned_native). False: there is no
 * such block. */
bool gm_registry_mark(struct gm_registry *registry, uint64_t address);
/* Adds `bytes` to the mapped bytes of a handle's block (gm_block.mapped) and copies the block to *handle. False: there
 * is no handle with this key, or the mapped bytes would leave the range from 0 to its size. */
bool gm_registry_map(struct gm_registry *registry, uint64_t key, int64_t bytes, struct gm_block *handle);
/* Adds one more reference of the program to the block of a handle, or (`add` false) takes one away
 * (gm_block.references). False: there is no handle with this key, or it has no further reference. */
bool gm_registry_refer(struct gm_registry *registry, uint64_t key, bool add);
/* Copies the block that contains `address` to *block. False: there is no such block. */
bool gm_registry_find_range(struct gm_registry *registry, uint64_t address, struct gm_block *block);
/* Removes the blocks of the context one by one and calls visit(block, arg) after each removal. `number` (may be
 * NULL) gives the block's `sequence` before another block can be added at the same address. It is called with a lock
 * held. */
void gm_registry_drop_context(struct gm_registry *registry, uint64_t context_id, uint64_t (*number)(void),
                              void (*visit)(const struct gm_block *block, void *arg), void *arg);
/* Calls visit for a copy of every live block, in no particular order. May miss blocks that are added or removed
 * meanwhile. */
void gm_registry_each(struct gm_registry *registry, void (*visit)(const struct gm_block *block, void *arg), void *arg);
/* The same for every block that gpumem holds, live or free. */
GM_INTERNAL void gm_registry_each_record(struct gm_registry *registry,
                                         void (*visit)(const struct gm_block *block, void *arg), void *arg);
/* Calls visit for each live block that the trace does not hold, and marks it as recorded (shim/trace/recorded.h).
 * `block->sequence` is the number of its event. `handles`: only handles of memory, else only other blocks. */
GM_INTERNAL void gm_registry_record_all(struct gm_registry *registry, bool handles,
                                        void (*visit)(const struct gm_block *block));
/* Marks the live block that starts at `address` as recorded. Returns its word; 0: it is, or there is no such block. */
GM_INTERNAL uint32_t gm_registry_record(struct gm_registry *registry, uint64_t address);
/* The number of records. */
size_t gm_registry_count(struct gm_registry *registry);

/* Removes the live block of block->address only if it belongs to this context. After the context was destroyed, another
 * context may have a block at the same address. Then `number` gives its sequence (gm_registry_drop_context). */
GM_INTERNAL bool gm_registry_take_of(struct gm_registry *registry, uint64_t context_id, uint64_t (*number)(void),
                                     struct gm_block *block);

/* ---- records (record.h) */

/* The record of the live block that starts at `address`. Takes no lock, so it may miss a block. NULL: not found. */
GM_INTERNAL struct gm_block_record *gm_registry_look(const struct gm_registry *registry, uint64_t address);
/* The same as gm_registry_add, in the state claimed. NULL: there is no memory for the record. */
GM_INTERNAL struct gm_block_record *gm_registry_add_held(struct gm_registry *registry, const struct gm_block *block,
                                                         struct gm_block *previous);
/* Removes a record that the caller owns. */
GM_INTERNAL void gm_registry_remove(struct gm_registry *registry, struct gm_block_record *record);
/* True when the memory at `address` is held but not live: to the program it is free. `owner`: the resource that holds
 * it; NULL = any. */
GM_INTERNAL bool gm_registry_holds(struct gm_registry *registry, uint64_t address, const struct gm_resource *owner);

/* In the child of a fork: releases locks of threads that no longer exist. */
void gm_registry_after_fork(struct gm_registry *registry);

#endif
