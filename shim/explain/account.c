#include "shim/explain/account.h"

#include <string.h>
#include <sys/mman.h>

#include "shim/base/events.h"
#include "shim/base/real_dl.h"
#include "shim/base/room.h"
#include "shim/accounts/stats.h"
#include "shim/resource/registry.h"
#include "shim/trace/writer.h"

/* ---- pages of the driver that small blocks share: each is counted once */

#define PAGE  ((uint64_t)2 << 20)
#define PAGES ((size_t)1 << 17) /* places of the table; of a card with more such pages the rest is ignored */

struct pages {
    uint64_t *table; /* open addressing: numbers of pages; NULL: the kernel has no memory */
    uint64_t count, bytes;
    int device;
};

static bool add_page(struct pages *pages, uint64_t number) {
    uint64_t at = number * 0x9e3779b97f4a7c15ull >> 47;
    while (pages->table[at] && pages->table[at] != number)
        at = (at + 1) % PAGES;
    bool fits = pages->table[at] || pages->count < PAGES / 4 * 3;
    pages->count += fits && !pages->table[at];
    pages->table[at] = fits ? number : 0;
    return fits;
}

/* A block of whole pages shares none with others. */
static void add_last_page(const struct gm_block *block, void *arg) {
    struct pages *pages = arg;
    uint64_t bytes = block->reserved % PAGE;
    bool native = block->kind == GM_KIND_NATIVE || block->kind == GM_KIND_CACHE;
    if (block->device == pages->device && native && block->call != GM_CALL_ALLOC_ASYNC && bytes &&
        add_page(pages, (block->address + block->reserved - 1) / PAGE))
        pages->bytes += bytes;
}

static uint64_t page_waste(struct gm_registry *registry, int device) {
    struct pages pages = {.table = gm_pages(PAGES * sizeof *pages.table), .device = device};
    if (!pages.table)
        return 0;
    gm_registry_each_record(registry, add_last_page, &pages);
    munmap(pages.table, PAGES * sizeof *pages.table);
    return pages.count * PAGE > pages.bytes ? pages.count * PAGE - pages.bytes : 0;
}

/* ---- facts */

struct gathering {
    struct gm_account_facts facts;
    uint64_t mapped;
    int device;
};

static void add_block(const struct gm_block *block, void *arg) {
    struct gathering *g = arg;
    struct gm_block first, rest;
    if (block->kind == GM_KIND_SPLIT) {
        gm_block_parts(block, &first, &rest);
        block = &first;
    }
    if (block->device != g->device || !gm_kind_is_on_device((enum gm_kind)block->kind))
        return;
    if (gm_block_is_handle(block))
        g->facts.handles += block->size - block->mapped;
    if (!gm_block_is_memory(block))
        return;
    uint64_t slack = block->reserved > block->size ? block->reserved - block->size : 0;
    bool pooled = block->kind == GM_KIND_POOL ||
                  (block->kind == GM_KIND_NATIVE && block->call == GM_CALL_ALLOC_ASYNC); /* in the default pool */
    g->facts.live += block->size;
    g->facts.slack += slack;
    g->facts.in_pools += pooled ? block->size + slack : 0;
    g->mapped += block->kind == GM_KIND_MAPPED ? block->size : 0;
}

static void gather(int device, const struct gm_card *card, struct gm_account *account, struct gm_account_facts *facts) {
    struct gm_registry *registry = gm_registry_shared();
    struct gathering g = {.device = device};
    if (registry) {
        gm_registry_each(registry, add_block, &g);
        g.facts.page_waste = page_waste(registry, device);
    }
    if (gm_stats_knows(device))
        g.facts.suspended = __atomic_load_n(&gm_stats->suspended.away_on[device], __ATOMIC_RELAXED);
    if (gm_stats_knows(device))
        g.facts.reserved = __atomic_load_n(&gm_stats->reserved_on[device], __ATOMIC_RELAXED);
    g.facts.total = card->total;
    g.facts.free = card->free;
    g.facts.own = card->own;
    g.facts.pools = card->pools;
    *account = (struct gm_account){.taken_ns = gm_now_ns(),
                                   .mapped = g.mapped,
                                   .pooled = g.facts.in_pools,
                                   .graphs = card->graphs,
                                   .pool_count = card->pool_count};
    memcpy(account->pools, card->shown, sizeof account->pools);
    *facts = g.facts;
}

bool gm_account_take(int device, struct gm_account *account) {
    struct gm_account_facts facts;
    struct gm_card card = {0};
    if (!GM_ASK(card_asked, &device, true, &card))
        return false;
    gather(device, &card, account, &facts);
    gm_account_settle(account, &facts);
    return true;
}

/* ---- a request that found no memory */

static uint64_t explained; /* a bit for each device */
GM_ZERO_IN_CHILD(explained);

bool gm_account_is_awaited(int device) { return !(__atomic_load_n(&explained, __ATOMIC_RELAXED) >> (device & 63) & 1); }

void gm_account_explained(int device) { __atomic_fetch_or(&explained, 1ull << (device & 63), __ATOMIC_RELAXED); }

/* Of one thread. */
struct moment {
    uint64_t call;    /* number of the thread's call */
    uint64_t trimmed; /* bytes that the thread had released before */
    int device;
    bool done; /* the account is settled, and the same for all who ask during the call */
    struct gm_account account;
    struct gm_account_facts facts;
};
GM_ROOM_FITS(struct moment *, moment);

static struct moment *moment_known(void) {
    struct moment **at = gm_room_part_known(GM_ROOM_MOMENT);
    return at ? *at : NULL;
}

static void drop_moment(void *pages) {
    struct moment **at = gm_room_part_known(GM_ROOM_MOMENT);
    if (at && *at == pages)
        *at = NULL;
    munmap(pages, sizeof(struct moment));
}

static struct moment *make_moment(void) {
    struct moment **at = gm_room_part(GM_ROOM_MOMENT);
    if (!at || *at)
        return at ? *at : NULL;
    struct moment *made = gm_pages(sizeof *made);
    if (made && gm_thread_at_exit(drop_moment, made)) {
        munmap(made, sizeof *made);
        return NULL;
    }
    return *at = made;
}

/* 0: the call has no number, as the thread has no counters of its own. */
static uint64_t number_of_call(void) { return gm_mine.number ? gm_stats_mine()->calls : 0; }

/* With a trace each failure has its account, at most so often; else only the one that is explained. */
#define LEAST_NS 10000000u
static bool is_wanted(void) {
    static uint64_t latest;
    int device = -1;
    if (!gm_trace_is_on())
        return GM_ASK(card_asked, &device, false, NULL) && gm_account_is_awaited(device);
    uint64_t now = gm_now_ns(), before = __atomic_load_n(&latest, __ATOMIC_RELAXED);
    return now - before >= LEAST_NS &&
           __atomic_compare_exchange_n(&latest, &before, now, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

/* The account is taken before, if somebody will want it. */
void gm_account_before_release(void) {
    struct gm_card card = {0};
    uint64_t call = number_of_call();
    int device = -1;
    struct moment *moment = moment_known();
    if (!call || (moment && moment->call == call) || !is_wanted() || !GM_ASK(card_asked, &device, false, &card) ||
        !(moment = make_moment()))
        return;
    moment->call = call;
    moment->trimmed = gm_stats_mine()->trimmed_bytes;
    moment->device = device;
    moment->done = false;
    gather(device, &card, &moment->account, &moment->facts);
}

static bool is_of(const struct moment *moment, uint64_t call, int device) {
    return moment && moment->call == call && moment->device == device;
}

bool gm_account_of_failure(int device, struct gm_account *account) {
    uint64_t call = number_of_call();
    struct gm_card now = {0};
    struct moment *moment = call ? make_moment() : NULL;
    if (!moment)
        return gm_account_take(device, account);
    if (!is_of(moment, call, device)) {
        if (!gm_account_take(device, &moment->account))
            return false;
        *moment = (struct moment){.call = call, .device = device, .done = true, .account = moment->account};
    }
    if (!moment->done) {
        uint64_t given = gm_stats_mine()->trimmed_bytes - moment->trimmed;
        if (GM_ASK(card_asked, &device, true, &now) && now.own)
            moment->facts.own = now.own + given;
        gm_account_settle(&moment->account, &moment->facts);
        uint64_t kept = moment->account.rows[GM_ACCOUNT_KEPT];
        moment->account.given = given < kept ? given : kept; /* other threads freed blocks meanwhile */
        moment->done = true;
    }
    *account = moment->account;
    return true;
}
