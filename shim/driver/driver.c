#include "shim/driver/driver.h"

#include <dlfcn.h>

#include "shim/base/base.h"
#include "shim/base/truedl.h"

struct gm_driver gm_drv;

static void *library; /* published last: non-NULL means the table is complete */
static gm_spin lock;

typedef CUresult (*get_proc_address)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);

/* Optional functions are asked of the resolver, which knows what the driver really offers; the rest by their exact names. */
static void *find(void *handle, get_proc_address resolver, const char *symbol, const char *name, int version, bool optional) {
    void *function = NULL;
#ifdef GM_TEST_HIDE /* builds for tests only: a driver without this function */
    if (__builtin_strcmp(symbol, GM_TEST_HIDE) == 0)
        return NULL;
#endif
    if (optional && resolver) {
        size_t length = __builtin_strlen(symbol);
        bool twin = length > 5 && __builtin_strcmp(symbol + length - 5, "_ptsz") == 0;
        cuuint64_t flags = twin ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM : CU_GET_PROC_ADDRESS_LEGACY_STREAM;
        if (resolver(name, &function, version, flags, NULL) != CUDA_SUCCESS)
            function = NULL;
        return function;
    }
    return gm_true_dlsym(handle, symbol);
}

static bool fill(void *handle) {
    get_proc_address resolver = (get_proc_address)gm_true_dlsym(handle, "cuGetProcAddress_v2");
    const char *missing = NULL;
#define X(field, symbol, name, version, optional)                                                            \
    gm_drv.field = (__typeof__(gm_drv.field))find(handle, resolver, #symbol, name, version, optional);       \
    if (!gm_drv.field && !(optional))                                                                        \
        missing = #symbol;
    GM_DRIVER_SYMBOLS(X)
#undef X
    if (missing)
        gm_log(GM_LOG_ERROR, "libcuda.so.1 has no %s: stepping aside", missing);
    return !missing;
}

bool gm_driver_ready(bool load) {
    static bool unusable;

    if (GM_LIKELY(__atomic_load_n(&library, __ATOMIC_ACQUIRE) != NULL))
        return true;
    if (__atomic_load_n(&unusable, __ATOMIC_RELAXED))
        return false;
    void *handle = gm_true_dlopen("libcuda.so.1", RTLD_LAZY | (load ? 0 : RTLD_NOLOAD));
    if (!handle)
        return false;
    gm_spin_lock(&lock);
    if (!library) {
        if (fill(handle))
            __atomic_store_n(&library, handle, __ATOMIC_RELEASE);
        else
            __atomic_store_n(&unusable, true, __ATOMIC_RELAXED);
    }
    gm_spin_unlock(&lock);
    return library != NULL;
}

void gm_driver_use(const struct gm_driver *table) {
    gm_drv = *table;
    __atomic_store_n(&library, &gm_drv, __ATOMIC_RELEASE);
}

void *gm_driver_handle(void) { return __atomic_load_n(&library, __ATOMIC_ACQUIRE); }

void *gm_driver_symbol(const char *symbol) {
    void *handle = gm_driver_handle();
    return handle ? gm_true_dlsym(handle, symbol) : NULL;
}
