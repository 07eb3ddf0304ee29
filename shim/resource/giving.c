#include "shim/resource/giving.h"

#include <string.h>

#include "shim/base/stats.h"
#include "shim/trace/writer.h"

/* Given under a lock of the cache, where no event can be written. The next trim writes it. */
static uint64_t unwritten[GM_KIND_COUNT];

static __thread struct gm_giving *current __attribute__((tls_model("initial-exec")));

void gm_note_amount(struct gm_event *event) {
    event->seq = gm_trace_sequence();
    event->time_ns = event->time_ns ? event->time_ns : gm_now_ns();
    gm_trace_event(event);
}

static void write_trim(const struct gm_giving *giving, enum gm_kind kind) {
    const struct gm_request *request = giving->request;
    struct gm_event event = {
        .time_ns = giving->begin_ns,
        .bytes = giving->bytes[kind],
        .site = request ? request->site : 0,
        .context = request ? request->context_number : 0,
        .device = (int8_t)(request ? request->device : giving->device),
        .call = request ? (uint8_t)request->call : GM_CALL_NONE,
        .action = GM_ACT_TRIM,
        .kind = (uint8_t)kind,
        .reason = (uint8_t)giving->reason,
        .verdict = (uint8_t)kind,
    };
    gm_note_amount(&event);
}

void gm_giving_begin(struct gm_giving *giving, enum gm_reason reason) {
    giving->active = gm_trace_is_on() && !current;
    if (!giving->active)
        return;
    giving->reason = reason;
    giving->device = -1;
    giving->request = NULL;
    giving->begin_ns = gm_now_ns();
    memset(giving->bytes, 0, sizeof giving->bytes);
    current = giving;
}

void gm_giving_end(struct gm_giving *giving, bool always) {
    if (!giving->active)
        return;
    current = NULL;
    for (int kind = 0; kind < GM_KIND_COUNT; kind++) {
        if (GM_UNLIKELY(__atomic_load_n(&unwritten[kind], __ATOMIC_RELAXED)))
            giving->bytes[kind] += __atomic_exchange_n(&unwritten[kind], 0, __ATOMIC_RELAXED);
        if (giving->bytes[kind])
            write_trim(giving, (enum gm_kind)kind);
        always = always && !giving->bytes[kind];
    }
    if (always)
        write_trim(giving, GM_KIND_NATIVE);
}

static bool is_pooled(enum gm_kind kind) { return gm_kind_traits(kind) & GM_TRAIT_POOLED; }

void gm_give(enum gm_kind kind, int device, uint64_t bytes) {
    if (!is_pooled(kind))
        gm_stats_give(kind, device, bytes);
    if (current) {
        current->bytes[kind] += bytes;
        current->device = device;
    } else if (gm_trace_is_on()) {
        __atomic_add_fetch(&unwritten[kind], bytes, __ATOMIC_RELAXED);
    }
}

void gm_give_not(enum gm_kind kind, int device, uint64_t bytes) {
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
    struct gm_event event = {.bytes = bytes,
                             .device = (int8_t)device,
                             .action = GM_ACT_POOL_SIZE,
                             .kind = (uint8_t)kind,
                             .reason = (uint8_t)(current ? current->reason : GM_REASON_NONE),
                             .verdict = (uint8_t)kind};
    if (gm_trace_is_on())
        gm_note_amount(&event);
}
