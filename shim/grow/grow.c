/* Detects arrays that grow by hand. A growth is a copy from the start of one cudaMalloc block to the start of a larger
 * one, followed by the free of the smaller block. Each growth is counted, and the call site of the larger block is
 * remembered: GPUMEM_GROW_MATCH can take blocks of such sites only. */
#include "shim/grow/grow.h"

#include <string.h>

#include "policy/rules.h"
#include "shim/base/file.h"
#include "shim/base/options.h"
#include "shim/resource/registry.h"
#include "shim/grow/handover.h"
#include "shim/resource/vmm.h"

enum gm_grow gm_grow_mode;
bool gm_grow_sees_copies;

/* ---- call sites
 *
 * Other processes cannot open a block of resource "vmm", and a block cannot change its resource while the program holds
 * it. So the default condition `seen` takes a block only when a block of the same call site was grown before. The first
 * arrays of a call site stay native and are copied. A call site whose blocks are exported is never taken. */

enum { SITES = 1 << 17 }; /* site numbers count from 1; larger numbers are not remembered */

static uint64_t grown_sites[SITES / 64], exported_sites[SITES / 64]; /* the child numbers its call sites anew */
GM_ZERO_IN_CHILD(grown_sites);
GM_ZERO_IN_CHILD(exported_sites);

static bool is_noted(const uint64_t *sites, uint32_t site) {
    return site && site < SITES && __atomic_load_n(&sites[site / 64], __ATOMIC_RELAXED) >> site % 64 & 1;
}

static void note_site(uint64_t *sites, uint32_t site) {
    if (site && site < SITES)
        __atomic_fetch_or(&sites[site / 64], 1ull << site % 64, __ATOMIC_RELAXED);
}

static bool was_seen(uint32_t site) { return is_noted(grown_sites, site) && !is_noted(exported_sites, site); }

void gm_grow_exported(uint64_t address) {
    struct gm_registry *registry = gm_registry_shared();
    struct gm_block block;
    if (gm_grow_mode >= GM_GROW_VMM && registry && gm_registry_find_range(registry, address, &block))
        note_site(exported_sites, block.site);
}

/* ---- GPUMEM_GROW_MATCH: conditions as in the rules of policy static, plus `seen` */

static struct {
    struct gm_rule *rules;
    unsigned count;
} match;

static bool read_match(const char *text, char *why, size_t size) {
    struct gm_rules_error error;
    int count = gm_conditions_read(text, strlen(text), NULL, 0, &error);
    if (count <= 0) {
        gm_format(why, size, "%s", count ? error.text : "no condition; accepted: CONDITION[,CONDITION...][;...]");
        return false;
    }
    struct gm_rule *rules = gm_pages((size_t)count * sizeof *rules);
    if (!rules) {
        gm_format(why, size, "no memory for the conditions");
        return false;
    }
    gm_conditions_read(text, strlen(text), rules, (unsigned)count, &error);
    for (int i = 0; i < count; i++)
        if (rules[i].call >= 0 && rules[i].call != GM_CALL_ALLOC) {
            gm_format(why, size, "call=%s never grows; accepted: call=cuMemAlloc",
                      gm_call_name((enum gm_call)rules[i].call));
            return false;
        }
    match.rules = rules;
    match.count = (unsigned)count;
    return true;
}

static bool needs_seen_sites(void) {
    for (unsigned i = 0; i < match.count; i++)
        if (match.rules[i].seen)
            return true;
    return false;
}

bool gm_grow_takes(const struct gm_request *request) {
    if (request->call != GM_CALL_ALLOC)
        return false;
    for (unsigned i = 0; i < match.count; i++)
        if ((!match.rules[i].seen || was_seen(request->site)) && gm_rules_match(&match.rules[i], 1, request))
            return true;
    return false;
}

uint32_t gm_grow_start(void) {
    const char *initial = gm_option_rows[GM_OPT_GROW_MATCH].initial;
    char why[200];
    gm_grow_mode = (enum gm_grow)gm_option_number(GM_OPT_GROW);
    if (gm_grow_mode == GM_GROW_OFF)
        return 0;
    if (!read_match(gm_option_text(GM_OPT_GROW_MATCH), why, sizeof why)) {
        gm_log(GM_LOG_WARN, "%s: %s; using %s", gm_option_label(GM_OPT_GROW_MATCH).text, why, initial);
        read_match(initial, why, sizeof why);
    }
    if (gm_grow_mode >= GM_GROW_MOVE && !gm_drv.ctx_record_event) {
        gm_log(GM_LOG_WARN, "GPUMEM_GROW=%s needs a driver from 12.5 on: vmm is in force", gm_option_text(GM_OPT_GROW));
        gm_grow_mode = GM_GROW_VMM;
    }
    if (gm_grow_mode >= GM_GROW_MOVE && gm_option_bool(GM_OPT_CHECK_ORDER)) {
        gm_log(GM_LOG_WARN, "GPUMEM_CHECK_ORDER: every cudaFree waits; under it GPUMEM_GROW=%s is vmm",
               gm_option_text(GM_OPT_GROW));
        gm_grow_mode = GM_GROW_VMM;
    }
    gm_grow_sees_copies = gm_grow_mode != GM_GROW_VMM || needs_seen_sites();
    if (gm_grow_mode >= GM_GROW_MOVE)
        gm_vmm_split_fronts();
    return gm_grow_mode == GM_GROW_REPORT ? 0 : gm_rules_wants(match.rules, match.count);
}

/* ---- growths: the latest copies whose blocks both live */

enum { COPIES = 64 };

static struct {
    uint64_t from, to, size;
    uint32_t site; /* call site of the larger block */
} copies[COPIES];
GM_ZERO_IN_CHILD(copies);
GM_LOCK(lock);
static unsigned next_copy;
static struct { uint64_t count, bytes, largest; } grown;
GM_ZERO_IN_CHILD(grown);

void gm_grow_copied(CUdeviceptr to, CUdeviceptr from, size_t size) {
    struct gm_registry *registry = gm_registry_shared();
    struct gm_block old, larger;
    if (!registry || !size || !gm_registry_find(registry, from, &old) || !gm_registry_find(registry, to, &larger) ||
        old.call != GM_CALL_ALLOC || larger.call != GM_CALL_ALLOC || larger.size <= old.size || size > old.size)
        return;
    gm_spin_lock(&lock);
    unsigned at = next_copy++ % COPIES;
    copies[at].from = from;
    copies[at].to = to;
    copies[at].size = size;
    copies[at].site = larger.site;
    gm_spin_unlock(&lock);
}

/* Every copy from the block was a growth. */
static void count_growths(uint64_t freed) {
    gm_spin_lock(&lock);
    for (unsigned i = 0; i < COPIES; i++) {
        if (copies[i].from == freed) {
            note_site(grown_sites, copies[i].site);
            grown.count++;
            grown.bytes += copies[i].size;
            grown.largest = copies[i].size > grown.largest ? copies[i].size : grown.largest;
        }
        if (copies[i].from == freed || copies[i].to == freed)
            copies[i].from = copies[i].to = 0;
    }
    gm_spin_unlock(&lock);
}

GM_APART bool gm_grow_freed(uint64_t address, const struct gm_block *block) {
    count_growths(address);
    if (gm_grow_mode < GM_GROW_MOVE)
        return false;
    if (block && block->kind == GM_KIND_VMM && block->owner)
        return gm_handover_freed(block);
    gm_handover_driver_entered();
    return false;
}

void gm_grow_report(int fd) {
    uint64_t handovers, bytes, made;
    char line[400];
    if (gm_grow_mode == GM_GROW_OFF || gm_grow_mode == GM_GROW_VMM)
        return;
    gm_spin_lock(&lock); /* other threads may still free */
    unsigned long long count = grown.count, copied = grown.bytes, largest = grown.largest;
    gm_spin_unlock(&lock);
    int length = gm_format(line, sizeof line,
                           "gpumem: growth by hand %llu times, %llu bytes copied for it, at most %llu at once", count,
                           copied, largest);
    if (gm_grow_mode >= GM_GROW_MOVE) {
        gm_handover_counts(&handovers, &bytes, &made);
        length += gm_format(line + length, sizeof line - (size_t)length,
                            "; %llu times pages moved instead, %llu bytes not copied, %llu copies put off and made",
                            (unsigned long long)handovers, (unsigned long long)bytes, (unsigned long long)made);
    }
    line[length++] = '\n';
    gm_safe_say(fd, line, (size_t)length);
}
