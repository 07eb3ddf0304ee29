/* From true functions to hooks, and back. */
#include "shim/grow/grow.h"
#include "shim/grow/handover.h"
#include "shim/hook/hook.h"

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
__thread __attribute__((tls_model("initial-exec"))) int gm_entry_way, gm_depth;
bool gm_hooks_active;
static __thread __attribute__((tls_model("initial-exec"))) bool starting;

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

enum { SLOTS = 1024 };
struct slot {
    void *function;
    uint16_t row;
};
static struct slot by_function[SLOTS];

static unsigned slot_of(const void *function) {
    return (unsigned)(((uintptr_t)function >> 2) * 0x9e3779b97f4a7c15ull >> 54) % SLOTS;
}

static int find_row(const void *function) {
    for (unsigned at = slot_of(function); by_function[at].function; at = (at + 1) % SLOTS)
        if (by_function[at].function == function)
            return by_function[at].row;
    return -1;
}

static void add_function(struct slot *slots, void *function, unsigned row) {
    unsigned at = slot_of(function);
    while (slots[at].function && slots[at].function != function)
        at = (at + 1) % SLOTS;
    if (!slots[at].function) {
        slots[at].function = function;
        slots[at].row = (uint16_t)row;
    }
}

bool gm_is_entry(const void *address) {
    for (unsigned i = 0; i < GM_ROW_COUNT; i++)
        for (unsigned door = 0; door < GM_ENTRY_WAYS; door++)
            if (rows[i].entries[door] == address)
                return true;
    return false;
}

static void *route_unhooked(void *function) {
    void *entry = gm_copies_route(function);
    if (entry == function && gm_grow_mode >= GM_GROW_MOVE)
        entry = gm_trampoline_of(function);
    return entry == function ? gm_observer_route(function) : entry;
}

void *gm_route(void *function, enum gm_entry_way door) {
    if (!__atomic_load_n(&gm_hooks_active, __ATOMIC_ACQUIRE))
        return function;
    int row = find_row(function);
    if (row >= 0)
        return gm_check_route(function, rows[row].entries[door]);
    return gm_check_route(function, route_unhooked(function));
}

const char *gm_row_name(enum gm_row row) { return rows[row].symbol; }

/* ---- true functions: by exact symbol, and what the resolver gives for (name, version, flags); a driver whose resolver
 * hands out other pointers than its symbol table is routed by both. Rows that neither knows are absent in this driver.
 */

struct found {
    struct slot by_function[SLOTS];
    void *functions[GM_ROW_COUNT];
    bool differs[GM_ROW_COUNT]; /* the resolver gives another function than the symbol table */
};

static void find_functions(struct found *found) {
    typedef CUresult (*resolver)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);
    resolver resolve = (resolver)gm_driver_symbol("cuGetProcAddress_v2");

    /* Exact symbols first: what the resolver gives for one row may be the exact function of another. */
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

/* True: every function has one address only. */
static bool tell_functions(const struct found *found) {
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

/* Threads that come early found the same and store the same. */
static void publish(const struct found *found) {
    for (unsigned i = 0; i < GM_ROW_COUNT; i++)
        __atomic_store_n(rows[i].true_function, found->functions[i], __ATOMIC_RELAXED);
    for (unsigned i = 0; i < SLOTS; i++) {
        __atomic_store_n(&by_function[i].row, found->by_function[i].row, __ATOMIC_RELAXED);
        __atomic_store_n(&by_function[i].function, found->by_function[i].function, __ATOMIC_RELAXED);
    }
}

/* ---- start
 *
 * Whoever asks the loader waits for its lock, and who holds that lock, in a constructor of a library being loaded, may
 * make the process's first CUDA call and wait for the thread that starts. So each thread first asks the loader all that
 * the start needs, for itself and under no lock or flag; the start proper never asks. The others wait for it, since a
 * call that passed it by (a capture begun, peer access) would be missing later. */

static bool ask_loader(struct found **found) {
    *found = NULL;
    if (!gm_driver_ready(false) || !(*found = gm_pages(sizeof **found)))
        return false;
    find_functions(*found);
    publish(*found);
    gm_observer_find();
    gm_thread_find();
    gm_registry_shared();
    gm_process_prepare();
    return true;
}

enum { IDLE = 0, STARTED = -1, ASIDE = -2 }; /* else the process whose thread starts */
static int start_state;

/* Nothing in the start waits for another thread, so this ends within milliseconds. The limit is for what nobody
 * foresees, such as a file system that does not answer, and in the child of a fork the starting thread is missing:
 * gpumem then steps aside for good, before anything was hooked. */
static bool wait_for_start(void) {
    enum { NAP_NS = 50000, MOST_NAPS = 100000 }; /* 5 s and more */
    int now = __atomic_load_n(&start_state, __ATOMIC_ACQUIRE);
    for (int naps = 0; now > 0; naps++) {
        bool forked = now != getpid();
        if ((forked || naps == MOST_NAPS) &&
            __atomic_compare_exchange_n(&start_state, &now, ASIDE, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
            gm_log(GM_LOG_ERROR, "the start %s: stepping aside", forked ? "was cut off by a fork" : "does not end");
            return false;
        }
        gm_sleep(NAP_NS);
        now = __atomic_load_n(&start_state, __ATOMIC_ACQUIRE);
    }
    return now == STARTED;
}

/* One thread starts the process. False: stepped aside. */
static bool start(const struct found *found) {
    int idle = IDLE, self = getpid();
    if (!__atomic_compare_exchange_n(&start_state, &idle, self, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        return wait_for_start();
    gm_process_start();
    gm_observer_start(tell_functions(found));
    return __atomic_compare_exchange_n(&start_state, &self, STARTED, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

bool gm_hooks_ready(void) {
    struct found *found;

    if (GM_LIKELY(__atomic_load_n(&gm_hooks_active, __ATOMIC_ACQUIRE)))
        return true;
    if (starting || __atomic_load_n(&start_state, __ATOMIC_ACQUIRE) == ASIDE)
        return false;
    starting = true;
    bool ready = ask_loader(&found) && start(found);
    if (found)
        munmap(found, sizeof *found);
    if (ready) {
        __atomic_store_n(&gm_hooks_active, true, __ATOMIC_RELEASE);
        gm_process_started();
    }
    starting = false;
    return ready;
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
        return; /* its hook finds out whether it ends a deferred copy (gm_grow_freed) */
    /* These report facts: no work and no memory changes. */
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

/* For the audit companion, which lives in another link namespace and asks after a binding was found: plain data, no
 * start. */
__attribute__((visibility("default"))) void *gpumem_audit_entry(const char *symbol);
void *gpumem_audit_entry(const char *symbol) {
    for (unsigned i = 0; i < GM_ROW_COUNT; i++)
        if (strcmp(rows[i].symbol, symbol) == 0)
            return rows[i].entries[GM_ENTRY_AUDIT];
    return NULL;
}

/* ---- who looked something up (coverage report) */

enum { CALLERS = 512 };
static uintptr_t callers[CALLERS];

void gm_note_caller(const void *caller) {
    if (GM_LIKELY(!gm_coverage_on))
        return;
    for (unsigned i = 0; i < CALLERS; i++) {
        uintptr_t seen = 0;
        if (__atomic_load_n(&callers[i], __ATOMIC_RELAXED) == (uintptr_t)caller ||
            __atomic_compare_exchange_n(&callers[i], &seen, (uintptr_t)caller, false, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED))
            return;
    }
}

bool gm_module_looked_up(uintptr_t start, uintptr_t limit) {
    for (unsigned i = 0; i < CALLERS && callers[i]; i++)
        if (callers[i] >= start && callers[i] < limit)
            return true;
    return false;
}

/* ---- names handed out unhooked */

enum { NAMES = 256, NAME_BYTES = 16384 };
static const char *names[NAMES];
static char name_bytes[NAME_BYTES];
static size_t name_count, name_used;
static gm_spin names_lock;

static bool begins(const char *name, const char *with) { return strncmp(name, with, strlen(with)) == 0; }

/* Allocates, maps, exports or describes memory; moving bytes and hinting at pages does not. */
static bool concerns_memory(const char *name) {
    static const char *const families[] = {"cuMem",
                                           "cuArray",
                                           "cuMipmapped",
                                           "cuIpc",
                                           "cuPointer",
                                           "cuGraphAddMem",
                                           "cuMulticast",
                                           "cuDeviceSetMemPool",
                                           "cuImportExternalMemory",
                                           "cuExternalMemory",
                                           "cuGraphicsResource",
                                           "cuGraphicsMap"};
    static const char *const moves[] = {"cuMemcpy",        "cuMemset",     "cuMemPrefetch",        "cuMemAdvise",
                                        "cuMemRangeGet",   "cuMemDiscard", "cuMemBatchDecompress", "cuGraphAddMemcpy",
                                        "cuGraphAddMemset"};
    for (size_t i = 0; i < sizeof(moves) / sizeof(*moves); i++)
        if (begins(name, moves[i]))
            return false;
    for (size_t i = 0; i < sizeof(families) / sizeof(*families); i++)
        if (begins(name, families[i]))
            return true;
    return false;
}

void gm_route_unhooked(const char *name) {
    if (!gm_coverage_on || !concerns_memory(name))
        return;
    size_t length = strlen(name) + 1;
    gm_spin_lock(&names_lock);
    bool known = name_count == NAMES || name_used + length > NAME_BYTES;
    for (size_t i = 0; i < name_count && !known; i++)
        known = strcmp(names[i], name) == 0;
    if (!known) {
        names[name_count++] = memcpy(name_bytes + name_used, name, length);
        name_used += length;
    }
    gm_spin_unlock(&names_lock);
}

size_t gm_unhooked_names(const char *const **out) {
    *out = names;
    return name_count;
}
