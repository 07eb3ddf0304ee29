/* Maps functions of the driver to entries. Filled at the start from the driver's symbol table and its resolver. */
#include "shim/hook/entry_points.h"

#include <string.h>

#include "shim/base/libraries.h"
#include "shim/driver/linked.h"
#include "shim/driver/transports.h"
#include "shim/grow/handover.h"

enum { UNKNOWN = 1024, UNKNOWN_BYTES = 16 }; /* entries of functions without a row, as in entry.S */

#define CALL(symbol, ...) GM_INTERNAL void gm_entry_##symbol(void);
GM_DRIVER_CALLS(CALL)
#undef CALL
/* The entries lie between these; those of unknown functions have a fixed size. */
GM_INTERNAL extern const char gm_entries_begin[], gm_entries_end[], gm_unknown_entries[];

/* Where each entry continues: the function, or a hook; and the function. */
GM_INTERNAL extern void *gm_targets[GM_CALL_ROWS], *gm_functions[GM_CALL_ROWS], *gm_unknown_functions[UNKNOWN];
void *gm_targets[GM_CALL_ROWS], *gm_functions[GM_CALL_ROWS], *gm_unknown_functions[UNKNOWN];

struct gm_real gm_real;
bool gm_hooks_active;
uint64_t gm_hook_calls[GM_CALL_ROWS];
unsigned gm_look_ups[GM_LOOK_UPS];

/* A row has one entry, however the program finds it (entry.S). */
static const struct {
    void (*entry)(void);
    void *hook; /* NULL: a row without a hook */
    void **true_function;
} rows[GM_CALL_ROWS] = {
#define CALL(symbol, name, version, twin, how, ...) \
    {.entry = gm_entry_##symbol,                    \
     GM_IF_##how(.hook = (void *)gm_hook_##symbol, .true_function = (void **)&gm_real.symbol)},
    GM_DRIVER_CALLS(CALL)
#undef CALL
};

static void *entry_of_row(unsigned number, enum gm_look_up by) {
    __atomic_add_fetch(&gm_look_ups[by], 1, __ATOMIC_RELAXED);
    return (void *)rows[number].entry;
}

bool gm_is_entry(const void *address) {
    const char *at = address;
    return at >= gm_entries_begin && at < gm_entries_end;
}

/* ---- true function -> row, open addressing; complete before gm_hooks_active is set and constant afterwards */

static struct gm_function_slot by_function[GM_FUNCTION_SLOTS];

static unsigned slot_of_function(const void *function) {
    return (unsigned)(((uintptr_t)function >> 2) * 0x9e3779b97f4a7c15ull >> 52) % GM_FUNCTION_SLOTS;
}

static int find_number(const void *function) {
    void *there;
    for (unsigned at = slot_of_function(function);
         (there = __atomic_load_n(&by_function[at].function, __ATOMIC_RELAXED)); at = (at + 1) % GM_FUNCTION_SLOTS)
        if (there == function)
            return __atomic_load_n(&by_function[at].number, __ATOMIC_RELAXED);
    return -1;
}

static void add_function(struct gm_function_slot *slots, void *function, unsigned number) {
    unsigned at = slot_of_function(function);
    while (slots[at].function && slots[at].function != function)
        at = (at + 1) % GM_FUNCTION_SLOTS;
    if (!slots[at].function) {
        slots[at].function = function;
        slots[at].number = (uint16_t)number;
    }
}

/* ---- functions without a row: each gets an entry at its first look-up */

static unsigned unknown_count;
GM_LOCK(unknown_lock);

struct search {
    uintptr_t function;
    bool together;
};

static void look_beside(const struct dl_phdr_info *driver, void *argument) {
    struct search *search = argument;
    search->together = gm_library_segment(driver, search->function) != NULL;
}

static bool is_of_driver(const void *function) {
    struct search search = {(uintptr_t)function, false};
    gm_library_at((uintptr_t)gm_drv.ctx_get_current, look_beside, &search);
    return search.together;
}

static void look_at_library(const struct dl_phdr_info *module, void *is_driver) {
    *(bool *)is_driver = gm_library_traits(module->dlpi_name) & GM_LIBRARY_DRIVER;
}

/* A second driver in the process: a copy of the library under another path. */
static bool is_of_other_driver(const void *function) {
    bool is_driver = false;
    gm_library_at((uintptr_t)function, look_at_library, &is_driver);
    return is_driver;
}

static void *route_unknown(void *function, const char *name) {
    if (!is_of_driver(function)) {
        if (is_of_other_driver(function))
            gm_free_sync_note(GM_SYNC_UNSEEN);
        return function;
    }
    gm_spin_lock(&unknown_lock);
    unsigned at = 0;
    while (at < unknown_count && gm_unknown_functions[at] != function)
        at++;
    bool added = at == unknown_count && at < UNKNOWN;
    if (added)
        gm_unknown_functions[unknown_count++] = function;
    gm_spin_unlock(&unknown_lock);
    if (added)
        gm_log(GM_LOG_INFO, "%s: not in the table of the driver's calls; taken to notice unfinished work", name);
    if (at < UNKNOWN)
        return (void *)(gm_unknown_entries + (size_t)at * UNKNOWN_BYTES);
    gm_free_sync_note(GM_SYNC_UNSEEN);
    gm_handover_driver_entered();
    return function;
}

/* A program that looks such a function up may call it while a free waits. Runtimes look up all functions, but of these
 * only the first variants, by the resolver. */
static bool may_write_values(const struct gm_call_row *row, enum gm_look_up by) {
    enum { SECOND_VARIANTS = 11070 };
    return (by != GM_BY_RESOLVER || row->version >= SECOND_VARIANTS) && gm_writes_values(row->symbol);
}

void *gm_route(void *function, const char *name, enum gm_look_up by, bool *hooked) {
    *hooked = false;
    if (!__atomic_load_n(&gm_hooks_active, __ATOMIC_ACQUIRE))
        return function;
    gm_rdma_in_process();
    int number = find_number(function);
    if (number < 0)
        return route_unknown(function, name);
    *hooked = gm_call_rows[number].hooked;
    if (GM_UNLIKELY(may_write_values(&gm_call_rows[number], by)))
        gm_free_sync_note(GM_SYNC_WRITES);
    return entry_of_row((unsigned)number, by);
}

/* ---- where entries continue */

static CUresult not_supported(void) { return CUDA_ERROR_NOT_SUPPORTED; }
static CUresult not_initialized(void) { return CUDA_ERROR_NOT_INITIALIZED; }

void *gm_call_target(unsigned number, const void **function) {
    *function = number < GM_CALL_ROWS ? __atomic_load_n(&gm_functions[number], __ATOMIC_ACQUIRE)
                                      : gm_unknown_functions[number - GM_CALL_ROWS];
    void *target = number < GM_CALL_ROWS ? __atomic_load_n(&gm_targets[number], __ATOMIC_ACQUIRE) : (void *)*function;
    return target ? target : (void *)not_initialized;
}

void gm_call_divert(enum gm_call_number number, void *hook, void **next) {
    if (!gm_functions[number])
        return;
    __atomic_store_n(next, gm_targets[number], __ATOMIC_RELEASE);
    __atomic_store_n(&gm_targets[number], hook, __ATOMIC_RELEASE);
}

bool gm_call_trim(void) {
    if (gm_mine.depth > 0) /* inside a hook, which makes its call again itself */
        return false;
    gm_mine.depth = 1;
    bool released = gm_pipeline_trim(SIZE_MAX, GM_REASON_OUT_OF_MEMORY) >= 1;
    gm_mine.depth = 0;
    return released;
}

/* ---- the driver's functions: by exact symbol, and from the resolver by (name, version, flags). Some drivers'
 * resolvers return other functions than their symbol tables; then both lead to the entry. A row without a function is
 * absent in this driver. */

static void find_functions(struct gm_found *found) {
    gm_resolver *resolver = (gm_resolver *)gm_driver_symbol("cuGetProcAddress_v2");

    /* Exact symbols first, because the resolver's function for one row may be the exact function of another row. */
    for (unsigned i = 0; i < GM_CALL_ROWS; i++) {
        found->functions[i] = gm_driver_symbol(gm_call_rows[i].symbol);
        if (found->functions[i])
            add_function(found->by_function, found->functions[i], i);
    }
    for (unsigned i = 0; i < GM_CALL_ROWS; i++) {
        const struct gm_call_row *row = &gm_call_rows[i];
        void *exact = found->functions[i];
        void *resolved = row->version && resolver ? gm_driver_resolve(resolver, row) : NULL;
        if (!exact)
            found->functions[i] = resolved;
        if (resolved)
            add_function(found->by_function, resolved, i);
        found->differs[i] = resolved && exact && resolved != exact;
    }
}

void gm_entry_points_report(const struct gm_found *found) {
    unsigned absent = 0, differing = 0;
    for (unsigned i = 0; i < GM_CALL_ROWS; i++) {
        if (found->differs[i]) {
            differing++;
            gm_log(GM_LOG_INFO, "%s: the resolver gives another function than the symbol table; both are routed",
                   gm_call_rows[i].symbol);
        }
        if (!found->functions[i]) {
            absent++;
            gm_log(GM_LOG_DEBUG, "%s: this driver has none", gm_call_rows[i].symbol);
        }
    }
    if (absent || differing)
        gm_log(GM_LOG_INFO, "look-up routes: %u of %u symbols absent in this driver, %u with two functions", absent,
               (unsigned)GM_CALL_ROWS, differing);
}

static void store_once(void **at, void *value) {
    void *none = NULL;
    if (value && !__atomic_load_n(at, __ATOMIC_ACQUIRE))
        __atomic_compare_exchange_n(at, &none, value, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

/* Threads that do this at the same time store the same values. Of functions and targets only the first store counts,
 * since calls may already read them, and hooks may stand in front. */
static void publish_functions(const struct gm_found *found) {
    for (unsigned i = 0; i < GM_CALL_ROWS; i++) {
        void *function = found->functions[i], *target = function ? function : (void *)not_supported;
        if (rows[i].hook)
            store_once(rows[i].true_function, function);
        store_once(&gm_functions[i], function);
        store_once(&gm_targets[i], rows[i].hook ? rows[i].hook : target);
    }
    for (unsigned i = 0; i < GM_FUNCTION_SLOTS; i++) {
        __atomic_store_n(&by_function[i].number, found->by_function[i].number, __ATOMIC_RELAXED);
        __atomic_store_n(&by_function[i].function, found->by_function[i].function, __ATOMIC_RELAXED);
    }
}

void gm_entry_points_find(struct gm_found *found) {
    find_functions(found);
    publish_functions(found);
}

void gm_hook_context(struct gm_scope *scope) {
    struct gm_context context;
    gm_context_current(&context);
    scope->request.context = (uint64_t)(uintptr_t)context.handle;
    scope->request.context_id = context.id;
    scope->request.context_number = context.number;
    scope->request.device = context.device;
}

/* For libgpumem-audit.so, which lives in another link namespace and calls this during a binding. Starts nothing. */
__attribute__((visibility("default"))) void *gpumem_audit_entry(const char *symbol);
void *gpumem_audit_entry(const char *symbol) {
    for (unsigned i = 0; i < GM_CALL_ROWS; i++)
        if (strcmp(gm_call_rows[i].symbol, symbol) == 0)
            return entry_of_row(i, GM_BY_AUDIT);
    return NULL;
}
