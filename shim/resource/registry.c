/* Two hash indexes over one set of nodes.
 *
 * By address: shards of chained buckets. Each shard has its own store of nodes under one spinlock, so adding or
 * removing a block takes one lock.
 *
 * By range, built at the first search by range: a block of size s has class k = ceil(log2(s)) and hangs under the
 * key (k, address >> k). A pointer into the block lies less than 2^k behind its start, so the block is found under
 * (k, p >> k) or (k, (p >> k) - 1). One search costs two probes for each class in use, whatever the sizes are.
 * Nothing is ever sorted.
 *
 * Locks are held for a few loads and stores, always in the order address shard, then range shard. One search takes no
 * lock: gm_registry_look walks a chain while others change it. It may miss a block. Records and tables stay mapped
 * while the registry lives, so it reads valid memory, and the compare-and-swap of the record's word decides
 * (record.h). */
#include "shim/resource/registry.h"

#include <dlfcn.h>
#include <string.h>
#include <sys/mman.h>

#include "shim/base/real_dl.h"
#include "shim/resource/registry_parts.h"
#include "shim/trace/recorded.h"

enum { SLAB = 16 * 1024, MOST_HOPS = 16 };

static uint64_t mix_key(uint64_t key) {
    key ^= key >> 32;
    key *= 0x9e3779b97f4a7c15ull;
    return key ^ key >> 29;
}

static unsigned class_of(size_t size) { return size <= 1 ? 0 : 64 - (unsigned)__builtin_clzll(size - 1); }

static uint64_t range_hash(unsigned class, uint64_t bucket) { return mix_key(bucket * 64 + class); }

static uint64_t address_hash(uint64_t address) { return mix_key(address); }

static unsigned shard_of(uint64_t hash) { return hash & (SHARDS - 1); }

static struct gm_block_record **bucket_in_shard(struct gm_registry_shard *shard, uint64_t hash) {
    return &shard->table->buckets[(hash >> SHARD_BITS) & (shard->table->count - 1)];
}

/* Other threads may read the link without the lock. */
static void set_link(struct gm_block_record **link, struct gm_block_record *node) {
    __atomic_store_n(link, node, __ATOMIC_RELEASE);
}

/* ---- one index; `by_range` selects the link and the hash of a node */

static struct gm_block_record **link_of(struct gm_block_record *node, bool by_range) {
    return by_range ? &node->next_range : &node->next_address;
}

/* What a block takes does not change, while it may serve requests of several sizes. */
static unsigned class_of_block(const struct gm_block *block) {
    return class_of(block->reserved > block->size ? block->reserved : block->size);
}

static uint64_t hash_in_range(const struct gm_block_record *node, uint64_t address) {
    unsigned class = class_of_block(&node->block);
    return range_hash(class, address >> class);
}

static uint64_t hash_of_node(const struct gm_block_record *node, uint64_t address, bool by_range) {
    return by_range ? hash_in_range(node, address) : address_hash(address);
}

/* Links the node to its bucket of a larger table. A node without an address is left out: a thread has taken it from the
 * index by address, and waits for the lock of this shard. */
static void link_again(struct gm_registry_shard *shard, struct gm_block_record *node, bool by_range) {
    uint64_t address = gm_record_address(node);
    if (GM_UNLIKELY(!address)) {
        shard->count--;
        return;
    }
    struct gm_block_record **bucket = bucket_in_shard(shard, hash_of_node(node, address, by_range));
    set_link(link_of(node, by_range), *bucket);
    set_link(bucket, node);
}

static size_t bytes_of_table(uint32_t buckets) {
    return sizeof(struct gm_registry_table) + buckets * sizeof(((struct gm_registry_table *)NULL)->buckets[0]);
}

/* Allocates the first table, or a larger one when chains grow long. The shard is locked. The old table stays when the
 * kernel has no memory. It stays mapped in any case, for threads that read it without the lock: all old tables together
 * take a third of the newest. */
static GM_RARE bool grow_table(struct gm_registry *registry, struct gm_registry_shard *shard, bool by_range) {
    struct gm_registry_table *old = shard->table;
    uint32_t old_count = gm_registry_buckets(shard), wanted = old ? old_count * 4 : FIRST_BUCKETS;
    struct gm_registry_table *table =
        old || by_range ? gm_pages(bytes_of_table(wanted)) : &registry->first[shard - registry->by_address].table;

    if (!table)
        return old != NULL;
    table->count = wanted;
    table->older = old;
    __atomic_store_n(&shard->table, table, __ATOMIC_RELEASE);
    for (uint32_t i = 0; i < old_count; i++)
        for (struct gm_block_record *node = old->buckets[i], *next; node; node = next) {
            next = *link_of(node, by_range);
            link_again(shard, node, by_range);
        }
    return true;
}

static bool make_bucket_room(struct gm_registry *registry, struct gm_registry_shard *shard, bool by_range) {
    return GM_LIKELY(shard->count < gm_registry_buckets(shard) * 2) || grow_table(registry, shard, by_range);
}

/* Nodes are taken from a slab one by one, so that a page of it costs its page fault only when a block needs it. */
static GM_RARE struct gm_block_record *node_untouched(struct gm_registry_shard *shard) {
    if (!shard->untouched) {
        struct gm_block_record *slab = gm_pages(SLAB);
        if (!slab)
            return NULL;
        slab->next_address = shard->slabs;
        shard->slabs = slab;
        shard->untouched = SLAB / sizeof(*slab) - 1;
    }
    return &shard->slabs[SLAB / sizeof(*shard->slabs) - shard->untouched--];
}

static struct gm_block_record *node_new(struct gm_registry_shard *shard) {
    struct gm_block_record *node = shard->free;
    if (GM_UNLIKELY(!node))
        return node_untouched(shard);
    shard->free = node->next_address;
    return node;
}

static void node_recycle(struct gm_registry_shard *shard, struct gm_block_record *node) {
    set_link(&node->next_address, shard->free);
    shard->free = node;
}

/* The node's address shard is locked. Without memory for buckets the block is merely not found by range. */
static GM_APART void range_link(struct gm_registry *registry, struct gm_block_record *node) {
    uint64_t hash = hash_in_range(node, gm_record_address(node));
    struct gm_registry_shard *shard = &registry->by_range[shard_of(hash)];
    gm_spin_lock(&shard->lock);
    bool linked = make_bucket_room(registry, shard, true);
    __atomic_store_n(&node->block.in_range, linked, __ATOMIC_RELAXED);
    if (linked) {
        struct gm_block_record **bucket = bucket_in_shard(shard, hash);
        node->next_range = *bucket;
        *bucket = node;
        shard->count++;
        __atomic_add_fetch(&registry->class_count[class_of_block(&node->block)], 1, __ATOMIC_RELAXED);
    }
    gm_spin_unlock(&shard->lock);
}

static GM_APART void range_unlink(struct gm_registry *registry, struct gm_block_record *node, uint64_t address) {
    unsigned class = class_of_block(&node->block);
    uint64_t hash = range_hash(class, address >> class);
    struct gm_registry_shard *shard = &registry->by_range[shard_of(hash)];
    gm_spin_lock(&shard->lock);
    for (struct gm_block_record **at = bucket_in_shard(shard, hash); *at; at = &(*at)->next_range)
        if (*at == node) {
            *at = node->next_range;
            shard->count--;
            break;
        }
    gm_spin_unlock(&shard->lock); /* not found: link_again left it out */
    __atomic_sub_fetch(&registry->class_count[class], 1, __ATOMIC_RELAXED);
}

/* The link to the record of this address, live or not. The shard is locked. NULL: there is none. */
static struct gm_block_record **address_link(struct gm_registry_shard *shard, uint64_t hash, uint64_t address) {
    struct gm_block_record **at = shard->table ? bucket_in_shard(shard, hash) : NULL;
    while (at && *at && gm_record_address(*at) != address)
        at = &(*at)->next_address;
    return at && *at ? at : NULL;
}

/* The same. The shard stays locked. */
static GM_IN_PLACE struct gm_block_record **lock_link(struct gm_registry *registry, uint64_t address,
                                                      struct gm_registry_shard **locked) {
    uint64_t hash = address_hash(address);
    *locked = &registry->by_address[shard_of(hash)];
    gm_spin_lock(&(*locked)->lock);
    return address_link(*locked, hash, address);
}

/* The record of the live block of this address. */
static GM_IN_PLACE struct gm_block_record *lock_live(struct gm_registry *registry, uint64_t address,
                                                     struct gm_registry_shard **locked) {
    struct gm_block_record **at = lock_link(registry, address, locked);
    return at && gm_record_tagged(*at) == address ? *at : NULL;
}

static void unlink_node(struct gm_registry *registry, struct gm_registry_shard *shard, struct gm_block_record **at,
                        uint64_t address) {
    struct gm_block_record *node = *at;
    set_link(at, node->next_address);
    shard->count--;
    if (GM_UNLIKELY(node->block.in_range))
        range_unlink(registry, node, address);
}

/* Takes a live node out. False: a thread without the lock claimed it first. */
static GM_IN_PLACE bool remove_live(struct gm_registry *registry, struct gm_registry_shard *shard,
                                    struct gm_block_record **at, struct gm_block *block) {
    struct gm_block_record *node = *at;
    uint64_t address = gm_record_tagged(node);
    if (gm_word_is_held(address) ||
        !__atomic_compare_exchange_n(&node->block.address, &address, 0, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
        return false;
    *block = node->block;
    block->address = address;
    gm_record_become(node, GM_BLOCK_GONE);
    unlink_node(registry, shard, at, address);
    node_recycle(shard, node);
    return true;
}

/* ---- interface */

struct gm_registry *gm_registry_new(void) {
    return gm_pages(sizeof(struct gm_registry));
}

void gm_registry_discard(struct gm_registry *registry) {
    for (unsigned s = 0; registry && s < SHARDS; s++) {
        struct gm_registry_shard *shards[] = {&registry->by_address[s], &registry->by_range[s]};
        for (struct gm_block_record *slab = shards[0]->slabs, *next; slab; slab = next) {
            next = slab->next_address;
            munmap(slab, SLAB);
        }
        for (unsigned i = 0; i < 2; i++)
            for (struct gm_registry_table *table = shards[i]->table, *older; table; table = older) {
                older = table->older;
                if (table != &registry->first[s].table)
                    munmap(table, bytes_of_table(table->count));
            }
    }
    if (registry)
        munmap(registry, sizeof(*registry));
}

/* The preloaded library and a libgpumem-core that the program links, even statically, share one registry. It belongs
 * to the library that the dynamic linker finds first. The function's name changes with the layout. */
static struct gm_registry *owned(void) {
    static void *shared;
    return gm_pages_once(&shared, sizeof(struct gm_registry));
}

__attribute__((visibility("default"))) struct gm_registry *gpumem_registry_6(void);

struct gm_registry *gpumem_registry_6(void) {
    return owned();
}

struct gm_registry *gm_registry_known;

struct gm_registry *gm_registry_find_shared(void) {
    struct gm_registry *(*owner)(void) =
        (struct gm_registry * (*)(void)) gm_real_dlsym(RTLD_DEFAULT, "gpumem_registry_6");
    struct gm_registry *registry = owner ? owner() : owned();
    __atomic_store_n(&gm_registry_known, registry, __ATOMIC_RELEASE);
    return registry;
}

static struct gm_block_record *link_new(struct gm_registry_shard *shard, uint64_t hash) {
    struct gm_block_record *node = node_new(shard);
    if (GM_UNLIKELY(!node))
        return NULL;
    struct gm_block_record **bucket = bucket_in_shard(shard, hash);
    set_link(&node->next_address, *bucket);
    set_link(bucket, node);
    shard->count++;
    return node;
}

/* A record of that address is in the way of a new block. The free of a live one bypassed every entry point. The memory
 * of another one ended with its context, whose cache still has the record on a list and removes it later. */
static GM_RARE void make_way(struct gm_registry *registry, struct gm_registry_shard *shard, struct gm_block_record **at,
                             struct gm_block *previous) {
    struct gm_block_record *node = *at;
    uint64_t address = gm_record_address(node);
    if (remove_live(registry, shard, at, previous))
        return;
    unlink_node(registry, shard, at, address);
    __atomic_store_n(&node->block.address, GM_RECORD_HELD, __ATOMIC_RELEASE);
}

struct gm_block_record *gm_registry_add_held(struct gm_registry *registry, const struct gm_block *block,
                                             struct gm_block *previous) {
    uint64_t hash = address_hash(block->address);
    struct gm_registry_shard *shard = &registry->by_address[shard_of(hash)];
    struct gm_block stale, linked = *block;
    struct gm_block_record *node = NULL;
    linked.in_range = 0;
    if (previous)
        previous->address = 0;
    gm_spin_lock(&shard->lock);
    if (make_bucket_room(registry, shard, false)) {
        struct gm_block_record **at = address_link(shard, hash, block->address);
        if (GM_UNLIKELY(at != NULL))
            make_way(registry, shard, at, previous ? previous : &stale);
        node = link_new(shard, hash);
    }
    if (GM_LIKELY(node != NULL)) {
        gm_record_write(node, &linked);
        if (GM_UNLIKELY(__atomic_load_n(&registry->ranged, __ATOMIC_RELAXED)))
            range_link(registry, node);
    }
    gm_spin_unlock(&shard->lock);
    return node;
}

gm_status gm_registry_add(struct gm_registry *registry, const struct gm_block *block, struct gm_block *previous) {
    struct gm_block_record *record = gm_registry_add_held(registry, block, previous);
    if (GM_LIKELY(record != NULL))
        gm_record_revive(record, block->address);
    return record ? GM_OK : GM_OUT_OF_MEMORY;
}

struct gm_block_record *gm_registry_look(const struct gm_registry *registry, uint64_t address) {
    uint64_t hash = address_hash(address);
    const struct gm_registry_table *table =
        __atomic_load_n(&registry->by_address[shard_of(hash)].table, __ATOMIC_ACQUIRE);
    if (GM_UNLIKELY(!table))
        return NULL;
    struct gm_block_record *node =
        __atomic_load_n(&table->buckets[(hash >> SHARD_BITS) & (table->count - 1)], __ATOMIC_ACQUIRE);
    for (unsigned hops = MOST_HOPS; node && gm_record_tagged(node) != address; hops--) {
        if (!hops)
            return NULL;
        node = __atomic_load_n(&node->next_address, __ATOMIC_ACQUIRE);
    }
    return node;
}

void gm_registry_remove(struct gm_registry *registry, struct gm_block_record *record) {
    uint64_t address = gm_record_address(record), hash = address_hash(address);
    struct gm_registry_shard *shard = &registry->by_address[shard_of(hash)];
    gm_spin_lock(&shard->lock);
    struct gm_block_record **at = shard->table ? bucket_in_shard(shard, hash) : NULL;
    while (at && *at && *at != record)
        at = &(*at)->next_address;
    if (at && *at) /* else it had to make way */
        unlink_node(registry, shard, at, address);
    gm_record_become(record, GM_BLOCK_GONE);
    __atomic_store_n(&record->block.address, 0, __ATOMIC_RELEASE);
    node_recycle(shard, record);
    gm_spin_unlock(&shard->lock);
}

bool gm_registry_take(struct gm_registry *registry, uint64_t address, struct gm_block *block) {
    struct gm_registry_shard *shard;
    struct gm_block_record **at = lock_link(registry, address, &shard);
    bool found = at && remove_live(registry, shard, at, block);
    gm_spin_unlock(&shard->lock);
    return found;
}

bool gm_registry_holds(struct gm_registry *registry, uint64_t address, const struct gm_resource *owner) {
    struct gm_registry_shard *shard;
    struct gm_block_record **at = lock_link(registry, address, &shard);
    bool found = at && gm_word_is_held(gm_record_tagged(*at)) && (!owner || (*at)->block.owner == owner);
    gm_spin_unlock(&shard->lock);
    return found;
}

bool gm_registry_take_of(struct gm_registry *registry, uint64_t context_id, uint64_t (*number)(void),
                         struct gm_block *block) {
    struct gm_registry_shard *shard;
    struct gm_block_record **at = lock_link(registry, block->address, &shard);
    bool found = at && (*at)->block.context_id == context_id && remove_live(registry, shard, at, block);
    if (found)
        block->sequence = number ? number() : 0;
    gm_spin_unlock(&shard->lock);
    return found;
}

bool gm_registry_find(struct gm_registry *registry, uint64_t address, struct gm_block *block) {
    struct gm_registry_shard *shard;
    struct gm_block_record *node = lock_live(registry, address, &shard);
    bool found = node && gm_registry_copy_live(node, block);
    gm_spin_unlock(&shard->lock);
    return found;
}

bool gm_registry_mark(struct gm_registry *registry, uint64_t address) {
    struct gm_registry_shard *shard;
    struct gm_block_record *node = lock_live(registry, address, &shard);
    if (node)
        __atomic_store_n(&node->block.pinned_native, 1, __ATOMIC_RELAXED);
    gm_spin_unlock(&shard->lock);
    return node != NULL;
}

/* The handle of memory with this key, or NULL. Its shard stays locked. */
static struct gm_block_record *lock_handle(struct gm_registry *registry, uint64_t key,
                                           struct gm_registry_shard **locked) {
    struct gm_block_record *node = lock_live(registry, key, locked);
    return node && gm_block_is_handle(&node->block) ? node : NULL;
}

bool gm_registry_map(struct gm_registry *registry, uint64_t key, int64_t bytes, struct gm_block *handle) {
    struct gm_registry_shard *shard;
    struct gm_block_record *node = lock_handle(registry, key, &shard);
    bool found = node && node->block.mapped + (uint64_t)bytes <= node->block.size;
    if (found) {
        node->block.mapped += (uint64_t)bytes;
        gm_record_read(node, handle);
    }
    gm_spin_unlock(&shard->lock);
    return found;
}

bool gm_registry_refer(struct gm_registry *registry, uint64_t key, bool add) {
    struct gm_registry_shard *shard;
    struct gm_block_record *node = lock_handle(registry, key, &shard);
    bool found = node && (add || node->block.references);
    if (found)
        node->block.references += add ? 1 : UINT64_MAX;
    gm_spin_unlock(&shard->lock);
    return found;
}

static bool probe_range(struct gm_registry *registry, unsigned class, uint64_t bucket, uint64_t address,
                        struct gm_block *block) {
    uint64_t hash = range_hash(class, bucket);
    struct gm_registry_shard *shard = &registry->by_range[shard_of(hash)];
    bool found = false;

    gm_spin_lock(&shard->lock);
    if (shard->table)
        for (struct gm_block_record *node = *bucket_in_shard(shard, hash); node && !found; node = node->next_range)
            if (address - gm_record_address(node) < __atomic_load_n(&node->block.size, __ATOMIC_RELAXED))
                found = gm_registry_copy_live(node, block);
    gm_spin_unlock(&shard->lock);
    return found;
}

/* Builds the range index at the first search by range. A thread that adds a block reads `ranged` under its shard's
 * lock. If the walk has not reached that shard yet, the walk links the block; otherwise the thread sees the flag and
 * links it. Other threads that search meanwhile wait for the walk. Free blocks are linked too: they may live again. */
static void build_range_index(struct gm_registry *registry) {
    gm_spin_lock(&registry->ranging);
    if (!registry->complete) {
        __atomic_store_n(&registry->ranged, true, __ATOMIC_SEQ_CST);
        for (unsigned s = 0; s < SHARDS; s++) {
            struct gm_registry_shard *shard = &registry->by_address[s];
            gm_spin_lock(&shard->lock);
            for (uint32_t i = 0; i < gm_registry_buckets(shard); i++)
                for (struct gm_block_record *node = shard->table->buckets[i]; node; node = node->next_address)
                    if (!node->block.in_range)
                        range_link(registry, node);
            gm_spin_unlock(&shard->lock);
        }
        __atomic_store_n(&registry->complete, true, __ATOMIC_RELEASE);
    }
    gm_spin_unlock(&registry->ranging);
}

bool gm_registry_find_range(struct gm_registry *registry, uint64_t address, struct gm_block *block) {
    if (GM_UNLIKELY(!__atomic_load_n(&registry->complete, __ATOMIC_ACQUIRE)))
        build_range_index(registry);
    for (unsigned class = 0; class < CLASSES; class ++) {
        if (!__atomic_load_n(&registry->class_count[class], __ATOMIC_RELAXED))
            continue;
        uint64_t bucket = address >> class;
        if (probe_range(registry, class, bucket, address, block) ||
            (bucket > 0 && probe_range(registry, class, bucket - 1, address, block)))
            return true;
    }
    return false;
}

uint32_t gm_registry_record(struct gm_registry *registry, uint64_t address) {
    struct gm_registry_shard *shard;
    struct gm_block_record *node = lock_live(registry, address, &shard);
    uint32_t recorded = node ? gm_record_word(&node->block.recorded) : 0;
    gm_spin_unlock(&shard->lock);
    return recorded;
}

void gm_registry_after_fork(struct gm_registry *registry) {
    registry->ranging.held = 0;
    for (unsigned s = 0; s < SHARDS; s++)
        registry->by_address[s].lock.held = registry->by_range[s].lock.held = 0;
}
