/* Adaptor "statistics": counts allocations, frees, failures, live bytes and their peak. */
#include "shim/resource/asked.h"

#include "shim/gpumem_resource.h"
#include "shim/resource/adaptor.h"
#include "shim/resource/byte_counters.h"
#include "shim/resource/rows.h"

/* The live bytes of each context are counted apart, because its blocks end with it. */
struct state {
    struct gpumem_statistics counts; /* under the lock; without the live and peak bytes */
    gm_spin lock;
    struct gm_byte_counters bytes, blocks;
};

static uint64_t larger(uint64_t a, uint64_t b) { return a > b ? a : b; }

static void count_live(struct state *state, uint64_t context_id, uint64_t bytes, uint64_t blocks) {
    gm_byte_counters_add(&state->bytes, context_id, bytes, UINT64_MAX);
    gm_byte_counters_add(&state->blocks, context_id, blocks, UINT64_MAX);
    struct gpumem_statistics *counts = &state->counts;
    counts->peak_bytes = larger(counts->peak_bytes, gm_byte_counters_total(&state->bytes));
    counts->peak_count = larger(counts->peak_count, gm_byte_counters_total(&state->blocks));
}

static gm_status statistics_alloc(struct gm_resource *self, const struct gm_request *request,
                                  const struct gm_decision *decision, struct gm_block *block) {
    struct state *state = self->state;
    gm_status status = gm_adaptor_alloc(self, request, decision, block);
    gm_spin_lock(&state->lock);
    if (status) {
        state->counts.failures++;
    } else {
        state->counts.allocations++;
        state->counts.total_bytes += block->size;
        count_live(state, block->context_id, block->size, 1);
    }
    gm_spin_unlock(&state->lock);
    return status;
}

/* Counted before the free: afterwards another thread may have the memory. */
static gm_status statistics_free(struct gm_resource *self, const struct gm_block *block,
                                 const struct gm_free_request *how) {
    struct state *state = self->state;
    gm_byte_counters_subtract(&state->bytes, block->context_id, block->size);
    gm_byte_counters_subtract(&state->blocks, block->context_id, 1);
    gm_status status = gm_adaptor_free(self, block, how);
    gm_spin_lock(&state->lock);
    if (status)
        count_live(state, block->context_id, block->size, 1);
    else
        state->counts.deallocations++;
    gm_spin_unlock(&state->lock);
    return status;
}

static gm_status statistics_grow(struct gm_resource *self, struct gm_block *block, size_t size) {
    struct state *state = self->state;
    size_t before = block->size;
    gm_status status = gm_adaptor_grow(self, block, size);
    gm_spin_lock(&state->lock);
    if (!status) {
        state->counts.total_bytes += block->size - before;
        count_live(state, block->context_id, block->size - before, 0);
    }
    gm_spin_unlock(&state->lock);
    return status;
}

void gm_statistics_of(struct gm_resource *statistics, struct gpumem_statistics *counts) {
    struct state *state = statistics->state;
    gm_spin_lock(&state->lock);
    *counts = state->counts;
    gm_spin_unlock(&state->lock);
    counts->live_bytes = gm_byte_counters_total(&state->bytes);
    counts->live_count = gm_byte_counters_total(&state->blocks);
}

static void statistics_context_destroyed(struct gm_resource *self, uint64_t context_id) {
    struct state *state = self->state;
    gm_byte_counters_forget(&state->bytes, context_id);
    gm_byte_counters_forget(&state->blocks, context_id);
}

static void statistics_after_fork(struct gm_resource *self) {
    struct state *state = self->state;
    state->lock.held = state->bytes.lock.held = state->blocks.lock.held = 0;
}

static void statistics_report(struct gm_resource *self) {
    struct gpumem_statistics counts;
    gm_statistics_of(self, &counts);
    gm_log(GM_LOG_WARN,
           "statistics of %s: %llu allocations (%llu failed), %llu frees, %llu bytes in all; live: %llu blocks, %llu "
           "bytes; peak: %llu blocks, %llu bytes",
           self->upstream->ops->name, (unsigned long long)counts.allocations, (unsigned long long)counts.failures,
           (unsigned long long)counts.deallocations, (unsigned long long)counts.total_bytes,
           (unsigned long long)counts.live_count, (unsigned long long)counts.live_bytes,
           (unsigned long long)counts.peak_count, (unsigned long long)counts.peak_bytes);
}

const struct gm_resource_ops gm_resource_statistics = {
    .name = "statistics",
    .summary =
        "counts calls, failures, live bytes and their peak; an unmodified program gets them at its end in the log",
    .properties = ~0u,
    .breaks = "",
    .adaptor = true,
    .state_size = sizeof(struct state),
    .alloc = statistics_alloc,
    .free = statistics_free,
    .grow = statistics_grow,
    .after_fork = statistics_after_fork,
    .context_destroyed = statistics_context_destroyed,
    .report = statistics_report,
};
