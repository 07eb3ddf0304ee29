/* The texts of explain.h. The work for one text lies in pages from the kernel: the thread's stack may be small, and the
 * heap may belong to the program's own allocator, which called us. */
#include "shim/explain/explain.h"

#include <string.h>
#include <sys/mman.h>

#include "shim/accounts/limit.h"
#include "shim/accounts/share.h"
#include "shim/accounts/stats.h"
#include "shim/explain/account.h"
#include "shim/explain/account_text.h"
#include "shim/explain/explained.h"
#include "shim/explain/freed.h"
#include "shim/explain/holders.h"
#include "shim/resource/registry.h"
#include "shim/sites/site.h"
#include "shim/sites/site_text.h"
#include "shim/placement/router.h"

/* Causes that are explained once, and the words for them in the last line. */
enum cause {
    LIMIT,
    CARD,
    CAPTURE,
    HOST,
    FAILURES,
    DOUBLE_FREE = FAILURES,
    INTERIOR_FREE,
    FOREIGN_FREE,
    OTHER_CALL,
    CAUSES
};
static const char *const words[CAUSES] = {
    [LIMIT] = "beyond GPUMEM_LIMIT",   [CARD] = "card full",
    [CAPTURE] = "in a capture",        [HOST] = "host memory",
    [DOUBLE_FREE] = "freed twice",     [INTERIOR_FREE] = "inside a block",
    [FOREIGN_FREE] = "no block there", [OTHER_CALL] = "by the wrong call",
};
static uint64_t counts[CAUSES];
static uint64_t explained[CAUSES]; /* a bit for each device */
static uint64_t moves_explained[GM_KIND_COUNT];
GM_ZERO_IN_CHILD(counts);
GM_ZERO_IN_CHILD(explained);
GM_ZERO_IN_CHILD(moves_explained);

/* True the first time for the device. */
static bool is_first_on_device(uint64_t *seen, int device) {
    uint64_t bit = 1ull << (device & 63);
    return !(__atomic_load_n(seen, __ATOMIC_RELAXED) & bit) && !(__atomic_fetch_or(seen, bit, __ATOMIC_RELAXED) & bit);
}

static bool is_first_of(enum cause cause, int device) {
    __atomic_add_fetch(&counts[cause], 1, __ATOMIC_RELAXED);
    return is_first_on_device(&explained[cause], device);
}

/* ---- out of memory */

struct work {
    struct gm_log_lines lines;
    const struct gm_request *request;
    enum cause cause;
    bool known; /* the account is */
    struct gm_account account;
    struct gm_holders holders;
    struct gm_site_text site;
    uintptr_t frames[GM_SITE_NAMED];
    struct gm_size_text size[3];
    char text[12288];
};

#define SIZE(i, bytes) gm_size_text(&w->size[i], bytes)

static enum cause cause_of(const struct gm_request *request, enum gm_kind kind, bool exceeds_limit) {
    if (kind == GM_KIND_HOST)
        return HOST;
    if (request->capturing)
        return CAPTURE;
    return exceeds_limit ? LIMIT : CARD;
}

static void add_head(struct work *w) {
    const struct gm_request *request = w->request;
    const char *call = gm_call_name(request->call), *bytes = SIZE(0, request->size);
    switch (w->cause) {
    case LIMIT:
        if (gm_limit_now(request->device))
            gm_log_add(&w->lines, "out of memory: %s of %s on device %d exceeds GPUMEM_LIMIT=%s", call, bytes,
                       request->device, SIZE(1, gm_limit_now(request->device)));
        else
            gm_log_add(&w->lines, "out of memory: %s of %s on device %d: this process could not join its GPUMEM_GROUP",
                       call, bytes, request->device);
        return;
    case CAPTURE:
        gm_log_add(&w->lines,
                   "out of memory: %s of %s on device %d, in a capture, where no step of GPUMEM_OOM is possible", call,
                   bytes, request->device);
        return;
    case HOST: gm_log_add(&w->lines, "out of memory: %s of %s of host memory", call, bytes); return;
    default: gm_log_add(&w->lines, "out of memory: %s of %s on device %d", call, bytes, request->device);
    }
}

/* Without a trace the stack is walked now. */
static void add_site(struct work *w) {
    uint32_t site = w->request->site;
    unsigned count = site ? gm_site_named(site, w->frames) : gm_site_named_here(w->frames);
    gm_log_add(&w->lines, "  requested by  %s", gm_frames_text(&w->site, w->frames, count ? 1 : 0));
    for (unsigned i = 1; i < count; i++)
        gm_log_add(&w->lines, "                %s", gm_frames_text(&w->site, &w->frames[i], 1));
}

/* Frames that all holders share tell nothing. */
static const char *holder_text(struct work *w, const struct gm_holder *row) {
    gm_site_named(row->site, w->frames);
    return gm_frames_text(&w->site, w->frames + w->holders.common, row->shared);
}

static const char *blocks_of(uint64_t count) { return count == 1 ? "block" : "blocks"; }

static void add_live(struct work *w) {
    gm_log_add(&w->lines, "  live          %s in %lu %s", SIZE(0, w->holders.bytes), (unsigned long)w->holders.count,
               blocks_of(w->holders.count));
}

/* The other members of GPUMEM_SHARE that have memory of the card, and did not leave it. */
static void add_members(struct work *w) {
    enum { SHOWN = 4 };
    struct gm_share_holder members[SHOWN];
    unsigned count = gm_share_holders(w->request->device, members, SHOWN);
    for (unsigned i = 0; i < count && i < SHOWN; i++)
        gm_log_add(&w->lines, "  %s process %d has %s%s", i ? "             " : "shared with  ", members[i].pid,
                   SIZE(0, members[i].holds), members[i].waits ? ", and waits" : "");
}

static void add_card(struct work *w) {
    if (w->known) {
        gm_account_log(&w->lines, &w->account, w->holders.count);
    } else {
        add_live(w);
        gm_log_add(&w->lines, "  card          not known: a stream captures, or the driver did not answer");
    }
    if (w->cause == LIMIT && gm_limit_now(w->request->device))
        gm_log_add(&w->lines, "  limit         %s, of which %s are in use", SIZE(0, gm_limit_now(w->request->device)),
                   SIZE(1, gm_limit_live(w->request->device)));
    else if (w->cause == CARD && w->known)
        gm_log_add(&w->lines, "  why           %s", gm_account_reason(&w->account, w->request->size));
    if (w->cause == CARD)
        add_members(w);
}

/* While call sites are looked up, only a block that was reused has none. */
static void add_siteless(struct work *w, const char *label, const struct gm_holder *row) {
    const char *reused = gm_sites_are_on() || gm_sites_are_of_new() ? ", reused" : "";
    const char *kind = gm_kind_name((enum gm_kind)row->kind), *blocks = blocks_of(row->count);
    if (row->size == row->most)
        gm_log_add(&w->lines, "  %s%s in %lu %s of %s, %s%s", label, SIZE(0, row->bytes), (unsigned long)row->count,
                   blocks, SIZE(1, row->size), kind, reused);
    else
        gm_log_add(&w->lines, "  %s%s in %lu %s of %s to %s, %s%s", label, SIZE(0, row->bytes),
                   (unsigned long)row->count, blocks, SIZE(1, row->size), SIZE(2, row->most), kind, reused);
}

static void add_holders(struct work *w) {
    for (unsigned i = 0; i < GM_HOLDERS && w->holders.most[i].count; i++) {
        const struct gm_holder *row = &w->holders.most[i];
        const char *label = i ? "              " : "held by       ";
        if (row->site)
            gm_log_add(&w->lines, "  %s%s in %lu %s: %s", label, SIZE(0, row->bytes), (unsigned long)row->count,
                       blocks_of(row->count), holder_text(w, row));
        else
            add_siteless(w, label, row);
    }
}

/* Memory of any free granules can be mapped as one block, so the free bytes bound its size. */
static void add_largest(struct work *w) {
    const uint64_t granule = 2 << 20;
    const uint64_t *rows = w->account.rows;
    uint64_t room = w->known ? rows[GM_ACCOUNT_FREE] + rows[GM_ACCOUNT_KEPT] : UINT64_MAX;
    uint64_t used = gm_limit_live(w->request->device), limit = gm_limit_now(w->request->device);
    uint64_t below = limit > used ? limit - used : 0;
    if (gm_limit_on() && below < room)
        room = below;
    if (room != UINT64_MAX)
        gm_log_add(&w->lines, "  largest       %s at most can still be mapped in one piece",
                   SIZE(0, room / granule * granule));
}

static void add_advice(struct work *w) {
    const struct gm_oom_chain *steps = gm_router_steps();
    const char *higher = w->cause == LIMIT && gm_limit_now(w->request->device) ? "a higher GPUMEM_LIMIT, or " : "";
    const struct gm_oom_text text = gm_oom_text(steps);
    const char *now = text.text;
    if (w->cause == CAPTURE)
        gm_log_add(&w->lines, "  try           to allocate before the capture begins");
    else if (w->known && w->request->size > w->account.total)
        gm_log_add(&w->lines, "  try           a smaller request: the whole card has %s", SIZE(0, w->account.total));
    else if (!gm_call_is_movable(w->request))
        gm_log_add(&w->lines, "  try           %sto free some of the above; GPUMEM_OOM=%s does not move a %s", higher,
                   now, gm_call_name(w->request->call));
    else if (!gm_oom_has(steps, GM_OOM_HOST))
        gm_log_add(&w->lines,
                   "  try           %sgpumem run --oom=trim,host,fail in place of %s: host memory, many times slower",
                   higher, now);
    else if (!gm_oom_has(steps, GM_OOM_MANAGED))
        gm_log_add(&w->lines,
                   "  try           %sgpumem run --oom=trim,host,managed,fail in place of %s, which could not serve "
                   "(GPUMEM_LOG=info says why)",
                   higher, now);
    else
        gm_log_add(&w->lines, "  try           %sto free some of the above: no step of GPUMEM_OOM=%s could serve",
                   higher, now);
}

static void add_all(struct work *w) {
    add_head(w);
    add_site(w);
    if (w->cause == HOST)
        add_live(w);
    else
        add_card(w);
    add_holders(w);
    if (w->cause != HOST) {
        add_largest(w);
        add_advice(w);
    }
}

static GM_RARE void explain_failure(const struct gm_request *request, enum cause cause) {
    struct work *w = gm_pages(sizeof *w);
    if (!w) {
        gm_log(GM_LOG_WARN, "out of memory: %s of %zu bytes, and no memory to say more", gm_call_name(request->call),
               request->size);
        return;
    }
    w->lines = (struct gm_log_lines){w->text, sizeof w->text, 0};
    w->request = request;
    w->cause = cause;
    w->known = cause != HOST && request->context && gm_account_of_failure(request->device, &w->account);
    if (cause == CARD)
        gm_account_explained(request->device);
    gm_holders_find(&w->holders, request->device, cause == HOST, request->site);
    add_all(w);
    gm_log_lines(GM_LOG_WARN, &w->lines);
    munmap(w, sizeof *w);
}

void gm_explain_failure(const struct gm_request *request, enum gm_kind kind, bool exceeds_limit) {
    enum cause cause = cause_of(request, kind, exceeds_limit);
    if (is_first_of(cause, request->device))
        explain_failure(request, cause);
}

/* ---- memory of another kind */

static GM_RARE void explain_split(const struct gm_request *request, const struct gm_block *block) {
    struct gm_size_text size, on_device, in_host;
    struct gm_block device, host;
    gm_block_parts(block, &device, &host);
    gm_log(GM_LOG_WARN,
           "device %d has no room: %s of %s is split: its first %s are on the card, the rest of %s is in host memory, "
           "many times slower than the card's; what follows it may be split or served elsewhere, too (GPUMEM_OOM=%s)",
           request->device, gm_call_name(request->call), gm_size_text(&size, block->size),
           gm_size_text(&on_device, device.size), gm_size_text(&in_host, host.size),
           gm_oom_text(gm_router_steps()).text);
}

static GM_RARE void explain_move(const struct gm_request *request, enum gm_kind kind, bool exceeds_limit) {
    struct gm_size_text size, limit;
    const char *where = kind == GM_KIND_HOST_NUMA ? "host memory, many times slower than the card's"
                                                  : "managed memory, slow where it does not fit the card";
    gm_log(GM_LOG_WARN, "device %d has no room%s%s: %s of %s, and what follows it, is served from %s (GPUMEM_OOM=%s)",
           request->device, exceeds_limit ? " below GPUMEM_LIMIT=" : "",
           exceeds_limit ? gm_size_text(&limit, gm_limit_now(request->device)) : "", gm_call_name(request->call),
           gm_size_text(&size, request->size), where, gm_oom_text(gm_router_steps()).text);
}

void gm_explain_move(const struct gm_request *request, const struct gm_block *block, bool exceeds_limit) {
    if (!is_first_on_device(&moves_explained[block->kind], request->device))
        return;
    if (block->kind == GM_KIND_SPLIT)
        explain_split(request, block);
    else
        explain_move(request, (enum gm_kind)block->kind, exceeds_limit);
}

/* ---- wrong frees */

struct wrong_free {
    struct gm_log_lines lines;
    uint64_t address;
    struct gm_block inside; /* the live block that contains the address; size 0: none */
    struct gm_freed before;
    struct gm_site_text site;
    struct gm_size_text size;
    char text[4096];
};

static void note_block_around(const struct gm_block *block, void *arg) {
    struct wrong_free *w = arg;
    if (gm_block_is_memory(block) && w->address - block->address < block->size)
        w->inside = *block;
}

/* `allocated_at`, `freed_at`: call sites of the block; 0: none. */
static void end_wrong_free(struct wrong_free *w, const struct gm_request *request, uint64_t bytes,
                           uint32_t allocated_at, uint32_t freed_at) {
    struct gm_explained found = {.error = GM_ERROR_WRONG_FREE,
                                 .site = request->site,
                                 .address = w->address,
                                 .bytes = bytes,
                                 .device = request->device,
                                 .allocated_at = allocated_at,
                                 .freed_at = freed_at};
    gm_log_lines(GM_LOG_WARN, &w->lines);
    gm_explained_note(&found, &w->lines, NULL);
}

static GM_RARE void explain_wrong_free(const struct gm_request *request, struct wrong_free *w, enum cause cause) {
    const char *call = gm_call_name(request->call);
    void *address = (void *)(uintptr_t)w->address;
    w->lines = (struct gm_log_lines){w->text, sizeof w->text, 0};
    if (cause == DOUBLE_FREE)
        gm_log_add(&w->lines, "%s of %p, which was freed before: a block of %s", call, address,
                   gm_size_text(&w->size, w->before.size));
    else if (cause == INTERIOR_FREE)
        gm_log_add(&w->lines, "%s of %p, which lies %lu bytes inside a live block of %s", call, address,
                   (unsigned long)(w->address - w->inside.address), gm_size_text(&w->size, w->inside.size));
    else
        gm_log_add(&w->lines, "%s of %p, where no block is or was", call, address);
    if (cause != FOREIGN_FREE)
        gm_log_add(&w->lines, "  allocated by  %s",
                   gm_site_text(&w->site, cause == DOUBLE_FREE ? w->before.allocated_at : w->inside.site));
    if (cause == DOUBLE_FREE)
        gm_log_add(&w->lines, "  first freed   by %s", gm_site_text(&w->site, w->before.freed_at));
    gm_log_add(&w->lines, "  this free     by %s", gm_site_text(&w->site, request->site));
    if (cause == DOUBLE_FREE)
        end_wrong_free(w, request, w->before.size, w->before.allocated_at, w->before.freed_at);
    else
        end_wrong_free(w, request, w->inside.size, w->inside.site, 0);
}

/* Only the first frees of unknown addresses are searched in the registry, which may be large. */
static struct gm_block *find_around(struct wrong_free *w) {
    enum { SEARCHES = 16 };
    static unsigned searches;
    struct gm_registry *registry = gm_registry_shared();
    if (registry && __atomic_load_n(&searches, __ATOMIC_RELAXED) < SEARCHES) {
        __atomic_add_fetch(&searches, 1, __ATOMIC_RELAXED);
        gm_registry_each(registry, note_block_around, w);
    }
    return w->inside.size ? &w->inside : NULL;
}

void gm_explain_wrong_free(const struct gm_request *request, uint64_t address) {
    struct gm_freed before;
    bool twice = gm_freed_find(address, &before);
    if (twice && !is_first_of(DOUBLE_FREE, 0))
        return;
    struct wrong_free *w = gm_pages(sizeof *w);
    if (!w)
        return;
    w->address = address;
    w->before = before;
    enum cause cause = twice ? DOUBLE_FREE : find_around(w) ? INTERIOR_FREE : FOREIGN_FREE;
    if (twice || is_first_of(cause, 0))
        explain_wrong_free(request, w, cause);
    munmap(w, sizeof *w);
}

void gm_explain_wrong_call(const struct gm_request *request, const struct gm_block *block) {
    struct wrong_free *w = is_first_of(OTHER_CALL, 0) ? gm_pages(sizeof *w) : NULL;
    if (!w)
        return;
    w->lines = (struct gm_log_lines){w->text, sizeof w->text, 0};
    gm_log_add(&w->lines, "%s of %p, which does not free it: a live block of %s from %s", gm_call_name(request->call),
               (void *)(uintptr_t)block->address, gm_size_text(&w->size, block->size),
               gm_call_name((enum gm_call)block->call));
    gm_log_add(&w->lines, "  allocated by  %s", gm_site_text(&w->site, block->site));
    gm_log_add(&w->lines, "  this free     by %s", gm_site_text(&w->site, request->site));
    w->address = block->address;
    end_wrong_free(w, request, block->size, block->site, 0);
    munmap(w, sizeof *w);
}

/* ---- end */

/* One line for the causes [from, to), if some were not explained. */
static void report_counts(enum cause from, enum cause to, const char *what) {
    char line[200];
    size_t length = 0;
    uint64_t all = 0, said = 0;
    line[0] = '\0';
    for (enum cause cause = from; cause < to; cause++) {
        uint64_t count = __atomic_load_n(&counts[cause], __ATOMIC_RELAXED);
        if (!count)
            continue;
        length += (size_t)gm_format(line + length, sizeof line - length, "%s%s %lu", all ? ", " : "", words[cause],
                                    (unsigned long)count);
        all += count;
        said += (unsigned)__builtin_popcountll(__atomic_load_n(&explained[cause], __ATOMIC_RELAXED));
    }
    if (all > said)
        gm_log(GM_LOG_WARN, "%s: %lu in all (%s); the first of each cause is explained above", what, (unsigned long)all,
               line);
}

void gm_explain_finish(void) {
    report_counts(LIMIT, FAILURES, "out of memory");
    report_counts(DOUBLE_FREE, CAUSES, "wrong frees");
}
