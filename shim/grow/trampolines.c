#include "shim/grow/trampolines.h"

#include "shim/base/libraries.h"
#include "shim/driver/driver.h"
#include "shim/driver/functions.h"

enum { TRAMPOLINES = 1024, TRAMPOLINE_BYTES = 16 }; /* as in entry.S */

GM_INTERNAL extern const char gm_trampolines[];
GM_INTERNAL extern void *gm_trampoline_functions[TRAMPOLINES];
void *gm_trampoline_functions[TRAMPOLINES];
int gm_trampolines_active;

static unsigned count;
static gm_spin lock;
static bool incomplete;
static void (*on_run_out)(void);

void gm_trampolines_start(void (*run_out)(void)) { on_run_out = run_out; }

/* These wait for work or report facts. They submit no work and change no memory. */
static const char *const passive_functions[] = {
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

static struct gm_driver_functions passive = GM_DRIVER_FUNCTIONS(passive_functions);

static bool is_passive(const void *function) { return gm_driver_function_row(&passive, function) >= 0; }

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

bool gm_trampolines_complete(void) { return !__atomic_load_n(&incomplete, __ATOMIC_SEQ_CST); }

static void run_out(void) {
    if (!__atomic_exchange_n(&incomplete, true, __ATOMIC_SEQ_CST))
        gm_log(GM_LOG_WARN,
               "GPUMEM_GROW: the program looked up more than %d functions of the driver: page handover is off",
               TRAMPOLINES);
    on_run_out();
}

void *gm_trampoline_of(void *function) {
    if (is_passive(function) || !is_of_driver(function))
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
    run_out();
    return function;
}

void gm_trampolines_after_fork(void) {
    lock.held = 0;
    gm_trampolines_active = 0;
}
