/* Arrays grown by hand: a larger block is allocated, the old one's bytes are copied to its start, the old one is freed.
 */
#include "shim/grow/grow.h"

#include <string.h>

#include "policy/rules.h"
#include "shim/base/file.h"
#include "shim/base/options.h"
#include "shim/core/registry.h"
#include "shim/hook/hook.h"
#include "shim/placement/router.h"
#include "shim/resource/vmm.h"

enum gm_grow gm_grow_mode;

static bool sees_copies; /* copies are hooked */

/* ---- sites where growth was seen: call sites of the larger block
 *
 * A block that is taken cannot be exported, and a block that the program holds cannot become another one. So by default
 * a block is taken only where an earlier one of its call site was grown by hand: the first arrays of a site stay native
 * and are copied. A site whose blocks are exported is not taken at all. */

enum { SITES = 1 << 17 }; /* ids are dense from 1; those beyond are never seen */

static uint64_t seen[SITES / 64], exported[SITES / 64];

static bool is_noted(const uint64_t *sites, uint32_t site) {
    return site && site < SITES && __atomic_load_n(&sites[site / 64], __ATOMIC_RELAXED) >> site % 64 & 1;
}

static void note(uint64_t *sites, uint32_t site) {
    if (site && site < SITES)
        __atomic_fetch_or(&sites[site / 64], 1ull << site % 64, __ATOMIC_RELAXED);
}

static bool was_seen(uint32_t site) { return is_noted(seen, site) && !is_noted(exported, site); }

void gm_grow_exported(uint64_t address) {
    struct gm_registry *registry = gm_registry_shared();
    struct gm_block block;
    if (gm_grow_mode >= GM_GROW_VMM && registry && gm_registry_find_range(registry, address, &block))
        note(exported, block.site);
}

/* ---- which allocations: conditions as in the rules of policy static */

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

static bool asks_for_seen(void) {
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
        gm_log(GM_LOG_WARN, "GPUMEM_GROW_MATCH: %s; using %s", why, initial);
        read_match(initial, why, sizeof why);
    }
    if (gm_grow_mode >= GM_GROW_MOVE && !gm_drv.ctx_record_event) {
        gm_log(GM_LOG_WARN, "GPUMEM_GROW=%s needs a driver from 12.5 on: vmm is in force", gm_option_text(GM_OPT_GROW));
        gm_grow_mode = GM_GROW_VMM;
    }
    if (gm_grow_mode == GM_GROW_OVERCOMMIT && gm_option_number(GM_OPT_FILL)) {
        gm_log(
            GM_LOG_WARN,
            "GPUMEM_GROW=move-overcommit hands out memory that is not filled yet: under GPUMEM_FILL move is in force");
        gm_grow_mode = GM_GROW_MOVE;
    }
    if (gm_grow_mode >= GM_GROW_MOVE && gm_option_bool(GM_OPT_CHECK_ORDER)) {
        gm_log(GM_LOG_WARN, "GPUMEM_CHECK_ORDER: every cudaFree waits; under it GPUMEM_GROW=%s is vmm",
               gm_option_text(GM_OPT_GROW));
        gm_grow_mode = GM_GROW_VMM;
    }
    sees_copies = gm_grow_mode != GM_GROW_VMM || asks_for_seen();
    if (gm_grow_mode >= GM_GROW_MOVE)
        gm_vmm_split_fronts(gm_grow_mode == GM_GROW_OVERCOMMIT);
    gm_router_overcommits = gm_grow_mode == GM_GROW_OVERCOMMIT;
    return gm_grow_mode == GM_GROW_REPORT ? 0 : gm_rules_wants(match.rules, match.count);
}

/* ---- what was copied lately, and what of it is freed */

enum { COPIES = 64 };

static struct {
    uint64_t from, to, size;
    uint32_t site; /* that asked for the larger block */
} copies[COPIES];
static gm_spin lock;
static unsigned next_copy;
static struct { uint64_t count, bytes, largest; } grown;

static void note_copy(uint64_t to, uint64_t from, uint64_t size) {
    struct gm_registry *registry = gm_registry_shared();
    struct gm_block old, young;
    if (!registry || !size || !gm_registry_find(registry, from, &old) || !gm_registry_find(registry, to, &young) ||
        old.call != GM_CALL_ALLOC || young.call != GM_CALL_ALLOC || young.size <= old.size || size > old.size)
        return;
    gm_spin_lock(&lock);
    unsigned at = next_copy++ % COPIES;
    copies[at].from = from;
    copies[at].to = to;
    copies[at].size = size;
    copies[at].site = young.site;
    gm_spin_unlock(&lock);
}

void gm_grow_freed(uint64_t address) {
    gm_spin_lock(&lock);
    for (unsigned i = 0; i < COPIES; i++) {
        if (copies[i].from == address) {
            note(seen, copies[i].site);
            grown.count++;
            grown.bytes += copies[i].size;
            grown.largest = copies[i].size > grown.largest ? copies[i].size : grown.largest;
        }
        if (copies[i].from == address || copies[i].to == address)
            copies[i].from = copies[i].to = 0;
    }
    gm_spin_unlock(&lock);
}

/* Nobody may have asked for the copied block's bytes again before it was freed; that is for the reader to judge. */
void gm_grow_report(int fd) {
    uint64_t moves, bytes, made;
    char line[400];
    if (gm_grow_mode == GM_GROW_OFF || gm_grow_mode == GM_GROW_VMM)
        return;
    int length = gm_format(
        line, sizeof line, "gpumem: growth by hand %llu times, %llu bytes copied for it, at most %llu at once",
        (unsigned long long)grown.count, (unsigned long long)grown.bytes, (unsigned long long)grown.largest);
    if (gm_grow_mode >= GM_GROW_MOVE) {
        gm_handover_counts(&moves, &bytes, &made);
        length += gm_format(line + length, sizeof line - (size_t)length,
                            "; %llu times pages moved instead, %llu bytes not copied, %llu copies put off and made",
                            (unsigned long long)moves, (unsigned long long)bytes, (unsigned long long)made);
    }
    if (gm_grow_mode == GM_GROW_OVERCOMMIT)
        length +=
            gm_format(line + length, sizeof line - (size_t)length, "; %llu blocks that the device had no memory for",
                      (unsigned long long)gm_vmm_overcommitted());
    line[length++] = '\n';
    gm_safe_say(fd, line, (size_t)length);
}

void gm_grow_after_fork(void) {
    lock.held = 0;
    memset(&grown, 0, sizeof grown);
    memset(copies, 0, sizeof copies);
    memset(seen, 0, sizeof seen); /* the child's call sites are numbered anew */
    memset(exported, 0, sizeof exported);
    gm_handover_after_fork();
}

/* ---- copies of device memory */

/* COPY(symbol, name, parameters behind the size, the call's further arguments, stream; twins of per-thread streams
 * never wait) */
#define COPIES_OF_DEVICE(COPY)                                                                                      \
    COPY(cuMemcpyDtoD_v2, (CUdeviceptr to, CUdeviceptr from, size_t size), (to, from, size), NULL)                  \
    COPY(cuMemcpy, (CUdeviceptr to, CUdeviceptr from, size_t size), (to, from, size), NULL)                         \
    COPY(cuMemcpyDtoDAsync_v2, (CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream),                    \
         (to, from, size, stream), stream)                                                                          \
    COPY(cuMemcpyAsync, (CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream), (to, from, size, stream), \
         stream)
#define COPIES_OF_THREAD(COPY)                                                                                   \
    COPY(cuMemcpyDtoD_v2_ptds, (CUdeviceptr to, CUdeviceptr from, size_t size), (to, from, size),                \
         CU_STREAM_PER_THREAD)                                                                                   \
    COPY(cuMemcpy_ptds, (CUdeviceptr to, CUdeviceptr from, size_t size), (to, from, size), CU_STREAM_PER_THREAD) \
    COPY(cuMemcpyDtoDAsync_v2_ptsz, (CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream),            \
         (to, from, size, stream), CU_STREAM_PER_THREAD)                                                         \
    COPY(cuMemcpyAsync_ptsz, (CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream),                   \
         (to, from, size, stream), CU_STREAM_PER_THREAD)

static bool put_off(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream) {
    if (gm_grow_mode < GM_GROW_MOVE || gm_depth > 0)
        return false;
    gm_depth = 1;
    bool put = gm_handover_copy(to, from, size, stream);
    gm_depth = 0;
    if (!put && __atomic_load_n(&gm_trampolines_active, __ATOMIC_SEQ_CST))
        gm_handover_driver_entered();
    return put;
}

#define COPY(symbol, parameters, arguments, stream_of)                  \
    static CUresult(CUDAAPI *true_##symbol) parameters;                 \
    static CUresult CUDAAPI copy_##symbol parameters {                  \
        bool put = put_off(to, from, size, stream_of);                  \
        CUresult result = put ? CUDA_SUCCESS : true_##symbol arguments; \
        if (result == CUDA_SUCCESS && gm_depth == 0)                    \
            note_copy(to, from, size);                                  \
        return result;                                                  \
    }
COPIES_OF_DEVICE(COPY)
COPIES_OF_THREAD(COPY)
#undef COPY

static const struct {
    const char *symbol;
    void *hook;
    void **function;
} rows[] = {
#define COPY(symbol, ...) {#symbol, (void *)copy_##symbol, (void **)&true_##symbol},
    COPIES_OF_DEVICE(COPY) COPIES_OF_THREAD(COPY)
#undef COPY
};

void *gm_grow_route(void *function) {
    static bool known;
    if (GM_LIKELY(!sees_copies))
        return function;
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (!known)
            *rows[i].function = gm_driver_symbol(rows[i].symbol);
        if (*rows[i].function == function) {
            return rows[i].hook;
        }
    }
    known = true;
    return gm_grow_mode >= GM_GROW_MOVE ? gm_trampoline_of(function) : function;
}
