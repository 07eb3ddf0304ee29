/* Fills the table of gm_program_driver once, at the first call. The preloaded library is found by a symbol that only
 * it exports. Its cuGetProcAddress then names the hook of each driver function. */
#include "shim/driver/program_driver.h"

#include "shim/base/error.h"

#include <dlfcn.h>

#include "shim/base/base.h"
#include "shim/base/real_dl.h"
#include "shim/driver/call.h"

enum { FIRST_DEVICE = 0 };

static struct gm_driver hooked;
static const struct gm_driver *published; /* set when the table is complete */
static bool filling;                      /* or filled */

/* The resolver of the preloaded library returns the hooks that are active in this run. */
static void *find_hook(gm_resolver *resolver, const struct gm_call_row *row, void *original) {
    void *hook = original ? gm_driver_resolve(resolver, row) : NULL;
    return hook ? hook : original;
}

static void fill_hooked(gm_resolver *resolver) {
#define X(field, symbol, optional) \
    hooked.field = (__typeof__(hooked.field))find_hook(resolver, &gm_call_rows[GM_AT_##symbol], (void *)gm_drv.field);
    GM_DRIVER_SYMBOLS(X)
#undef X
}

const struct gm_driver *gm_program_driver(void) {
    const struct gm_driver *known = __atomic_load_n(&published, __ATOMIC_ACQUIRE);
    if (known)
        return known;
    if (!gm_driver_ready(true))
        return NULL;
    gm_resolver *resolver = NULL;
    if (gm_real_dlsym(RTLD_DEFAULT, GM_NAME_OF(GM_PRELOADED_TRIM)))
        resolver = (gm_resolver *)gm_real_dlsym(RTLD_DEFAULT, "cuGetProcAddress_v2");
    if (!resolver) {
        __atomic_store_n(&published, &gm_drv, __ATOMIC_RELEASE);
        return &gm_drv;
    }
    if (__atomic_exchange_n(&filling, true, __ATOMIC_RELAXED))
        return &gm_drv; /* another thread is filling the table */
    fill_hooked(resolver);
    __atomic_store_n(&published, &hooked, __ATOMIC_RELEASE);
    return &hooked;
}

/* As the CUDA runtime does it. The first use retains the context for good: memory of the program lies in it. */
static GM_RARE gm_status enter_primary(const struct gm_driver *driver) {
    static bool retained;
    CUcontext primary;
    unsigned flags;
    int active = 0;
    gm_status status = driver->init(0);
    if (!status)
        status = driver->primary_get_state(FIRST_DEVICE, &flags, &active);
    if (!status)
        status = driver->primary_retain(&primary, FIRST_DEVICE);
    if (status)
        return status;
    status = driver->ctx_push(primary);
    bool first = !__atomic_exchange_n(&retained, true, __ATOMIC_RELAXED) || !active;
    if (driver->primary_release && !first)
        driver->primary_release(FIRST_DEVICE);
    return status;
}

/* Not where the driver cannot say which context is current: another one must not take its place. */
static gm_status enter_first(const struct gm_driver *driver) {
    CUcontext now = NULL;
    CUresult result = driver->ctx_get_current(&now);
    if (now || (result && result != CUDA_ERROR_NOT_INITIALIZED))
        return result ? (gm_status)result : GM_INVALID_CONTEXT;
    return enter_primary(driver);
}

gm_status gm_program_context(struct gm_context *context) {
    const struct gm_driver *driver = gm_program_driver();
    if (!driver)
        return gm_fail(GM_NOT_INITIALIZED, "no driver: libcuda.so.1 cannot be loaded");
    if (GM_LIKELY(gm_context_current(context)))
        return GM_OK;
    gm_status status = enter_first(driver);
    if (!status && gm_context_current(context))
        return GM_OK;
    return gm_fail(status ? status : GM_INVALID_CONTEXT,
                   "no context is current in this thread, and that of device 0 cannot be entered: CUresult %d",
                   (int)status);
}
