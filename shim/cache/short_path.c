/* The cache's half of the short path (shim/core/pipeline.h): the record of a freed block stays in the registry, on a
 * free list, until an allocation makes it live again. The plain parts call no other function. */
#include "shim/base/stats.h"
#include "shim/cache/cache.h"
#include "shim/cache/parts.h"
#include "shim/resource/registered.h"
#include "shim/resource/rows.h"
#include "shim/trace/writer.h"

static bool plain; /* there is a plain part */

bool gm_cache_may_keep(const struct gm_resource *resource, bool with_plain) {
    plain = with_plain;
    return resource && resource->ops == &gm_resource_cache && gm_drv.ctx_record_event;
}

static inline struct gm_shard *own_shard(const struct gm_resource *self) {
    if (GM_UNLIKELY(!gm_mine.shard))
        gm_mine.shard = gm_cache_my_shard(self->state);
    if (__atomic_load_n(&plain, __ATOMIC_RELAXED))
        gm_mine.plain = gm_mine.shard;
    return gm_mine.shard;
}

static bool is_for_all(uint32_t repeats) { return repeats > GM_REPEATS_ALL / 2; }

/* Takes the answer out of the class. */
static uint32_t take_answer(struct gm_size_class *class) {
    uint32_t repeats = class->repeats;
    if (!is_for_all(repeats))
        class->repeats = 0;
    return repeats;
}

static void give_back(const struct gm_recent_size *recent) {
    if (recent->repeats && !is_for_all(recent->repeats)) {
        recent->class->requested = recent->requested;
        recent->class->repeats = recent->repeats;
    }
}

/* The plain part compares with the context's id, so it finds nothing while this bit is set. */
#define NOT_PLAIN (UINT64_C(1) << 63)
static inline uint64_t key_of_context(uint64_t context_id) {
    return GM_LIKELY(__atomic_load_n(&plain, __ATOMIC_RELAXED)) ? context_id : context_id | NOT_PLAIN;
}

/* Finds the class for requests of this size and notes it. NULL: there is none, or the policy has to decide. */
static struct gm_recent_size *find_size(const struct gm_cache *state, struct gm_shard *shard, uint64_t context_id,
                                        size_t requested) {
    struct gm_recent_size *recent = &shard->recent_sizes[gm_recent_slot(requested)];
    if (recent->requested == requested && recent->context_id == key_of_context(context_id) && recent->repeats)
        return recent;
    struct gm_free_lists *lists = gm_free_lists_of(shard, context_id);
    struct gm_size_class *class =
        lists && !shard->entries_only ? gm_size_class_of(lists, gm_cache_class(state, requested)) : NULL;
    if (class && GM_UNLIKELY(!class->repeats) && shard->answers)
        gm_cache_note_answer(class, requested, GM_REPEATS_ALL, shard->reason, shard->verdict);
    if (!class || !(is_for_all(class->repeats) || (class->repeats && class->requested == requested)))
        return NULL;
    uint32_t repeats = take_answer(class);
    give_back(recent);
    *recent = (struct gm_recent_size){requested, key_of_context(context_id), class, repeats};
    return recent;
}

/* The newest ready record of the class serves the request. The caller holds the lock. */
static inline struct gm_registered *make_live(struct gm_shard *shard, struct gm_size_class *class, size_t size) {
    struct gm_registered *record = gm_free_lists_take_kept(class->lists, class);
    uint64_t address = gm_registered_word(record) & ~GM_REGISTERED_KEPT;
    __atomic_store_n(&record->block.size, size, __ATOMIC_RELAXED);
    __atomic_store_n(&shard->recent_records[gm_recent_slot(address)], record, __ATOMIC_RELAXED);
    gm_registered_revive(record, address);
    return record;
}

bool gm_cache_reuse_ready(size_t size, uint64_t *address) {
    if (GM_UNLIKELY(!gm_mine.plain))
        return false;
    uint64_t context_id = gm_context_same_id(__atomic_load_n(&gm_mine.plain->recent_context, __ATOMIC_RELAXED));
    struct gm_shard *shard = gm_mine.plain; /* read again: kept across the driver's call it would cost more */
    if (GM_UNLIKELY(!gm_spin_try(&shard->lock)))
        return false;
    struct gm_recent_size *recent = &shard->recent_sizes[gm_recent_slot(size)];
    __asm__("" : "+r"(recent)); /* compute the address once */
    bool serves = GM_LIKELY(recent->requested == size && recent->context_id == context_id && recent->repeats) &&
                  GM_LIKELY(recent->class->kept != NULL) &&
                  GM_LIKELY(gm_stats_took_late(gm_mine.counts, size, recent->class->size));
    if (GM_LIKELY(serves)) {
        recent->repeats--;
        *address = gm_registered_word(make_live(shard, recent->class, size));
    }
    gm_spin_unlock(&shard->lock);
    return serves;
}

/* True when a shard other than `mine` may have a block of exactly the requested size, which comes first. */
static bool others_have_some(const struct gm_cache *state, const struct gm_shard *mine, int device) {
    for (unsigned i = 0, used = gm_cache_shards_used(); i < used; i++)
        if (&state->shards[i] != mine && gm_cache_has_some(&state->shards[i], device))
            return true;
    return false;
}

/* The class of a larger block, if find_elsewhere would choose one of this shard, and as a record. The caller holds the
 * lock; the function may release it for a time. */
static struct gm_size_class *find_larger_kept(const struct gm_cache *state, struct gm_shard *shard, uint64_t context_id,
                                              size_t size) {
    struct gm_free_lists *lists = shard->entries_only ? NULL : gm_free_lists_of(shard, context_id);
    if (!lists || !gm_cache_may_waste(state, lists->device) || others_have_some(state, shard, lists->device))
        return NULL;
    size_t most = gm_cache_most(state, lists->device, gm_cache_class(state, size));
    struct gm_size_class *class =
        gm_cache_find_larger(shard, lists, gm_cache_native(state, size), most, gm_cache_may_query(lists));
    return class && class->kept && !shard->entries_only ? class : NULL;
}

/* The policy wants to know of the block's free, so that takes no plain part (put_plainly). */
static void mark_counted(struct gm_registered *record) {
    __atomic_store_n(&record->block.counted, 1, __ATOMIC_RELAXED);
    __atomic_store_n(&record->of_shard, 0, __ATOMIC_RELAXED);
}

struct gm_registered *gm_cache_serve(struct gm_resource *self, const struct gm_request *request,
                                     const struct gm_decision *decision, bool counted) {
    struct gm_cache *state = self->state;
    struct gm_shard *shard = own_shard(self);
    struct gm_registered *record = NULL;
    gm_spin_lock(&shard->lock);
    struct gm_free_lists *lists = shard->entries_only ? NULL : gm_free_lists_of(shard, request->context_id);
    struct gm_size_class *class =
        lists && !lists->disabled ? gm_size_class_of(lists, gm_cache_class(state, request->size)) : NULL;
    if (class && !gm_size_class_is_ready(class) && gm_size_class_pends(class))
        class = gm_cache_query_oldest(shard, lists, class); /* releases the lock for a time */
    if (class)
        gm_cache_note_answer(class, request->size, decision->repeats, decision->reason, decision->verdict);
    if (!class || !gm_size_class_is_ready(class))
        class = find_larger_kept(state, shard, request->context_id, request->size);
    if (class && class->kept && !shard->entries_only) {
        if (counted)
            mark_counted(class->kept);
        record = make_live(shard, class, request->size);
    }
    gm_spin_unlock(&shard->lock);
    return record;
}

/* A context that was destroyed has no free lists, so no block of it is found. */
struct gm_registered *gm_cache_reuse(struct gm_resource *self, size_t size, struct gm_decision *decision) {
    struct gm_shard *shard = own_shard(self);
    struct gm_registered *record = NULL;
    const struct gm_context *context;
    uint64_t context_id = gm_context_current_id(&context);
    __atomic_store_n(&shard->recent_context, context, __ATOMIC_RELAXED);
    gm_spin_lock(&shard->lock);
    struct gm_recent_size *recent = find_size(self->state, shard, context_id, size);
    struct gm_size_class *class = recent ? recent->class : NULL;
    if (class && !gm_size_class_is_ready(class) && gm_size_class_pends(class)) {
        gm_cache_query_oldest(shard, class->lists, class); /* releases the lock for a time */
        recent = find_size(self->state, shard, context_id, size);
        class = recent ? recent->class : NULL;
    }
    if (class && class->kept) {
        recent->repeats--;
        decision->reason = (enum gm_reason) class->reason;
        decision->verdict = (enum gm_kind) class->verdict;
    } else if (shard->answers && !(class && class->ready.count)) {
        class = find_larger_kept(self->state, shard, context_id, size);
        decision->reason = (enum gm_reason)shard->reason;
        decision->verdict = (enum gm_kind)shard->verdict;
    }
    if (class && class->kept)
        record = make_live(shard, class, size);
    gm_spin_unlock(&shard->lock);
    return record;
}

/* A batch of fewer bytes needs no fence for them, whatever the other shards hold. */
static size_t plain_bytes(void) {
    return gm_cache_shards_used() * GM_CACHE_BATCH_BYTES <= GM_CACHE_ALL_BATCH_BYTES ? GM_CACHE_BATCH_BYTES
                                                                                     : GM_CACHE_SHARD_BYTES;
}

/* The class of a claimed record in this shard. NULL: there is none. */
static struct gm_size_class *class_of_record(struct gm_shard *shard, struct gm_registered *record) {
    if (shard->entries_only) /* the record may be in the index by range */
        return NULL;
    if (__atomic_load_n(&record->of_shard, __ATOMIC_RELAXED) == shard->number)
        return record->of_size;
    struct gm_free_lists *lists = gm_free_lists_of(shard, record->block.context_id);
    record->of_size = lists && !lists->disabled ? gm_size_class_of(lists, record->block.reserved) : NULL;
    __atomic_store_n(&record->of_shard, record->of_size ? shard->number : 0, __ATOMIC_RELAXED);
    return record->of_size;
}

/* Puts a claimed record whose class is known on the open batch, unless this needs a fence or more room. The caller
 * holds the lock. A record that a policy counts, or that must not be kept, is of no shard (registry.c). */
static inline bool put_plainly(struct gm_shard *shard, struct gm_registered *record) {
    size_t size = record->block.size, reserved = record->block.reserved;
    if (GM_UNLIKELY(__atomic_load_n(&record->of_shard, __ATOMIC_RELAXED) != shard->number))
        return false;
    struct gm_free_lists *lists = record->of_size->lists;
    struct gm_batch *batch = lists->open;
    if (GM_UNLIKELY(!batch || batch->count >= shard->most || batch->bytes + reserved >= shard->most_bytes) ||
        GM_UNLIKELY(!gm_cache_has_room(lists, reserved)))
        return false;
    gm_free_lists_keep(shard, lists, batch, record);
    gm_stats_freed_late(gm_mine.counts, size, reserved);
    return true;
}

/* NULL: the shard did not make this block live lately, or the block is not live. */
static inline struct gm_registered *claim_recent(const struct gm_shard *shard, uint64_t address) {
    struct gm_registered *record = __atomic_load_n(&shard->recent_records[gm_recent_slot(address)], __ATOMIC_RELAXED);
    return GM_LIKELY(record && gm_registered_word(record) == address) && GM_LIKELY(gm_registered_claim(record, address))
               ? record
               : NULL;
}

struct gm_registered *gm_cache_claim(struct gm_registry *registry, uint64_t address) {
    struct gm_registered *record = gm_mine.shard ? claim_recent(gm_mine.shard, address) : NULL;
    return record ? record : gm_registry_claim(registry, address);
}

bool gm_cache_keep_plainly(uint64_t address) {
    struct gm_shard *shard = gm_mine.plain;
    struct gm_registered *record = GM_LIKELY(shard != NULL) ? claim_recent(shard, address) : NULL;
    if (GM_UNLIKELY(!record))
        return false;
    if (GM_LIKELY(gm_spin_try(&shard->lock))) {
        bool kept = put_plainly(shard, record);
        gm_spin_unlock(&shard->lock);
        if (GM_LIKELY(kept))
            return true;
    }
    gm_registered_revive(record, address);
    return false;
}

/* The batch of the record is full. `block` is a copy of its block. */
static GM_APART gm_status record_kept(struct gm_resource *self, struct gm_shard *shard, struct gm_free_lists *lists,
                                      const struct gm_registered *record, struct gm_block *block) {
    static const struct gm_free_request how = {.call = GM_CALL_FREE};
    gm_registered_copy(record, gm_registered_address(record), block);
    return gm_cache_record_fence(self, shard, lists, block, &how);
}

bool gm_cache_keep(struct gm_resource *self, struct gm_registered *record, struct gm_block *block, uint64_t *sequence,
                   gm_status *status) {
    struct gm_cache *state = self->state;
    const struct gm_block *freed = &record->block;
    if (freed->owner != self || !__atomic_load_n(&freed->recurs, __ATOMIC_RELAXED))
        return false;
    struct gm_shard *shard = own_shard(self);
    gm_spin_lock(&shard->lock);
    struct gm_size_class *class = class_of_record(shard, record);
    struct gm_free_lists *lists = class ? class->lists : NULL;
    shard->most_bytes = plain_bytes();
    bool may = lists && gm_cache_has_room(lists, freed->reserved);
    struct gm_batch *batch = may ? lists->open ? lists->open : gm_batch_open(lists) : NULL;
    if (!batch) {
        gm_spin_unlock(&shard->lock);
        return false;
    }
    *sequence = GM_UNLIKELY(*sequence) ? gm_trace_sequence() : 0;
    __atomic_store_n(&record->block.counted, 0, __ATOMIC_RELAXED);
    gm_free_lists_keep(shard, lists, batch, record);
    *status = GM_OK;
    if (GM_UNLIKELY(gm_cache_is_full(state, lists, batch)) && !gm_capture_any())
        *status = record_kept(self, shard, lists, record, block);
    else
        gm_spin_unlock(&shard->lock);
    return true;
}

void gm_cache_keep_entries_only(struct gm_cache *state) {
    __atomic_store_n(&state->entries_only, true, __ATOMIC_RELAXED);
    for (unsigned i = 0; i < GM_CACHE_SHARDS; i++) {
        struct gm_shard *shard = &state->shards[i];
        gm_spin_lock(&shard->lock);
        shard->entries_only = true;
        gm_shard_renumber(shard);
        for (struct gm_free_lists *lists = shard->lists; lists; lists = lists->next)
            gm_free_lists_turn_records(lists);
        gm_spin_unlock(&shard->lock);
    }
}

/* A thread that is in the plain part holds its shard's lock for the part that counts. Others note sizes with the new
 * key as soon as `plain` has changed, so both keys may be in a shard. */
void gm_cache_set_plain(struct gm_resource *self, bool with_plain) {
    struct gm_cache *state = self->state;
    __atomic_store_n(&plain, with_plain, __ATOMIC_SEQ_CST);
    for (unsigned i = 0; i < GM_CACHE_SHARDS; i++) {
        struct gm_shard *shard = &state->shards[i];
        gm_spin_lock(&shard->lock);
        shard->most = with_plain ? state->frees - 1 : 0;
        for (unsigned k = 0; k < sizeof shard->recent_sizes / sizeof *shard->recent_sizes; k++) {
            uint64_t *key = &shard->recent_sizes[k].context_id;
            *key = with_plain ? *key & ~NOT_PLAIN : *key | NOT_PLAIN;
        }
        gm_spin_unlock(&shard->lock);
    }
}

void gm_cache_renew_plain(struct gm_resource *self) { gm_cache_set_plain(self, plain); }

void gm_cache_stop_keeping(struct gm_resource *self) { gm_cache_keep_entries_only(self->state); }
