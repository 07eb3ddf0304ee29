/* Gates: entries of the driver's functions that are not hooked, told apart by number (entry.S). A gate looks at
 * gm_trampolines_active and jumps on with everything as it came. */
#include <link.h>

#include "shim/grow/grow.h"
#include "shim/hook/hook.h"

enum { TRAMPOLINES = 1024, TRAMPOLINE_BYTES = 16 }; /* as in entry.S */

GM_INTERNAL extern const char gm_trampolines[];
GM_INTERNAL extern void *gm_trampoline_functions[TRAMPOLINES];
void *gm_trampoline_functions[TRAMPOLINES];

static unsigned count;
static gm_spin lock;

/* They wait for work or ask for facts: no work and no memory changes by them. */
static const char *const open_to_all[] = {
    "cuCtxSynchronize",
    "cuCtxSynchronize_v2",
    "cuStreamSynchronize",
    "cuStreamSynchronize_ptsz",
    "cuEventSynchronize",
    "cuCtxGetCurrent",
    "cuCtxGetDevice",
    "cuCtxGetDevice_v2",
    "cuCtxGetId",
    "cuCtxGetFlags",
    "cuCtxGetApiVersion",
    "cuDeviceGet",
    "cuDeviceGetCount",
    "cuDeviceGetAttribute",
    "cuDeviceGetName",
    "cuDevicePrimaryCtxGetState",
    "cuDriverGetVersion",
    "cuGetErrorString",
    "cuGetErrorName",
    "cuGetExportTable",
    "cuStreamIsCapturing",
    "cuStreamIsCapturing_ptsz",
    "cuThreadExchangeStreamCaptureMode",
};
enum { OPEN = sizeof open_to_all / sizeof *open_to_all };

static bool is_open(const void *function) {
    static void *functions[OPEN];
    static bool known;
    if (!known)
        for (unsigned i = 0; i < OPEN; i++)
            functions[i] = gm_driver_symbol(open_to_all[i]);
    known = true;
    for (unsigned i = 0; i < OPEN; i++)
        if (functions[i] == function)
            return true;
    return false;
}

struct search {
    uintptr_t driver, function;
    bool together;
};

static int visit(struct dl_phdr_info *info, size_t size, void *argument) {
    struct search *search = argument;
    bool driver = false, function = false;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        uintptr_t start = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr, bytes = info->dlpi_phdr[i].p_memsz;
        if (info->dlpi_phdr[i].p_type != PT_LOAD)
            continue;
        driver |= search->driver - start < bytes;
        function |= search->function - start < bytes;
    }
    search->together = driver && function;
    return driver;
}

static bool is_of_driver(const void *function) {
    struct search search = {(uintptr_t)gm_drv.ctx_get_current, (uintptr_t)function, false};
    dl_iterate_phdr(visit, &search);
    return search.together;
}

/* Frees look for themselves whether they end what waits. */
void gm_hook_entered(enum gm_row row) {
    switch (row) {
    case GM_ROW_cuMemFree_v2:
    case GM_ROW_cuEventQuery:
    case GM_ROW_cuStreamQuery:
    case GM_ROW_cuStreamQuery_ptsz:
    case GM_ROW_cuEventElapsedTime:
    case GM_ROW_cuEventElapsedTime_v2:
    case GM_ROW_cuGetProcAddress:
    case GM_ROW_cuGetProcAddress_v2:
    case GM_ROW_cuMemGetInfo_v2:
    case GM_ROW_cuMemGetAddressRange_v2:
    case GM_ROW_cuDeviceTotalMem_v2: return;
    case GM_ROW_cuPointerGetAttribute:
    case GM_ROW_cuPointerGetAttributes: gm_handover_address_queried(); return;
    default: gm_handover_driver_entered();
    }
}

static bool overrun;

bool gm_trampolines_hold(void) { return !__atomic_load_n(&overrun, __ATOMIC_SEQ_CST); }

/* What waits is brought in order before the function that nobody watches is known to anyone. */
static void run_over(void) {
    if (!__atomic_exchange_n(&overrun, true, __ATOMIC_SEQ_CST))
        gm_log(GM_LOG_WARN,
               "GPUMEM_GROW: the program looked up more functions of the driver than can be watched (%d): no more "
               "pages move",
               TRAMPOLINES);
    gm_handover_driver_entered();
}

void *gm_trampoline_of(void *function) {
    if (is_open(function) || !is_of_driver(function))
        return function;
    gm_spin_lock(&lock);
    unsigned at = 0;
    while (at < count && gm_trampoline_functions[at] != function)
        at++;
    if (at == count && count < TRAMPOLINES)
        gm_trampoline_functions[count++] = function;
    gm_spin_unlock(&lock);
    if (at < TRAMPOLINES)
        return (void *)(gm_trampolines + (size_t)at * TRAMPOLINE_BYTES);
    run_over();
    return function;
}
