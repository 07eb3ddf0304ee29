/* Expresses the oracle's decisions as few rules of the policy static.
 *
 * The method splits objects by call site: by the first frame, then, where the objects of one frame have different
 * decisions, by its callers in turn. Where callers do not separate them, sizes do: objects sorted by size form runs of
 * equal decisions. Each site keeps at most RUNS runs; the cheapest runs join their neighbours. The last rule holds for
 * all other objects and states the decision of most objects. */
#include "tools/cli/lifetime_oracle.h"
#include "tools/cli/sort.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { RUNS = 4, DEPTH = 4 /* conditions on call sites in one rule */ };

struct item {
    uint64_t bytes;
    uint32_t site;
    uint8_t kind;
};

/* Objects of one size range, counted by the oracle's decision. */
struct run {
    uint64_t low, high, async, managed;
};

struct rule_builder {
    FILE *out;
    const struct gm_objects *o;
    enum gm_kind rest; /* the decision of the last rule */
    unsigned rules;
    uint64_t same; /* objects for which the rules decide as the oracle */
    bool failed;
};

static __thread const struct gm_objects *sorting;
static __thread unsigned sorting_depth;

static uint64_t frame_of(const struct gm_objects *o, uint32_t site, unsigned depth) {
    const struct gm_site_keys *keys = &o->sites[site].keys;
    return depth < keys->count ? keys->frames[depth] : 0;
}

static int by_frame(const void *x, const void *y) {
    const struct item *a = x, *b = y;
    uint64_t f = frame_of(sorting, a->site, sorting_depth), g = frame_of(sorting, b->site, sorting_depth);
    if (f != g)
        return f < g ? -1 : 1;
    return a->bytes < b->bytes ? -1 : a->bytes > b->bytes;
}

static int by_size(const void *x, const void *y) {
    const struct item *a = x, *b = y;
    return a->bytes < b->bytes ? -1 : a->bytes > b->bytes;
}

static enum gm_kind majority(const struct run *run) {
    return run->async >= run->managed ? GM_KIND_ASYNC : GM_KIND_MANAGED;
}

static uint64_t right(const struct run *run, enum gm_kind kind) {
    return kind == GM_KIND_ASYNC ? run->async : run->managed;
}

/* ---- runs of sizes */

static void join(struct run *a, const struct run *b) {
    a->high = b->high;
    a->async += b->async;
    a->managed += b->managed;
}

static size_t join_equals(struct run *runs, size_t count) {
    size_t last = 0;
    for (size_t i = 1; i < count; i++) {
        if (majority(&runs[i]) == majority(&runs[last]))
            join(&runs[last], &runs[i]);
        else
            runs[++last] = runs[i];
    }
    return count ? last + 1 : 0;
}

/* Merges the run whose change of decision affects the fewest objects into a neighbour. */
static size_t drop_cheapest(struct run *runs, size_t count) {
    size_t cheapest = 0;
    uint64_t least = UINT64_MAX;
    for (size_t i = 0; i < count; i++) {
        uint64_t a = runs[i].async, m = runs[i].managed, cost = a > m ? a - m : m - a;
        if (cost < least) {
            least = cost;
            cheapest = i;
        }
    }
    size_t into = cheapest ? cheapest - 1 : 0;
    join(&runs[into], &runs[into + 1]);
    memmove(&runs[into + 1], &runs[into + 2], (count - into - 2) * sizeof *runs);
    return join_equals(runs, count - 1);
}

static size_t runs_of(struct item *items, size_t count, struct run *runs) {
    size_t n = 0;
    gm_sort(items, count, sizeof *items, by_size);
    for (size_t i = 0; i < count; i++) {
        if (!n || runs[n - 1].high != items[i].bytes)
            runs[n++] = (struct run){.low = items[i].bytes, .high = items[i].bytes};
        if (items[i].kind == GM_KIND_ASYNC)
            runs[n - 1].async++;
        else
            runs[n - 1].managed++;
    }
    n = join_equals(runs, n);
    while (n > RUNS)
        n = drop_cheapest(runs, n);
    return n;
}

/* ---- writing */

static void write_site(const struct rule_builder *d, uint32_t site, unsigned depth) {
    const char *text = d->o->sites[site].text;
    for (unsigned i = 0; i < depth && *text; i++) {
        size_t length = strcspn(text, "<");
        fprintf(d->out, "%ssite=%.*s", i ? "," : "", (int)length, text);
        text += length + (text[length] == '<');
    }
}

static void write_rule(struct rule_builder *d, uint32_t site, unsigned depth, const struct run *run, bool sized) {
    enum gm_kind kind = majority(run);
    d->same += right(run, kind);
    if (kind == d->rest && !sized)
        return;
    write_site(d, site, depth);
    if (sized)
        fprintf(d->out, "%ssize=%" PRIu64 "..%" PRIu64, depth ? "," : "", run->low, run->high);
    fprintf(d->out, "->%s # %" PRIu64 " objects\n", gm_kind_name(kind), run->async + run->managed);
    d->rules++;
}

static bool callers_differ(const struct gm_objects *o, const struct item *items, size_t count, unsigned depth) {
    for (size_t i = 1; i < count; i++)
        if (frame_of(o, items[i].site, depth) != frame_of(o, items[0].site, depth))
            return true;
    return false;
}

static bool is_mixed(const struct run *runs, size_t count) {
    uint64_t wrong = 0, all = 0;
    for (size_t i = 0; i < count; i++) {
        wrong += runs[i].async < runs[i].managed ? runs[i].async : runs[i].managed;
        all += runs[i].async + runs[i].managed;
    }
    return wrong * 100 > all;
}

static void distil(struct rule_builder *d, struct item *items, size_t count, unsigned depth);

/* Writes rules for the items, which share their first `depth` frames. */
static void write_rules(struct rule_builder *d, struct item *items, size_t count, unsigned depth) {
    struct run *runs = malloc(count * sizeof *runs);
    if (!runs) {
        d->failed = true;
        return;
    }
    size_t n = runs_of(items, count, runs);
    bool mixed = n > 1 || is_mixed(runs, n);
    if (mixed && depth && depth < DEPTH && frame_of(d->o, items[0].site, 0)) {
        unsigned deeper = depth;
        while (deeper < DEPTH && !callers_differ(d->o, items, count, deeper))
            deeper++;
        if (deeper < DEPTH) {
            free(runs);
            distil(d, items, count, deeper);
            return;
        }
    }
    if (frame_of(d->o, items[0].site, 0) || n == 1) {
        for (size_t i = 0; i < n; i++)
            write_rule(d, items[0].site, depth, &runs[i], n > 1);
    } else {
        /* The call site is unknown. Rules on sizes alone would also match other sites, so the last rule decides. */
        for (size_t i = 0; i < n; i++)
            d->same += right(&runs[i], d->rest);
    }
    free(runs);
}

static void distil(struct rule_builder *d, struct item *items, size_t count, unsigned depth) {
    sorting = d->o;
    sorting_depth = depth;
    gm_sort(items, count, sizeof *items, by_frame);
    for (size_t i = 0, end; i < count && !d->failed; i = end) {
        uint64_t frame = frame_of(d->o, items[i].site, depth);
        for (end = i + 1; end < count && frame_of(d->o, items[end].site, depth) == frame; end++)
            ;
        write_rules(d, items + i, end - i, frame ? depth + 1 : depth);
    }
}

uint64_t gm_oracle_rules(FILE *out, const struct gm_objects *o, uint64_t lifetime_ns, unsigned *rules) {
    struct item *items = malloc((o->movable + 1ull) * sizeof *items);
    struct rule_builder d = {.out = out, .o = o};
    uint64_t native = 0, async = 0;
    size_t count = 0;
    if (!items)
        return UINT64_MAX;
    for (size_t i = 0; i < o->count; i++) {
        if (!o->list[i].id)
            continue;
        enum gm_kind kind = gm_oracle_decide(&o->list[i], lifetime_ns);
        native += kind == GM_KIND_NATIVE;
        async += kind == GM_KIND_ASYNC;
        if (kind != GM_KIND_NATIVE)
            items[count++] = (struct item){o->list[i].bytes, o->list[i].site, (uint8_t)kind};
    }
    d.rest = 2 * async >= count ? GM_KIND_ASYNC : GM_KIND_MANAGED;
    fputs("# for GPUMEM_POLICY=static:@FILE; the first rule that matches decides\n", out);
    if (count)
        distil(&d, items, count, 0);
    fprintf(out, "*->%s\n", gm_kind_name(d.rest));
    *rules = d.rules + 1;
    free(items);
    return d.failed ? UINT64_MAX : d.same + native;
}
