/* Hooks of look-ups: dlsym, dlvsym, cuGetProcAddress. The true look-up runs first. When it returns a function of the
 * driver, the look-up returns the entry of that function instead (entry_points.h). So versions and per-thread twins are
 * always right, and an entry is returned only where the driver has the function. */
#include "shim/hook/entry_points.h"
#include "shim/hook/coverage.h"
#include "shim/hook/hook.h"
#include "shim/hook/nvml.h"

#include <dlfcn.h>

#include "shim/base/real_dl.h"
#include "shim/driver/transports.h"

typedef void *(*dlsym_function)(void *, const char *);
typedef void *(*dlvsym_function)(void *, const char *, const char *);

/* The next dlsym and dlvsym: those of another interposer after gpumem, or of the C library. Read by entry.S. */
GM_INTERNAL dlsym_function gm_next_dlsym;
GM_INTERNAL dlvsym_function gm_next_dlvsym;
GM_INTERNAL int gm_route_dlsym(void *handle, const char *name, const char *unused, void **result, void *caller);
GM_INTERNAL int gm_route_dlvsym(void *handle, const char *name, const char *version, void **result, void *caller);

static __thread __attribute__((tls_model("initial-exec"))) bool looking;

/* cudnn*, cublas* and curl_* are not functions of the driver. */
static bool is_driver_name(const char *name) {
    return name && name[0] == 'c' && name[1] == 'u' && name[2] >= 'A' && name[2] <= 'Z';
}

/* Sanitizers look up other names before instrumented code may run. */
static bool is_nvml_name(const char *name) {
    return name && name[0] == 'n' && name[1] == 'v' && name[2] == 'm' && name[3] == 'l';
}

static inline bool is_hooked_name(const char *name) {
    return is_driver_name(name) || (is_nvml_name(name) && gm_nvml_is_hooked(name));
}

static void *next_function(const char *name) {
    void *next = gm_real_dlsym(RTLD_NEXT, name);
    next = next ? next : gm_elf_symbol("libc.so", name);
    return next ? next : gm_elf_symbol("libdl.so", name);
}

static void find_next(void) {
    __atomic_store_n(&gm_next_dlvsym, (dlvsym_function)next_function("dlvsym"), __ATOMIC_RELEASE);
    __atomic_store_n(&gm_next_dlsym, (dlsym_function)next_function("dlsym"), __ATOMIC_RELEASE);
}

static void *route_to(void *function, const char *name, enum gm_look_up by) {
    bool hooked;
    void *entry = gm_route(function, name, by, &hooked);
    if (!hooked)
        gm_route_unhooked(name);
    return entry;
}

/* The result of a successful look-up of a driver's name. */
static void *answer_lookup(void *function, const char *name) {
    if (gm_is_entry(function)) /* gpumem's own export, found through the program's own scope */
        return (gm_hooks_ready() || gm_driver_ready(false)) && gm_driver_symbol(name) ? function : NULL;
    if (!gm_hooks_ready())
        return function;
    return route_to(function, name, GM_BY_DLSYM);
}

/* The common part. 0: gpumem does not answer, and the entry jumps on with the caller's own return address. */
static int route(void *handle, const char *name, void *found, void **result) {
    if (found) {
        *result = is_driver_name(name) ? answer_lookup(found, name) : gm_nvml_route(name, found);
        if (!*result) /* gpumem's export must not make the program believe in a driver that is not there: set the C
                         library's error */
            gm_real_dlsym(RTLD_NEXT, name);
        return 1;
    }
    /* Not found from gpumem's scope. The caller's own scope may have more. */
    if (handle == RTLD_DEFAULT)
        return 0;
    *result = NULL;
    return 1;
}

/* The program is about to use a library that registers memory. */
static inline void look_for_card(const char *name) {
    if (__atomic_load_n(&gm_hooks_active, __ATOMIC_ACQUIRE) && name && GM_UNLIKELY(gm_is_rdma_name(name)))
        gm_rdma_in_process();
}

/* False: gpumem does not look. Otherwise `looking` is set. */
static inline bool looks(void *handle, const char *name, void *caller) {
    if (GM_UNLIKELY(!__atomic_load_n(&gm_next_dlsym, __ATOMIC_ACQUIRE))) /* the other one is stored before */
        find_next();
    if (GM_LIKELY(!is_hooked_name(name)) || handle == RTLD_NEXT || looking) {
        look_for_card(name);
        return false;
    }
    gm_note_caller(caller);
    return looking = true;
}

static int looked(int answered) {
    looking = false;
    return answered;
}

int gm_route_dlsym(void *handle, const char *name, const char *unused, void **result, void *caller) {
    if (GM_LIKELY(!looks(handle, name, caller)))
        return 0;
    return looked(route(handle, name, __atomic_load_n(&gm_next_dlsym, __ATOMIC_RELAXED)(handle, name), result));
}

int gm_route_dlvsym(void *handle, const char *name, const char *version, void **result, void *caller) {
    if (GM_LIKELY(!looks(handle, name, caller)))
        return 0;
    dlvsym_function next = __atomic_load_n(&gm_next_dlvsym, __ATOMIC_RELAXED);
    return looked(route(handle, name, next(handle, name, version), result));
}

static CUresult routed(CUresult result, const char *symbol, void **function) {
    if (result == CUDA_SUCCESS && function && *function)
        *function = route_to(*function, symbol, GM_BY_RESOLVER);
    return result;
}

CUresult CUDAAPI gm_hook_cuGetProcAddress(const char *symbol, void **function, int version, cuuint64_t flags) {
    ENTER(cuGetProcAddress, symbol, function, version, flags);
    gm_note_caller(__builtin_return_address(0));
    LEAVE(routed(gm_real.cuGetProcAddress(symbol, function, version, flags), symbol, function));
}

CUresult CUDAAPI gm_hook_cuGetProcAddress_v2(const char *symbol, void **function, int version, cuuint64_t flags,
                                             CUdriverProcAddressQueryResult *status) {
    ENTER(cuGetProcAddress_v2, symbol, function, version, flags, status);
    gm_note_caller(__builtin_return_address(0));
    LEAVE(routed(gm_real.cuGetProcAddress_v2(symbol, function, version, flags, status), symbol, function));
}
