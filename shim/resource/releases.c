#include "shim/resource/releases.h"

#include <string.h>

#include "shim/base/events.h"
#include "shim/accounts/stats.h"
#include "shim/trace/writer.h"

/* Given under a lock of the cache, where no event can be written. The next trim writes it. */
static uint64_t unwritten[GM_KIND_COUNT];

static __thread struct gm_releases *current __attribute__((tls_model("initial-exec")));

static void write_trim(const struct gm_releases *releases, enum gm_kind kind) {
    const struct gm_request none = {.device = releases->device},
                            *request = releases->request ? releases->request : &none;
    struct gm_event event;
    gm_event_fill(&event, gm_trace_sequence(), releases->begin_ns, GM_ACT_TRIM, kind, request->device);
    event.bytes = releases->bytes[kind];
    event.site = request->site;
    event.context = request->context_number;
    event.call = (uint8_t)request->call;
    event.reason = (uint8_t)releases->reason;
    gm_trace_event(&event);
}

void gm_releases_begin(struct gm_releases *releases, enum gm_reason reason) {
    if (reason == GM_REASON_OUT_OF_MEMORY)
        gm_account_before_release();
    releases->active = gm_trace_is_on() && !current;
    if (!releases->active)
        return;
    releases->reason = reason;
    releases->device = -1;
    releases->request = NULL;
    releases->begin_ns = gm_now_ns();
    memset(releases->bytes, 0, sizeof releases->bytes);
    current = releases;
}

void gm_releases_end(struct gm_releases *releases, bool always) {
    if (!releases->active)
        return;
    current = NULL;
    for (int kind = 0; kind < GM_KIND_COUNT; kind++) {
        if (GM_UNLIKELY(__atomic_load_n(&unwritten[kind], __ATOMIC_RELAXED)))
            releases->bytes[kind] += __atomic_exchange_n(&unwritten[kind], 0, __ATOMIC_RELAXED);
        if (releases->bytes[kind])
            write_trim(releases, (enum gm_kind)kind);
        always = always && !releases->bytes[kind];
    }
    if (always)
        write_trim(releases, GM_KIND_NATIVE);
}

static bool is_pooled(enum gm_kind kind) { return gm_kind_traits(kind) & GM_TRAIT_POOLED; }

void gm_release_note(enum gm_kind kind, int device, uint64_t bytes) {
    if (!is_pooled(kind))
        gm_stats_give(kind, device, bytes);
    if (current) {
        current->bytes[kind] += bytes;
        current->device = device;
    } else if (gm_trace_is_on()) {
        __atomic_add_fetch(&unwritten[kind], bytes, __ATOMIC_RELAXED);
    }
}

void gm_release_failed(enum gm_kind kind, int device, uint64_t bytes) {
    if (!is_pooled(kind))
        gm_stats_take(kind, device, bytes);
    if (current && current->bytes[kind] >= bytes)
        current->bytes[kind] -= bytes;
}

void gm_pool_resized(enum gm_kind kind, int device, uint64_t bytes, uint64_t *counted) {
    uint64_t before = __atomic_load_n(counted, __ATOMIC_RELAXED);
    if (bytes != before)
        before = __atomic_exchange_n(counted, bytes, __ATOMIC_RELAXED);
    if (bytes == before)
        return;
    if (bytes > before)
        gm_stats_take(kind, device, bytes - before);
    else
        gm_stats_give(kind, device, before - bytes);
    gm_trace_amount(GM_ACT_POOL_SIZE, kind, device, bytes, current ? current->reason : GM_REASON_NONE);
}
