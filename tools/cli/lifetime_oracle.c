#include "tools/cli/lifetime_oracle.h"

#include <string.h>

enum gm_kind gm_oracle_decide(const struct gm_object *object, uint64_t lifetime_ns) {
    if (object->flags & GM_EVENT_CAPTURING)
        return GM_KIND_NATIVE;
    return !object->failed && gm_object_lifetime(object) < lifetime_ns ? GM_KIND_ASYNC : GM_KIND_MANAGED;
}

struct gm_async_capacity gm_oracle_capacity(const struct gm_objects *o, uint64_t fit, uint64_t headroom) {
    uint64_t live[64] = {0}, peak[64] = {0};
    struct gm_async_capacity capacity;
    for (size_t i = 0; i < o->order_count; i++) {
        const struct gm_object *object = &o->list[o->order[i] >> 1];
        unsigned device = gm_object_device(object);
        if (object->id)
            continue;
        live[device] += o->order[i] & 1 ? 0 - object->bytes : object->bytes;
        peak[device] = live[device] > peak[device] ? live[device] : peak[device];
    }
    for (unsigned d = 0; d < 64; d++) {
        uint64_t bytes = fit ? fit : o->device_bytes[d] > headroom ? o->device_bytes[d] - headroom : 0;
        capacity.bytes[d] = fit || o->device_bytes[d] ? bytes - (peak[d] < bytes ? peak[d] : bytes) : UINT64_MAX;
    }
    return capacity;
}

struct gm_oracle gm_oracle_try(const struct gm_objects *o, uint64_t lifetime_ns,
                               const struct gm_async_capacity *capacity, bool *beyond) {
    struct gm_oracle result = {.lifetime_ns = lifetime_ns};
    uint64_t async[64] = {0}, managed = 0;
    for (size_t i = 0; i < o->order_count; i++) {
        uint32_t index = o->order[i] >> 1;
        const struct gm_object *object = &o->list[index];
        bool destroyed = o->order[i] & 1;
        if (!object->id)
            continue;
        enum gm_kind kind = gm_oracle_decide(object, lifetime_ns);
        if (!destroyed) {
            result.async_count += kind == GM_KIND_ASYNC;
            result.managed_count += kind == GM_KIND_MANAGED;
            result.native_count += kind == GM_KIND_NATIVE;
        }
        if (object->failed || kind == GM_KIND_NATIVE)
            continue;
        unsigned device = gm_object_device(object);
        uint64_t *sum = kind == GM_KIND_ASYNC ? &async[device] : &managed;
        *sum += destroyed ? 0 - object->bytes : object->bytes;
        uint64_t *peak = kind == GM_KIND_ASYNC ? &result.async_peak : &result.managed_peak;
        *peak = *sum > *peak ? *sum : *peak;
        if (!destroyed && kind == GM_KIND_ASYNC && *sum > capacity->bytes[device]) {
            result.beyond++;
            if (beyond)
                beyond[index] = true;
        }
    }
    return result;
}

uint64_t gm_oracle_step(unsigned i) { return i < 10 ? 1000000000u >> (10 - i) : UINT64_C(1000000000) << (i - 10); }

int gm_oracle_fit(const struct gm_objects *o, const struct gm_async_capacity *capacity, struct gm_oracle *steps) {
    int best = -1;
    for (unsigned i = 0; i < GM_ORACLE_STEPS; i++) {
        steps[i] = gm_oracle_try(o, gm_oracle_step(i), capacity, NULL);
        if (!steps[i].beyond)
            best = (int)i;
    }
    return best;
}
