/* Policy plan: the profile scheme of hybrid-allocation-he, III.C. The decisions are made beforehand, from the trace
 * of an earlier run.
 *
 * In the paper, object n takes its decision from position n of the list. Here each entry also has a size and a call
 * site. The k-th request of a site and size takes the decision of the k-th entry of that site and size. In an
 * unchanged order this is entry n. When threads or timing changed the order, it still is the entry that was made for
 * this object.
 *
 * When the plan has no entry for the site and size, for instance after the program was rebuilt, the request takes
 * the entry of its own number, provided that the size agrees. All other requests are decided by the active list. It
 * counts every request, so its live counts are right. */
#include "policy/active_list.h"
#include "policy/plan_text.h"
#include "policy/setup.h"
#include "policy/site_key.h"

#include <stdatomic.h>
#include <string.h>

struct entry {
    uint64_t size;
    uint32_t id;
    uint32_t group; /* 0 = no site */
    uint8_t kind;
    bool has_size;
};

/* The entries of one call site and size, in the order of their ids. */
struct group {
    uint64_t key, size;
    uint32_t first, count; /* range in members[] */
    _Atomic uint32_t seen; /* requests so far */
};

static struct {
    struct entry *entries;
    uint32_t entry_count;
    struct group *groups; /* [1 .. group_count] */
    uint32_t group_count;
    uint32_t *members; /* indices of entries, ordered by group */
    uint32_t *table;   /* open addressing: groups */
    uint64_t mask;
    _Atomic uint64_t by_order, by_site, unmatched;
} plan;

/* ---- groups */

static uint64_t hash_of_site(uint64_t key, uint64_t size) {
    uint64_t hash = (key ^ size * 0x9e3779b97f4a7c15ull) * 0xff51afd7ed558ccdull;
    return hash ^ hash >> 32;
}

/* The slot of a group in the table. It holds the group's number, or 0. */
static uint32_t *slot_of_group(uint64_t key, uint64_t size) {
    for (uint64_t at = hash_of_site(key, size) & plan.mask;; at = (at + 1) & plan.mask) {
        uint32_t group = plan.table[at];
        if (!group || (plan.groups[group].key == key && plan.groups[group].size == size))
            return &plan.table[at];
    }
}

static uint32_t find_or_add(uint64_t key, uint64_t size) {
    uint32_t *slot = slot_of_group(key, size);
    if (!*slot) {
        *slot = ++plan.group_count;
        plan.groups[*slot].key = key;
        plan.groups[*slot].size = size;
    }
    return *slot;
}

/* ---- loading */

struct text {
    const char *file, *bytes;
    size_t length;
    enum gm_kind managed;
};

static gm_status count_items(struct gm_policy_setup *setup, const struct text *text, uint32_t *objects,
                             uint32_t *sites) {
    struct gm_plan_reader reader;
    char room[GM_DIGITS];
    gm_plan_open(&reader, text->bytes, text->length, text->managed);
    *objects = 0;
    for (;;) {
        struct gm_plan_item item = gm_plan_next(&reader);
        if (item.type == GM_PLAN_WRONG)
            return gm_setup_error(setup, text->file, " line ", gm_setup_digits(room, reader.line), ": ", reader.error);
        if (item.type == GM_PLAN_END)
            break;
        *objects += item.type == GM_PLAN_OBJECT;
    }
    *sites = reader.sites;
    return *objects ? GM_OK : gm_setup_error(setup, text->file, ": the plan has no object");
}

static bool reserve_tables(struct gm_policy_setup *setup, uint32_t objects, uint32_t sites, uint64_t **keys) {
    uint64_t slots = 1024;
    while (slots < 2 * (uint64_t)objects)
        slots *= 2;
    plan.mask = slots - 1;
    plan.entries = setup->reserve(objects * sizeof *plan.entries);
    plan.groups = plan.entries ? setup->reserve((objects + 1ull) * sizeof *plan.groups) : NULL;
    plan.members = plan.groups ? setup->reserve(objects * sizeof *plan.members) : NULL;
    plan.table = plan.members ? setup->reserve(slots * sizeof *plan.table) : NULL;
    *keys = plan.table ? setup->reserve((sites + 1ull) * sizeof **keys) : NULL;
    plan.entry_count = plan.group_count = 0;
    return *keys != NULL;
}

static void add_entry(const struct gm_plan_item *item, const uint64_t *keys) {
    uint64_t key = item->site ? keys[item->site] : item->key;
    struct entry *entry = &plan.entries[plan.entry_count++];
    *entry =
        (struct entry){.size = item->size, .id = item->id, .kind = (uint8_t)item->kind, .has_size = item->has_size};
    if (!key || !item->has_size)
        return;
    entry->group = find_or_add(key, item->size);
    plan.groups[entry->group].count++;
}

static void fill_groups(void) {
    uint32_t first = 0;
    for (uint32_t g = 1; g <= plan.group_count; g++) {
        plan.groups[g].first = first;
        first += plan.groups[g].count;
        plan.groups[g].count = 0;
    }
    for (uint32_t i = 0; i < plan.entry_count; i++) {
        struct group *group = &plan.groups[plan.entries[i].group];
        if (plan.entries[i].group)
            plan.members[group->first + group->count++] = i;
    }
}

static void fill_tables(const struct text *text, uint64_t *keys, uint32_t objects) {
    struct gm_plan_reader reader;
    gm_plan_open(&reader, text->bytes, text->length, text->managed);
    for (;;) {
        struct gm_plan_item item = gm_plan_next(&reader);
        if (item.type == GM_PLAN_SITE)
            keys[item.id] = item.key;
        else if (item.type == GM_PLAN_OBJECT && plan.entry_count < objects)
            add_entry(&item, keys);
        else
            break;
    }
    fill_groups();
}

static void count_from_zero(void) { plan.by_order = plan.by_site = plan.unmatched = 0; }

static gm_status build_tables(struct gm_policy_setup *setup, const struct text *text) {
    uint32_t objects, sites = 0;
    uint64_t *keys;
    gm_status status = count_items(setup, text, &objects, &sites);
    if (status)
        return status;
    if (!reserve_tables(setup, objects, sites, &keys)) {
        gm_setup_error(setup, text->file, ": no memory for a plan of this size");
        return GM_OUT_OF_MEMORY;
    }
    fill_tables(text, keys, objects);
    count_from_zero();
    return GM_OK;
}

static gm_status setup_plan(struct gm_policy_setup *setup) {
    struct text text = {.file = setup->argument, .managed = setup->managed};
    const char *why = "files cannot be read here";
    if (!text.file || !*text.file)
        return gm_setup_error(setup, "policy plan needs a plan file: plan:FILE");
    if (setup->load)
        text.bytes = setup->load(text.file, &text.length, &why);
    if (!text.bytes)
        return gm_setup_error(setup, text.file, ": ", why);
    gm_status status = build_tables(setup, &text);
    setup->unload(text.bytes, text.length);
    if (status)
        return status;
    setup->wants |= GM_WANT_OBJECT | GM_WANT_SITE;
    return gm_active_list_setup(setup);
}

/* ---- deciding */

static const struct entry *entry_of_object(uint64_t id) {
    uint32_t low = 0, high = plan.entry_count;
    if (id - 1 < high && plan.entries[id - 1].id == id) /* no line was removed from the plan */
        return &plan.entries[id - 1];
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (plan.entries[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < plan.entry_count && plan.entries[low].id == id ? &plan.entries[low] : NULL;
}

static const struct entry *match(const struct gm_request *request, enum gm_reason *reason) {
    uint64_t key = request->where ? request->where->chain : 0;
    uint32_t number = key ? *slot_of_group(key, request->size) : 0;
    const struct entry *entry;
    if (number) {
        struct group *group = &plan.groups[number];
        uint32_t before = atomic_fetch_add_explicit(&group->seen, 1, memory_order_relaxed);
        if (before >= group->count)
            return NULL;
        entry = &plan.entries[plan.members[group->first + before]];
        *reason = entry->id == request->object ? GM_REASON_PLAN : GM_REASON_PLAN_SITE;
        return entry;
    }
    entry = entry_of_object(request->object);
    *reason = GM_REASON_PLAN;
    return entry && (!entry->has_size || entry->size == request->size) ? entry : NULL;
}

static void count_match(_Atomic uint64_t *counter) { atomic_fetch_add_explicit(counter, 1, memory_order_relaxed); }

static void plan_decide(const struct gm_request *request, struct gm_decision *decision) {
    enum gm_reason reason, list_reason;
    enum gm_kind kind = gm_active_list_allocated(request, &list_reason);
    const struct entry *entry = request->object ? match(request, &reason) : NULL;
    if (request->object)
        count_match(!entry ? &plan.unmatched : reason == GM_REASON_PLAN ? &plan.by_order : &plan.by_site);
    if (entry)
        kind = (enum gm_kind)entry->kind;
    gm_decide_kind(request, kind, entry ? reason : list_reason, decision);
    decision->counted = true;
}

static void after_fork(void) {
    gm_active_list_after_fork();
    for (uint32_t g = 1; g <= plan.group_count; g++)
        atomic_store_explicit(&plan.groups[g].seen, 0, memory_order_relaxed);
    count_from_zero();
}

static bool ended(char *line, size_t size) {
    char order[GM_DIGITS], site[GM_DIGITS], none[GM_DIGITS], entries[GM_DIGITS];
    gm_setup_text(line, size,
                  GM_WORDS("plan: matched by order ", gm_setup_digits(order, atomic_load(&plan.by_order)),
                           ", by call site ", gm_setup_digits(site, atomic_load(&plan.by_site)), ", not in the plan ",
                           gm_setup_digits(none, atomic_load(&plan.unmatched)), "; objects in the plan ",
                           gm_setup_digits(entries, plan.entry_count)));
    return true;
}

const struct gm_policy gm_policy_plan = {
    .name = "plan",
    .summary = "Serve each object as a plan says that gpumem plan made from an earlier trace. The active list decides "
               "objects that are not in the plan.",
    .takes_argument = true,
    .setup = setup_plan,
    .decide = plan_decide,
    .failed = gm_active_list_failed,
    .freed = gm_active_list_freed,
    .after_fork = after_fork,
    .ended = ended,
};
