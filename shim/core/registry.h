/* Live blocks by address and by range.
 *
 * Order that keeps it true when addresses are reused: forget a block before it is freed, remember it after it was
 * obtained; a free that fails puts the record back. No lock is held when these functions return. All are safe from any
 * thread. */
#ifndef GM_REGISTRY_H
#define GM_REGISTRY_H

#include "shim/base/base.h"
#include "shim/resource/resource.h"

struct gm_registry;

/* The process's registry; made at first use. NULL only when the kernel gives no memory. */
GM_INTERNAL extern struct gm_registry *gm_registry_known;
struct gm_registry *gm_registry_find_shared(void);
static inline struct gm_registry *gm_registry_shared(void) {
    struct gm_registry *registry = __atomic_load_n(&gm_registry_known, __ATOMIC_ACQUIRE);
    return GM_LIKELY(registry != NULL) ? registry : gm_registry_find_shared();
}
/* A registry of its own, for tests. */
struct gm_registry *gm_registry_new(void);

/* Remembers a copy of `block`. A record already at that address is replaced and written to *previous (if not NULL;
 * address 0 = none): its free was never seen. Returns GM_OUT_OF_MEMORY when no node can be had: the block is then
 * simply not known. */
gm_status gm_registry_add(struct gm_registry *registry, const struct gm_block *block, struct gm_block *previous);
/* Forgets the block that starts at `address` and writes it to *block. False: no such block. */
bool gm_registry_take(struct gm_registry *registry, uint64_t address, struct gm_block *block);
/* Copies the block that starts at `address`. */
bool gm_registry_find(struct gm_registry *registry, uint64_t address, struct gm_block *block);
/* The block that starts at `address` is to be freed natively (gm_block.pinned_native). False: no such block. */
bool gm_registry_mark(struct gm_registry *registry, uint64_t address);
/* Copies the block that contains `address`. */
bool gm_registry_find_range(struct gm_registry *registry, uint64_t address, struct gm_block *block);
/* Takes out blocks of the context one by one: calls visit(block, arg) for each after it was forgotten. number (may be
 * NULL) gives its `sequence` before anybody else can be remembered at its address. It is called with a lock held. */
void gm_registry_drop_context(struct gm_registry *registry, uint64_t context_id, uint64_t (*number)(void),
                              void (*visit)(const struct gm_block *block, void *arg), void *arg);
/* Calls visit for a copy of every live block, in no order; blocks added or taken meanwhile may be missed. */
void gm_registry_each(struct gm_registry *registry, void (*visit)(const struct gm_block *block, void *arg), void *arg);
size_t gm_registry_count(const struct gm_registry *registry);
/* After fork, in the child: frees locks held by threads that no longer exist. */
void gm_registry_after_fork(struct gm_registry *registry);

#endif
