/* Adaptor "track": remembers each live block with the call stack of its allocation, and reports those that the program
 * never freed. */
#include "shim/base/events.h"
#include "shim/resource/asked.h"

#include "shim/resource/adaptor.h"
#include "shim/resource/registry.h"
#include "shim/resource/rows.h"

enum { SHOWN = 20 }; /* blocks in a report */

struct state {
    uint64_t number;
};

static gm_status track_alloc(struct gm_resource *self, const struct gm_request *request,
                             const struct gm_decision *decision, struct gm_block *block) {
    struct state *state = self->state;
    struct gm_block got = *block;
    gm_status status = gm_adaptor_alloc(self, request, decision, &got);
    if (status)
        return status;
    struct gm_block noted = got;
    noted.sequence = __atomic_add_fetch(&state->number, 1, __ATOMIC_RELAXED);
    noted.site = request->site;
    if (gm_registry_add(self->blocks, &noted, NULL)) {
        gm_adaptor_undo(self, request, &got);
        return GM_OUT_OF_MEMORY;
    }
    *block = got;
    return GM_OK;
}

static gm_status track_free(struct gm_resource *self, const struct gm_block *block, const struct gm_free_request *how) {
    struct gm_block noted;
    bool known = gm_registry_take(self->blocks, block->address, &noted);
    if (!known)
        gm_log(GM_LOG_WARN, "track: %zu bytes at %p are freed, but not live", block->size,
               (void *)(uintptr_t)block->address);
    gm_status status = gm_adaptor_free(self, block, how);
    if (status && known)
        gm_registry_add(self->blocks, &noted, NULL);
    return status;
}

static gm_status track_grow(struct gm_resource *self, struct gm_block *block, size_t size) {
    struct gm_block noted;
    gm_status status = gm_adaptor_grow(self, block, size);
    if (!status && gm_registry_take(self->blocks, block->address, &noted)) {
        noted.size = block->size;
        noted.reserved = block->reserved;
        gm_registry_add(self->blocks, &noted, NULL);
    }
    return status;
}

void gm_track_each(struct gm_resource *track, void (*visit)(const struct gm_block *block, void *arg), void *arg) {
    gm_registry_each(track->blocks, visit, arg);
}

struct leaks {
    uint64_t count, bytes;
};

static void report_leak(const struct gm_block *block, void *arg) {
    struct leaks *leaks = arg;
    leaks->bytes += block->size;
    if (++leaks->count > SHOWN)
        return;
    gm_log(GM_LOG_WARN, "leaked: %zu bytes at %p on device %d, allocation %llu", block->size,
           (void *)(uintptr_t)block->address, block->device, (unsigned long long)block->sequence);
    if (block->site)
        gm_resources_log_stack(block->site);
}

static void track_report(struct gm_resource *self) {
    struct leaks leaks = {0};
    gm_track_each(self, report_leak, &leaks);
    if (leaks.count)
        gm_log(GM_LOG_WARN, "track: %llu blocks of %s leaked, %llu bytes", (unsigned long long)leaks.count,
               self->upstream->ops->name, (unsigned long long)leaks.bytes);
}

const struct gm_resource_ops gm_resource_track = {
    .name = "track",
    .summary =
        "remembers live blocks with their call stacks; those that the program never frees are reported at its end",
    .properties = ~0u,
    .breaks = "",
    .adaptor = true,
    .state_size = sizeof(struct state),
    .open = gm_adaptor_remember,
    .alloc = track_alloc,
    .free = track_free,
    .grow = track_grow,
    .report = track_report,
    GM_ADAPTOR_REMEMBERS,
};
