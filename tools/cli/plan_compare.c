/* Measures how often the active list, which knows only the past, decides as the oracle does. */
#include "tools/cli/lifetime_oracle.h"
#include "tools/cli/number_text.h"

#include "policy/active_list.h"

#include <stdlib.h>
#include <string.h>

/* Memory for the active list's tables, reused for each pair of L and X. */
static struct {
    char *begin;
    size_t size, used;
} arena;

static void *reserve(size_t bytes) {
    bytes = (bytes + 63) & ~(size_t)63;
    if (bytes > arena.size - arena.used)
        return NULL;
    arena.used += bytes;
    return memset(arena.begin + arena.used - bytes, 0, bytes);
}

struct agreement {
    uint64_t objects, bytes;
};

static bool follow(const struct gm_objects *o, uint64_t lifetime_ns, unsigned length, unsigned range,
                   struct agreement *same) {
    struct gm_policy_setup setup = {
        .list_length = length, .list_range = range, .managed = GM_KIND_MANAGED, .reserve = reserve};
    arena.used = 0;
    *same = (struct agreement){0};
    if (gm_active_list_setup(&setup))
        return false;
    for (size_t i = 0; i < o->order_count; i++) {
        const struct gm_object *object = &o->list[o->order[i] >> 1];
        if (!object->id)
            continue;
        const struct gm_request request = gm_object_request(o, object);
        if (o->order[i] & 1) {
            gm_active_list_freed(&request);
            continue;
        }
        enum gm_reason reason;
        bool agrees = gm_active_list_allocated(&request, &reason) == gm_oracle_decide(object, lifetime_ns);
        if (object->failed)
            gm_active_list_failed(&request);
        same->objects += agrees;
        same->bytes += agrees ? object->bytes : 0;
    }
    return true;
}

bool gm_oracle_compare(FILE *out, const struct gm_objects *o, uint64_t lifetime_ns) {
    static const unsigned lengths[] = {3, 5, 10, 20, 40}, ranges[] = {1, 2, 3, 5, 8, 13, 20};
    struct gm_text time, objects, sum;
    struct agreement same;
    uint64_t bytes = 0;
    bool done = true;
    for (size_t i = 0; i < o->count; i++)
        bytes += o->list[i].id ? o->list[i].bytes : 0;
    arena.size = (size_t)96 << 20;
    arena.begin = malloc(arena.size);
    if (!arena.begin)
        return false;
    fprintf(out, "active list against lifetime N %s: the same decision\n%4s %4s %10s %10s\n",
            gm_text_time(&time, lifetime_ns), "L", "X", "objects", "bytes");
    for (size_t l = 0; done && l < sizeof lengths / sizeof *lengths; l++)
        for (size_t x = 0; done && x < sizeof ranges / sizeof *ranges && ranges[x] < lengths[l]; x++) {
            done = follow(o, lifetime_ns, lengths[l], ranges[x], &same);
            if (done)
                fprintf(out, "%4u %4u %10s %10s\n", lengths[l], ranges[x],
                        gm_text_percent(&objects, same.objects, o->movable), gm_text_percent(&sum, same.bytes, bytes));
        }
    free(arena.begin);
    return done;
}
