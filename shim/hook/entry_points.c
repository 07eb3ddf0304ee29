/* Maps functions of the driver to entries of hooks. Filled at the start from the driver's symbol table and its
 * resolver. */
#include "shim/hook/copies.h"
#include "shim/hook/host_copies.h"
#include "shim/grow/grow.h"
#include "shim/grow/handover.h"
#include "shim/hook/entry_points.h"

#include <string.h>
#include <sys/mman.h>

#include "shim/base/file.h"
#include "shim/base/real_dl.h"
#include "shim/hook/check.h"
#include "shim/hook/stream_observer.h"

#define ROW(symbol, name, version, twin)         \
    GM_INTERNAL void gm_dlsym_##symbol(void);    \
    GM_INTERNAL void gm_resolver_##symbol(void); \
    GM_INTERNAL void gm_audit_##symbol(void);
GM_HOOK_ROWS(ROW)
#undef ROW

struct row {
    const char *symbol, *name;
    int version;
    bool twin;
    void **true_function;
    void *entries[GM_ENTRY_WAYS];
};

struct gm_real gm_real;
uint64_t gm_row_calls[GM_ROW_COUNT];

static const struct row rows[GM_ROW_COUNT] = {
#define ROW(symbol, name, version, twin) \
    {#symbol,                            \
     #name,                              \
     version,                            \
     twin,                               \
     (void **)&gm_real.symbol,           \
     {(void *)&symbol, (void *)gm_dlsym_##symbol, (void *)gm_resolver_##symbol, (void *)gm_audit_##symbol}},
    GM_HOOK_ROWS(ROW)
#undef ROW
};

/* ---- true function -> row, open addressing; complete before gm_hooks_active is set and constant afterwards */

static struct gm_function_slot by_function[GM_FUNCTION_SLOTS];

static unsigned slot_of(const void *function) {
    return (unsigned)(((uintptr_t)function >> 2) * 0x9e3779b97f4a7c15ull >> 54) % GM_FUNCTION_SLOTS;
}

static int find_row(const void *function) {
    void *there;
    for (unsigned at = slot_of(function); (there = __atomic_load_n(&by_function[at].function, __ATOMIC_RELAXED));
         at = (at + 1) % GM_FUNCTION_SLOTS)
        if (there == function)
            return __atomic_load_n(&by_function[at].row, __ATOMIC_RELAXED);
    return -1;
}

static void add_function(struct gm_function_slot *slots, void *function, unsigned row) {
    unsigned at = slot_of(function);
    while (slots[at].function && slots[at].function != function)
        at = (at + 1) % GM_FUNCTION_SLOTS;
    if (!slots[at].function) {
        slots[at].function = function;
        slots[at].row = (uint16_t)row;
    }
}

bool gm_is_entry(const void *address) {
    for (unsigned i = 0; i < GM_ROW_COUNT; i++)
        for (unsigned way = 0; way < GM_ENTRY_WAYS; way++)
            if (rows[i].entries[way] == address)
                return true;
    return false;
}

static void *route_unhooked(void *function) {
    void *entry = gm_copies_route(function);
    if (entry == function && gm_grow_mode >= GM_GROW_MOVE)
        entry = gm_trampoline_of(function);
    return entry == function ? gm_observer_route(function) : entry;
}

void *gm_route(void *function, enum gm_entry_way way) {
    if (!__atomic_load_n(&gm_hooks_active, __ATOMIC_ACQUIRE))
        return function;
    int row = find_row(function);
    void *entry = row >= 0 ? rows[row].entries[way] : route_unhooked(function);
    return gm_host_copies_route(function, gm_check_route(function, entry));
}

const char *gm_row_name(enum gm_row row) { return rows[row].symbol; }

/* ---- the driver's functions: by exact symbol, and from the resolver by (name, version, flags). Some drivers'
 * resolvers return other functions than their symbol tables; then both lead to the hook. A row without a function is
 * absent in this driver. */

static void find_functions(struct gm_found *found) {
    typedef CUresult (*resolver)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);
    resolver resolve = (resolver)gm_driver_symbol("cuGetProcAddress_v2");

    /* Exact symbols first, because the resolver's function for one row may be the exact function of another row. */
    for (unsigned i = 0; i < GM_ROW_COUNT; i++) {
        found->functions[i] = gm_driver_symbol(rows[i].symbol);
        if (found->functions[i])
            add_function(found->by_function, found->functions[i], i);
    }
    for (unsigned i = 0; i < GM_ROW_COUNT; i++) {
        const struct row *row = &rows[i];
        void *exact = found->functions[i], *resolved = NULL;
        cuuint64_t flags =
            row->twin ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM : CU_GET_PROC_ADDRESS_LEGACY_STREAM;

        if (resolve && resolve(row->name, &resolved, row->version, flags, NULL) != CUDA_SUCCESS)
            resolved = NULL;
        if (!exact)
            found->functions[i] = resolved;
        if (resolved)
            add_function(found->by_function, resolved, i);
        found->differs[i] = resolved && exact && resolved != exact;
    }
}

bool gm_entry_points_report(const struct gm_found *found) {
    unsigned absent = 0, differing = 0;
    for (unsigned i = 0; i < GM_ROW_COUNT; i++) {
        if (found->differs[i]) {
            differing++;
            gm_log(GM_LOG_INFO, "%s: the resolver gives another function than the symbol table; both are routed",
                   rows[i].symbol);
        }
        if (!found->functions[i]) {
            absent++;
            gm_log(GM_LOG_DEBUG, "%s: this driver has none", rows[i].symbol);
        }
    }
    if (absent || differing)
        gm_log(GM_LOG_INFO, "look-up routes: %u of %u symbols absent in this driver, %u with two functions", absent,
               (unsigned)GM_ROW_COUNT, differing);
    return !differing;
}

/* Threads that do this at the same time store the same values. Of the true functions only the first store counts, since
 * hooks may already read them. */
static void publish(const struct gm_found *found) {
    for (unsigned i = 0; i < GM_ROW_COUNT; i++) {
        void *none = NULL;
        if (found->functions[i] && !__atomic_load_n(rows[i].true_function, __ATOMIC_ACQUIRE))
            __atomic_compare_exchange_n(rows[i].true_function, &none, found->functions[i], false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE);
    }
    for (unsigned i = 0; i < GM_FUNCTION_SLOTS; i++) {
        __atomic_store_n(&by_function[i].row, found->by_function[i].row, __ATOMIC_RELAXED);
        __atomic_store_n(&by_function[i].function, found->by_function[i].function, __ATOMIC_RELAXED);
    }
}

void gm_entry_points_find(struct gm_found *found) {
    find_functions(found);
    publish(found);
}

void gm_hook_context(struct gm_scope *scope) {
    struct gm_context context;
    gm_context_current(&context);
    scope->request.context = (uint64_t)(uintptr_t)context.handle;
    scope->request.context_id = context.id;
    scope->request.context_number = context.number;
    scope->request.device = context.device;
}

void gm_hook_entered(enum gm_row row) {
    switch (row) {
    case GM_ROW_cuMemFree_v2:
        return; /* the hook finds out whether it ends a deferred copy (gm_grow_freed) */
    /* Queries: they start no work and change no memory. */
    case GM_ROW_cuEventQuery:
    case GM_ROW_cuStreamQuery:
    case GM_ROW_cuStreamQuery_ptsz:
    case GM_ROW_cuEventElapsedTime:
    case GM_ROW_cuEventElapsedTime_v2:
    case GM_ROW_cuGetProcAddress:
    case GM_ROW_cuGetProcAddress_v2:
    case GM_ROW_cuMemGetInfo_v2:
    case GM_ROW_cuMemGetAddressRange_v2:
    case GM_ROW_cuDeviceTotalMem_v2:
    case GM_ROW_cuPointerGetAttribute:
    case GM_ROW_cuPointerGetAttributes: return;
    default: gm_handover_driver_entered();
    }
}

/* For libgpumem-audit.so, which lives in another link namespace and calls this during a binding. Reads only constant
 * data and starts nothing. */
__attribute__((visibility("default"))) void *gpumem_audit_entry(const char *symbol);
void *gpumem_audit_entry(const char *symbol) {
    for (unsigned i = 0; i < GM_ROW_COUNT; i++)
        if (strcmp(rows[i].symbol, symbol) == 0)
            return rows[i].entries[GM_ENTRY_AUDIT];
    return NULL;
}
