/* Tags are numbers of texts (select.h); what a block has is a label, a tag with an NVTX range. Call sites are known of
 * blocks that the driver made anew; a block that the cache handed out again has none, so no glob of call sites names
 * it. */
#include "shim/suspend/select.h"

#include <string.h>

#include "shim/base/events.h"
#include "shim/base/observers.h"
#include "shim/base/room.h"
#include "shim/base/wrappers.h"
#include "shim/pipeline/phase.h"
#include "shim/pipeline/pipeline.h"
#include "shim/resource/registry.h"
#include "shim/resource/suspendable_at.h"
#include "shim/sites/site.h"
#include "shim/sites/site_text.h"

enum { TAGS = 256, DEPTH = 8, TEXT = 32, SITES = 1 << 17, ANSWERS = 256 };

/* ---- tags */

static char texts[TAGS][TEXT]; /* the first is no tag */
static unsigned text_count = 1;
GM_LOCK(text_lock);
bool gm_select_tags;

struct tags {
    unsigned depth;
    uint8_t numbers[DEPTH];
    unsigned range_count;
    struct range {
        uint32_t domain, text;
    } ranges[DEPTH];
};
_Static_assert(sizeof(struct tags) <= sizeof(((struct gm_room_parts *)0)->tags), "part of the room");

/* The number of a text; 0: there are too many. */
static uint8_t number_of(const char *text) {
    char cut[TEXT];
    unsigned number = 1;
    gm_format(cut, sizeof cut, "%s", text ? text : "");
    gm_spin_lock(&text_lock);
    while (number < text_count && strcmp(texts[number], cut) != 0)
        number++;
    if (number == text_count && number < TAGS)
        strcpy(texts[text_count++], cut);
    gm_spin_unlock(&text_lock);
    return number < TAGS ? (uint8_t)number : 0;
}

/* From now on each block gets a label. */
static void observe(void) {
    if (!__atomic_exchange_n(&gm_select_tags, true, __ATOMIC_SEQ_CST))
        gm_pipeline_observe_blocks();
}

void gm_select_push(const char *tag) {
    struct tags *mine = gm_room_part(GM_ROOM_TAGS);
    observe();
    if (mine && mine->depth < DEPTH)
        mine->numbers[mine->depth] = number_of(tag);
    if (mine)
        mine->depth++;
}

bool gm_select_pop(void) {
    struct tags *mine = gm_room_part(GM_ROOM_TAGS);
    if (!mine || !mine->depth)
        return false;
    mine->depth--;
    return true;
}

/* The innermost ranges are known. */
void gm_select_begin_range(uint32_t domain, uint32_t text) {
    struct tags *mine = gm_room_part(GM_ROOM_TAGS);
    if (!mine)
        return;
    observe();
    if (mine->range_count == DEPTH)
        memmove(&mine->ranges[0], &mine->ranges[1], --mine->range_count * sizeof *mine->ranges);
    mine->ranges[mine->range_count++] = (struct range){domain, text};
}

/* Ranges of other domains may have begun later. */
void gm_select_end_range(uint32_t domain) {
    struct tags *mine = gm_room_part_known(GM_ROOM_TAGS);
    for (unsigned i = mine ? mine->range_count : 0; i-- > 0;)
        if (mine->ranges[i].domain == domain) {
            memmove(&mine->ranges[i], &mine->ranges[i + 1], (--mine->range_count - i) * sizeof *mine->ranges);
            return;
        }
}

static struct label {
    uint8_t tag;
    uint32_t range;
} labels[TAGS]; /* the first has neither */
static unsigned label_count = 1;

/* 0, too: there are too many. */
static uint8_t label_of(uint8_t tag, uint32_t range) {
    unsigned number = 0;
    gm_spin_lock(&text_lock);
    while (number < label_count && (labels[number].tag != tag || labels[number].range != range))
        number++;
    if (number == label_count && number < TAGS)
        labels[label_count++] = (struct label){tag, range};
    gm_spin_unlock(&text_lock);
    return number < TAGS ? (uint8_t)number : 0;
}

void gm_select_tag(uint64_t address) {
    const struct tags *mine = gm_room_part(GM_ROOM_TAGS);
    unsigned depth = mine ? mine->depth : 0, count = mine ? mine->range_count : 0;
    uint8_t tag = depth ? mine->numbers[(depth < DEPTH ? depth : DEPTH) - 1] : 0;
    gm_suspendable_tag(address, label_of(tag, count ? mine->ranges[count - 1].text : 0));
}

/* ---- globs */

/* The texts of few call sites are read, since each takes long. */
struct glob {
    const char *text;
    bool labels[TAGS];
    struct answer {
        uint32_t site;
        bool known, named;
    } answers[ANSWERS];
};

static bool is_named(struct glob *glob, uint32_t site) {
    struct answer *answer = &glob->answers[site % ANSWERS];
    struct gm_site_text room;
    char wide[300];
    if (!site)
        return false;
    if (!answer->known || answer->site != site) {
        gm_format(wide, sizeof wide, "*%s*", glob->text);
        *answer = (struct answer){site, true, gm_glob_matches(wide, gm_site_text(&room, site))};
    }
    return answer->named;
}

static void read_glob(struct glob *glob, const char *text) {
    char range[300];
    memset(glob, 0, sizeof *glob);
    glob->text = text && *text ? text : NULL;
    for (unsigned i = 1; glob->text && i < label_count; i++) {
        gm_phase_text_of(labels[i].range, range, sizeof range);
        glob->labels[i] = (*texts[labels[i].tag] && gm_glob_matches(glob->text, texts[labels[i].tag])) ||
                          (*range && gm_glob_matches(glob->text, range));
    }
}

static bool names(struct glob *glob, const struct gm_block *block) {
    return glob->text && (glob->labels[gm_suspendable_tag_at(block->address)] || is_named(glob, block->site));
}

/* ---- choices */

static struct glob kept, dropped, only; /* of the thread whose turn it is */
static bool sets_aside;
enum { UNSEEN = -1, FREE = -2, NOT_DROPPED = -3, KEPT = -4 };

/* A block that is free has no contents. Small ones lie beside others. */
static void see_record(const struct gm_block *block, void *unused) {
    struct gm_suspendable_range *range = gm_suspendable_range_of(gm_key_value(block->address));
    if (range && !range->slab && range->choice == UNSEEN)
        range->choice = FREE;
}

/* From now on the free of a block gives its memory back: nobody gets it again while it is set aside. False: it was
 * freed. */
static bool mark_aside(const struct gm_block *block) {
    struct gm_registry *registry = gm_registry_shared();
    struct gm_block seen;
    return gm_registry_mark(registry, block->address) && gm_registry_find(registry, block->address, &seen);
}

static bool stays(const struct gm_block *block, const struct gm_suspendable_range *range) {
    return names(&kept, block) || (only.text && !names(&only, block)) ||
           (sets_aside && (range->slab || !mark_aside(block)));
}

static void see_live(const struct gm_block *block, void *unused) {
    struct gm_suspendable_range *range = gm_suspendable_range_of(block->address);
    if (!range || range->away || !gm_block_is_memory(block))
        return;
    bool drops = names(&dropped, block);
    if (stays(block, range))
        range->choice = KEPT;
    else if (range->choice != KEPT && (!drops || range->choice == NOT_DROPPED))
        range->choice = NOT_DROPPED;
    else if (range->choice != KEPT)
        range->choice = GM_CHOICE_DROP;
}

void gm_select_out(const struct gm_suspend_wish *wish) {
    struct gm_registry *registry = gm_registry_shared();
    read_glob(&kept, wish->keep);
    read_glob(&dropped, wish->drop);
    read_glob(&only, wish->only);
    sets_aside = wish->aside;
    for (struct gm_suspendable_range *range = gm_suspendable_first(); range; range = range->next)
        range->choice = UNSEEN;
    if (registry) {
        gm_registry_each_record(registry, see_record, NULL);
        gm_registry_each(registry, see_live, NULL);
    }
    for (struct gm_suspendable_range *range = gm_suspendable_first(); range; range = range->next) {
        bool drops = range->choice == GM_CHOICE_DROP || range->choice == FREE;
        bool unnamed = (only.text || sets_aside) && (range->choice == FREE || range->choice == UNSEEN);
        range->choice = range->away || range->stays || unnamed || range->choice == KEPT ? GM_CHOICE_STAY
                        : drops                                                         ? GM_CHOICE_DROP
                                                                                        : GM_CHOICE_COPY;
    }
}

static void see_back(const struct gm_block *block, void *unused) {
    struct gm_suspendable_range *range = gm_suspendable_range_of(block->address);
    if (range && range->away && gm_block_is_memory(block) && names(&kept, block))
        range->choice = GM_CHOICE_BACK;
}

void gm_select_back(const char *glob, bool aside) {
    struct gm_registry *registry = gm_registry_shared();
    read_glob(&kept, glob);
    for (struct gm_suspendable_range *range = gm_suspendable_first(); range; range = range->next)
        range->choice = range->away && !kept.text && (aside || !range->aside) ? GM_CHOICE_BACK : GM_CHOICE_STAY;
    if (kept.text && registry)
        gm_registry_each(registry, see_back, NULL);
}

/* ---- exports. Other processes cannot open such memory by cuIpcGetMemHandle. */

static uint64_t exported_sites[SITES / 64];
GM_ZERO_IN_CHILD(exported_sites);

static bool is_exported(const struct gm_request *request) {
    uint32_t site = request->site;
    return site && site < SITES && __atomic_load_n(&exported_sites[site / 64], __ATOMIC_RELAXED) >> site % 64 & 1;
}

/* From now on the call site of each request is found before it is served. */
static void spare_sites(void) {
    if (__atomic_exchange_n(&gm_pipeline_spares, true, __ATOMIC_SEQ_CST))
        return;
    __atomic_store_n(&gm_sites_on, true, __ATOMIC_RELEASE);
    gm_pipeline_observe_blocks();
}

void gm_select_exported(uint64_t address, const char *call) {
    static int once;
    struct gm_registry *registry = gm_registry_shared();
    struct gm_block block;
    bool ours = gm_suspendable_is_ours(address);
    gm_suspendable_stay(address, "exported");
    if (!ours)
        return;
    gm_log_once(&once, GM_LOG_WARN,
                "%s names memory that GPUMEM_SUSPEND serves, which other processes cannot open: from now on blocks of "
                "its call site are native",
                call);
    if (registry && gm_registry_find_range(registry, address, &block) && block.site && block.site < SITES)
        __atomic_fetch_or(&exported_sites[block.site / 64], 1ull << block.site % 64, __ATOMIC_RELAXED);
    spare_sites();
}

/* A pool serves cudaMallocAsync far faster than pages can be mapped. */
bool gm_select_spares(const struct gm_request *request) {
    return request->call == GM_CALL_ALLOC_ASYNC || is_exported(request);
}
