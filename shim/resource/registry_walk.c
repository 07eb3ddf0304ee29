/* Walks over all blocks of the registry. Blocks are copied under the lock of a shard, a few at a time, and visited
 * without it. */
#include "shim/resource/registry.h"

#include "shim/resource/registry_parts.h"
#include "shim/trace/recorded.h"
#include "shim/trace/writer.h"

enum which { LIVE_OF_CONTEXT, LIVE, ALL };

static bool copy_if(const struct gm_block_record *node, enum which which, uint64_t context_id, struct gm_block *out) {
    if (which == LIVE_OF_CONTEXT && node->block.context_id != context_id)
        return false;
    bool live = gm_registry_copy_live(node, out);
    if (!live && which == ALL)
        out->address &= ~GM_RECORD_HELD;
    return live || which == ALL;
}

/* Copies up to `room` blocks of one shard from *bucket on, and advances *bucket. */
static size_t copy_shard(struct gm_registry_shard *shard, uint32_t *bucket, enum which which, uint64_t context_id,
                         struct gm_block *out, size_t room) {
    size_t copied = 0;
    gm_spin_lock(&shard->lock);
    for (; *bucket < gm_registry_buckets(shard); ++*bucket) {
        size_t before = copied;
        for (struct gm_block_record *node = shard->table->buckets[*bucket]; node; node = node->next_address) {
            struct gm_block block;
            if (!copy_if(node, which, context_id, &block))
                continue;
            if (copied == room) { /* the whole bucket is copied again next time */
                copied = before ? before : copied;
                goto full;
            }
            out[copied++] = block;
        }
    }
full:
    gm_spin_unlock(&shard->lock);
    return copied;
}

enum { BATCH = 16 }; /* the blocks lie on the stack, which may be small */

static void walk(struct gm_registry *registry, enum which which, uint64_t context_id, uint64_t (*number)(void),
                 void (*visit)(const struct gm_block *, void *), void *arg) {
    struct gm_block batch[BATCH];
    bool take = which == LIVE_OF_CONTEXT;
    for (unsigned s = 0; s < SHARDS; s++) {
        uint32_t bucket = 0;
        for (;;) {
            uint32_t from = bucket;
            size_t count = copy_shard(&registry->by_address[s], &bucket, which, context_id, batch, BATCH);
            if (count == 0)
                break;
            for (size_t i = 0; i < count; i++)
                if (!take || gm_registry_take_of(registry, context_id, number, &batch[i]))
                    visit(&batch[i], arg);
            if (!take && bucket == from)
                bucket++; /* a chain longer than a batch: the rest is skipped. With `take`, removed blocks make room for
                             the rest. */
        }
    }
}

void gm_registry_drop_context(struct gm_registry *registry, uint64_t context_id, uint64_t (*number)(void),
                              void (*visit)(const struct gm_block *block, void *arg), void *arg) {
    walk(registry, LIVE_OF_CONTEXT, context_id, number, visit, arg);
}

void gm_registry_each(struct gm_registry *registry, void (*visit)(const struct gm_block *block, void *arg), void *arg) {
    walk(registry, LIVE, 0, NULL, visit, arg);
}

void gm_registry_each_record(struct gm_registry *registry, void (*visit)(const struct gm_block *block, void *arg),
                             void *arg) {
    walk(registry, ALL, 0, NULL, visit, arg);
}

/* A number before the block is read as live, so that a free which comes meanwhile has a later one. */
static bool record_node(struct gm_block_record *node, struct gm_block *out) {
    uint32_t word = __atomic_load_n(&node->block.recorded, __ATOMIC_RELAXED);
    if (gm_is_recorded(word) || gm_word_is_held(gm_record_tagged(node)))
        return false;
    uint64_t sequence = gm_trace_sequence();
    if (!gm_registry_copy_live(node, out) ||
        !__atomic_compare_exchange_n(&node->block.recorded, &word, gm_recorded_after(word), false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_RELAXED))
        return false;
    out->sequence = sequence;
    return true;
}

/* The bucket where the room ends is visited again. */
static size_t record_shard(struct gm_registry_shard *shard, uint32_t *bucket, bool handles, struct gm_block *out,
                           size_t room) {
    size_t count = 0;
    gm_spin_lock(&shard->lock);
    for (; *bucket < gm_registry_buckets(shard) && count < room; *bucket += count < room)
        for (struct gm_block_record *node = shard->table->buckets[*bucket]; node && count < room;
             node = node->next_address)
            count += gm_block_is_handle(&node->block) == handles && record_node(node, &out[count]);
    gm_spin_unlock(&shard->lock);
    return count;
}

void gm_registry_record_all(struct gm_registry *registry, bool handles, void (*visit)(const struct gm_block *block)) {
    struct gm_block batch[BATCH];
    for (unsigned s = 0; s < SHARDS; s++) {
        uint32_t bucket = 0;
        size_t count;
        while ((count = record_shard(&registry->by_address[s], &bucket, handles, batch, BATCH)))
            for (size_t i = 0; i < count; i++)
                visit(&batch[i]);
    }
}

size_t gm_registry_count(struct gm_registry *registry) {
    size_t count = 0;
    for (unsigned s = 0; s < SHARDS; s++) {
        gm_spin_lock(&registry->by_address[s].lock);
        count += registry->by_address[s].count;
        gm_spin_unlock(&registry->by_address[s].lock);
    }
    return count;
}
