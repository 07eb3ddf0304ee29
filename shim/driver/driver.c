/* Finds the functions of the real driver and fills the table gm_drv (driver.h). Three functions of the table wait for
 * the device. They are wrapped, so that a cancelled thread of the program cannot end inside a wait that gpumem makes.
 */
#include "shim/driver/driver.h"

#include <dlfcn.h>

#include "shim/base/base.h"
#include "shim/base/once.h"
#include "shim/base/real_dl.h"
#include "shim/driver/call.h"

struct gm_driver gm_drv;

static void *library; /* set last: non-NULL means that the table is complete */

void *gm_driver_resolve(gm_resolver *resolver, const struct gm_call_row *row) {
    cuuint64_t flags = row->twin ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM : CU_GET_PROC_ADDRESS_LEGACY_STREAM;
    void *function = NULL;
    return resolver(row->name, &function, row->version, flags, NULL) == CUDA_SUCCESS ? function : NULL;
}

/* Optional functions come from cuGetProcAddress, which knows what the driver really offers. The others are looked up
 * by their exact names. */
static void *find_function(void *handle, gm_resolver *resolver, const struct gm_call_row *row, bool optional) {
#ifdef GM_TEST_HIDE /* only in builds for tests: simulates a driver without this function */
    if (__builtin_strcmp(row->symbol, GM_TEST_HIDE) == 0)
        return NULL;
#endif
    return optional && resolver ? gm_driver_resolve(resolver, row) : gm_real_dlsym(handle, row->symbol);
}

/* gpumem's own waits for the device. The program did not make these calls, so a thread that the program cancels must
 * not end in them. */
#define WAIT(field, parameter, argument)             \
    static __typeof__(gm_drv.field) true_##field;    \
    static CUresult CUDAAPI hold_##field parameter { \
        gm_cancel_hold();                            \
        CUresult result = true_##field argument;     \
        gm_cancel_release();                         \
        return result;                               \
    }
WAIT(ctx_synchronize, (void), ())
WAIT(stream_synchronize, (CUstream stream), (stream))
WAIT(event_synchronize, (CUevent event), (event))
#undef WAIT

static void hold_waits(struct gm_driver *table) {
#define WAIT(field)                  \
    if (table->field) {              \
        true_##field = table->field; \
        table->field = hold_##field; \
    }
    WAIT(ctx_synchronize)
    WAIT(stream_synchronize)
    WAIT(event_synchronize)
#undef WAIT
}

static bool fill_table(void *handle, struct gm_driver *table) {
    gm_resolver *resolver = (gm_resolver *)gm_real_dlsym(handle, "cuGetProcAddress_v2");
    const char *missing = NULL;
    static int reported;
#define X(field, symbol, optional)                                                                                     \
    table->field = (__typeof__(table->field))find_function(handle, resolver, &gm_call_rows[GM_AT_##symbol], optional); \
    if (!table->field && !(optional))                                                                                  \
        missing = #symbol;
    GM_DRIVER_SYMBOLS(X)
#undef X
    if (missing)
        gm_log_once(&reported, GM_LOG_ERROR, "libcuda.so.1 has no %s: gpumem stays inactive", missing);
    return !missing;
}

/* Calls read the table plainly. So one thread stores it, and others wait for the moment that this takes. */
static bool publish_table(void *handle, struct gm_driver *table) {
    static struct gm_once storing;
    if (!gm_once_begin(&storing))
        return gm_driver_handle() != NULL;
    hold_waits(table);
#define X(field, symbol, optional) __atomic_store_n(&gm_drv.field, table->field, __ATOMIC_RELAXED);
    GM_DRIVER_SYMBOLS(X)
#undef X
    __atomic_store_n(&library, handle, __ATOMIC_RELEASE);
    gm_once_end(&storing);
    return true;
}

/* Takes no lock for the look-ups. They wait for the loader's lock, and the thread that holds that lock, in a
 * constructor of a library, may call this function, too. Several early threads may all fill a table. */
bool gm_driver_ready(bool load) {
    static bool unusable;
    struct gm_driver table;

    if (GM_LIKELY(__atomic_load_n(&library, __ATOMIC_ACQUIRE) != NULL))
        return true;
    if (__atomic_load_n(&unusable, __ATOMIC_RELAXED))
        return false;
    void *handle = gm_real_dlopen("libcuda.so.1", RTLD_LAZY | (load ? 0 : RTLD_NOLOAD));
    if (!handle)
        return false;
    if (!fill_table(handle, &table)) {
        __atomic_store_n(&unusable, true, __ATOMIC_RELAXED);
        return false;
    }
    return publish_table(handle, &table);
}

void gm_driver_use(const struct gm_driver *table) {
    gm_drv = *table;
    hold_waits(&gm_drv);
    __atomic_store_n(&library, &gm_drv, __ATOMIC_RELEASE);
}

void *gm_driver_handle(void) { return __atomic_load_n(&library, __ATOMIC_ACQUIRE); }

void *gm_driver_symbol(const char *symbol) {
    void *handle = gm_driver_handle();
    return handle ? gm_real_dlsym(handle, symbol) : NULL;
}

unsigned gm_memory_type(const struct gm_driver *driver, CUdeviceptr address, bool *managed) {
    CUpointer_attribute names[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED};
    unsigned type = 0, is_managed = 0;
    void *values[] = {&type, &is_managed};
    bool known = driver->pointer_get_attributes(2, names, values, address) == CUDA_SUCCESS;
    *managed = known && is_managed;
    return known ? type : 0;
}
