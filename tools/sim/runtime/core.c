/* Start of the simulated runtime, its errors and the look-ups it makes. It reaches the driver as NVIDIA's does:
 * one dlopen, one dlsym, then versioned look-ups for both kinds of default stream; every call goes through the
 * pointers that the look-ups gave. */
#include "runtime.h"
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

struct rt_driver rt_legacy, rt_per_thread;
PFN_cuCtxSynchronize_v13000 rt_synchronize;
static _Thread_local cudaError_t last_error;
static _Thread_local int current_device;
static _Thread_local bool device_chosen;
static cudaError_t start_result;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t primary_lock = PTHREAD_MUTEX_INITIALIZER;
static CUcontext primary[RT_MAX_DEVICES];

static PFN_cuGetProcAddress_v12000 look_up;

static void fetch(void *slot, const char *name, int version, int flags) {
    CUdriverProcAddressQueryResult found;
    void *fn = NULL;
    if (look_up(name, &fn, version, (cuuint64_t)flags, &found) != CUDA_SUCCESS)
        fn = NULL;
    memcpy(slot, &fn, sizeof fn);
}

#define FETCH(name, version)            fetch(&rt_legacy.name, #name, version, 0);
#define FETCH_TWIN(name, version, twin) fetch(&rt_legacy.name, #name, version, 0);
#define SKIP(name, version)
#define FETCH_PER_THREAD(name, version, twin) fetch(&rt_per_thread.name, #name, twin, 2);

static void start(void) {
    start_result = cudaErrorInsufficientDriver;
    void *lib = dlopen("libcuda.so.1", RTLD_NOW);
    if (!lib)
        return;
    void *entry = dlsym(lib, "cuGetProcAddress_v2");
    if (!entry)
        return;
    memcpy(&look_up, &entry, sizeof entry);
    RT_ROWS(FETCH, FETCH_TWIN)
    rt_per_thread = rt_legacy;
    RT_ROWS(SKIP, FETCH_PER_THREAD)
    fetch(&rt_synchronize, "cuCtxSynchronize", 13000, 0);
    start_result = rt_legacy.cuInit ? (cudaError_t)rt_legacy.cuInit(0) : cudaErrorInsufficientDriver;
}

cudaError_t rt_error(cudaError_t e) {
    if (e != cudaSuccess && e != cudaErrorNotReady)
        last_error = e;
    return e;
}

cudaError_t rt_driver_ready(void) {
    pthread_once(&once, start);
    return rt_error(start_result);
}

int rt_device(void) {
    CUdevice d;
    if (!device_chosen && rt_legacy.cuCtxGetDevice && rt_legacy.cuCtxGetDevice(&d) == CUDA_SUCCESS)
        return d;
    return current_device;
}

static cudaError_t make_current(int device) {
    CUresult r = CUDA_SUCCESS;
    pthread_mutex_lock(&primary_lock);
    if (!primary[device])
        r = rt_legacy.cuDevicePrimaryCtxRetain(&primary[device], device);
    CUcontext ctx = primary[device];
    pthread_mutex_unlock(&primary_lock);
    return (cudaError_t)(r ? r : rt_legacy.cuCtxSetCurrent(ctx));
}

cudaError_t rt_ready(void) {
    CUcontext ctx = NULL;
    cudaError_t e = rt_driver_ready();
    if (e != cudaSuccess)
        return e;
    rt_legacy.cuCtxGetCurrent(&ctx);
    return ctx ? cudaSuccess : rt_error(make_current(current_device));
}

RT_API cudaError_t cudaSetDevice(int device) {
    int count = 0;
    cudaError_t e = rt_driver_ready();
    if (e != cudaSuccess)
        return e;
    rt_legacy.cuDeviceGetCount(&count);
    if (device < 0 || device >= count || device >= RT_MAX_DEVICES)
        return rt_error(cudaErrorInvalidDevice);
    current_device = device;
    return rt_error(make_current(device));
}

RT_API cudaError_t cudaInitDevice(int device, unsigned int deviceFlags, unsigned int flags) {
    (void)deviceFlags;
    return cudaSetDevice(device);
}

RT_API cudaError_t cudaGetDevice(int *device) {
    cudaError_t e = rt_driver_ready();
    if (e != cudaSuccess)
        return e;
    if (!device)
        return rt_error(cudaErrorInvalidValue);
    *device = rt_device();
    return cudaSuccess;
}

RT_API cudaError_t cudaDeviceReset(void) {
    cudaError_t e = rt_driver_ready();
    if (e != cudaSuccess)
        return e;
    int device = rt_device();
    rt_forget_device(device);
    pthread_mutex_lock(&primary_lock);
    bool held = primary[device] != NULL;
    primary[device] = NULL;
    pthread_mutex_unlock(&primary_lock);
    rt_legacy.cuCtxSetCurrent(NULL);
    e = (cudaError_t)rt_legacy.cuDevicePrimaryCtxReset(device);
    if (held)
        rt_legacy.cuDevicePrimaryCtxRelease(device);
    last_error = cudaSuccess;
    return rt_error(e);
}

RT_API cudaError_t cudaGetLastError(void) {
    cudaError_t e = last_error;
    last_error = cudaSuccess;
    return e;
}

RT_API cudaError_t cudaPeekAtLastError(void) { return last_error; }

static const char *driver_text(cudaError_t error, bool name) {
    const char *text = NULL;
    if (rt_driver_ready() == cudaSuccess) {
        if (name)
            rt_legacy.cuGetErrorName((CUresult)error, &text);
        else
            rt_legacy.cuGetErrorString((CUresult)error, &text);
    }
    return text;
}

/* Names that the runtime spells differently from the driver. */
static const struct {
    cudaError_t code;
    const char *name, *text;
} own_names[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInitializationError, "cudaErrorInitializationError", "initialization error"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorInvalidDeviceFunction, "cudaErrorInvalidDeviceFunction", "invalid device function"},
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration", "invalid configuration argument"},
    {cudaErrorInsufficientDriver, "cudaErrorInsufficientDriver",
     "CUDA driver version is insufficient for CUDA runtime version"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorIllegalAddress, "cudaErrorIllegalAddress", "an illegal memory access was encountered"},
    {cudaErrorNotSupported, "cudaErrorNotSupported", "operation not supported"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorInvalidSymbol, "cudaErrorInvalidSymbol", "invalid device symbol"},
    {cudaErrorStreamCaptureUnsupported, "cudaErrorStreamCaptureUnsupported",
     "operation not permitted when stream is capturing"},
    {cudaErrorStreamCaptureInvalidated, "cudaErrorStreamCaptureInvalidated",
     "operation failed due to a previous error during capture"},
};

RT_API const char *cudaGetErrorName(cudaError_t error) {
    for (unsigned i = 0; i < sizeof own_names / sizeof own_names[0]; i++) {
        if (own_names[i].code == error)
            return own_names[i].name;
    }
    const char *text = driver_text(error, true);
    return text ? text : "unrecognized error code";
}

RT_API const char *cudaGetErrorString(cudaError_t error) {
    for (unsigned i = 0; i < sizeof own_names / sizeof own_names[0]; i++) {
        if (own_names[i].code == error)
            return own_names[i].text;
    }
    const char *text = driver_text(error, false);
    return text ? text : "unrecognized error code";
}

RT_API cudaError_t cudaDriverGetVersion(int *version) {
    if (!version)
        return rt_error(cudaErrorInvalidValue);
    *version = 0;
    if (rt_driver_ready() == cudaErrorInsufficientDriver)
        return cudaSuccess;
    return rt_error((cudaError_t)rt_legacy.cuDriverGetVersion(version));
}

RT_API cudaError_t cudaRuntimeGetVersion(int *version) {
    if (!version)
        return rt_error(cudaErrorInvalidValue);
    *version = CUDART_VERSION;
    return cudaSuccess;
}

/* ---- driver entry points ---- */

static cudaError_t entry_point(const char *symbol, void **out, unsigned version, unsigned long long flags,
                               enum cudaDriverEntryPointQueryResult *status, bool per_thread) {
    CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    cudaError_t e = rt_driver_ready();
    if (e != cudaSuccess)
        return e;
    if (flags == 0 && per_thread)
        flags = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
    e = (cudaError_t)rt_legacy.cuGetProcAddress(symbol, out, (int)version, flags, &found);
    if (status)
        *status = (enum cudaDriverEntryPointQueryResult)found;
    return rt_error(e);
}

RT_API cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **funcPtr, unsigned int cudaVersion,
                                                    unsigned long long flags,
                                                    enum cudaDriverEntryPointQueryResult *driverStatus) {
    return entry_point(symbol, funcPtr, cudaVersion, flags, driverStatus, false);
}

RT_API cudaError_t cudaGetDriverEntryPointByVersion_ptsz(const char *symbol, void **funcPtr, unsigned int version,
                                                         unsigned long long flags,
                                                         enum cudaDriverEntryPointQueryResult *driverStatus);
RT_API cudaError_t cudaGetDriverEntryPointByVersion_ptsz(const char *symbol, void **funcPtr, unsigned int version,
                                                         unsigned long long flags,
                                                         enum cudaDriverEntryPointQueryResult *driverStatus) {
    return entry_point(symbol, funcPtr, version, flags, driverStatus, true);
}

RT_API cudaError_t cudaGetDriverEntryPoint(const char *symbol, void **funcPtr, unsigned long long flags,
                                           enum cudaDriverEntryPointQueryResult *driverStatus) {
    return entry_point(symbol, funcPtr, CUDART_VERSION, flags, driverStatus, false);
}

RT_API cudaError_t cudaGetDriverEntryPoint_ptsz(const char *symbol, void **funcPtr, unsigned long long flags,
                                                enum cudaDriverEntryPointQueryResult *driverStatus);
RT_API cudaError_t cudaGetDriverEntryPoint_ptsz(const char *symbol, void **funcPtr, unsigned long long flags,
                                                enum cudaDriverEntryPointQueryResult *driverStatus) {
    return entry_point(symbol, funcPtr, CUDART_VERSION, flags, driverStatus, true);
}
