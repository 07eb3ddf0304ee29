/* Registration of fat binaries, kernel launches, variables. */
#include "runtime.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct variable {
    const void *host;
    char *name;
    size_t size;
    void **managed; /* where the program keeps the address of a managed variable */
    struct variable *next;
};
struct kernel {
    const void *host;
    char *name;
    CUfunction function[RT_MAX_DEVICES];
    struct kernel *next;
    struct module *module;
};
struct module {
    struct kernel *kernels;
    struct variable *variables;
    CUlibrary library[RT_MAX_DEVICES];
    struct module *next;
};
static struct module *modules;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

struct configuration {
    dim3 grid, block;
    size_t shared;
    cudaStream_t stream;
};
static _Thread_local struct configuration stack[16];
static _Thread_local unsigned depth;

RT_API void **__cudaRegisterFatBinary(void *fatCubin);
RT_API void __cudaRegisterFatBinaryEnd(void **handle);
RT_API void __cudaUnregisterFatBinary(void **handle);
RT_API void __cudaRegisterFunction(void **handle, const char *hostFun, char *deviceFun, const char *deviceName,
                                   int threadLimit, uint3 *tid, uint3 *bid, dim3 *bDim, dim3 *gDim, int *wSize);
RT_API void __cudaRegisterVar(void **handle, char *hostVar, char *deviceAddress, const char *deviceName, int ext,
                              size_t size, int constant, int global);
RT_API void __cudaRegisterManagedVar(void **handle, void **hostVar, char *deviceAddress, const char *deviceName,
                                     int ext, size_t size, int constant, int global);
RT_API void __cudaRegisterTexture(void **handle, const void *hostVar, const void **deviceAddress, const char *name,
                                  int dim, int norm, int ext);
RT_API void __cudaRegisterSurface(void **handle, const void *hostVar, const void **deviceAddress, const char *name,
                                  int dim, int ext);
RT_API char __cudaInitModule(void **handle);
RT_API unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, struct CUstream_st *stream);
RT_API cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream);
RT_API cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *host);
RT_API cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **args, size_t shared,
                                      cudaStream_t stream);
RT_API cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t kernel, dim3 grid, dim3 block, void **args, size_t shared,
                                           cudaStream_t stream);

void **__cudaRegisterFatBinary(void *fatCubin) {
    (void)fatCubin;
    struct module *m = calloc(1, sizeof *m);
    pthread_mutex_lock(&lock);
    m->next = modules;
    modules = m;
    pthread_mutex_unlock(&lock);
    return (void **)m;
}

void __cudaRegisterFatBinaryEnd(void **handle) { (void)handle; }

/* Runs at exit, when the driver may be gone: forgets, calls nothing. */
void __cudaUnregisterFatBinary(void **handle) {
    struct module *m = (struct module *)handle;
    pthread_mutex_lock(&lock);
    for (struct module **link = &modules; *link; link = &(*link)->next) {
        if (*link == m) {
            *link = m->next;
            break;
        }
    }
    pthread_mutex_unlock(&lock);
    for (struct kernel *k = m->kernels, *next; k; k = next) {
        next = k->next;
        free(k->name);
        free(k);
    }
    for (struct variable *v = m->variables, *next; v; v = next) {
        next = v->next;
        free(v->name);
        free(v);
    }
    free(m);
}

void __cudaRegisterFunction(void **handle, const char *hostFun, char *deviceFun, const char *deviceName,
                            int threadLimit, uint3 *tid, uint3 *bid, dim3 *bDim, dim3 *gDim, int *wSize) {
    (void)deviceFun;
    (void)threadLimit;
    (void)bDim;
    (void)gDim;
    (void)wSize;
    struct module *m = (struct module *)handle;
    struct kernel *k = calloc(1, sizeof *k);
    pthread_mutex_lock(&lock); /* other threads search this module already */
    *k = (struct kernel){.host = hostFun, .name = strdup(deviceName), .module = m, .next = m->kernels};
    m->kernels = k;
    pthread_mutex_unlock(&lock);
}

static void add_variable(struct module *m, const void *host, const char *name, size_t size, void **managed) {
    struct variable *v = calloc(1, sizeof *v);
    pthread_mutex_lock(&lock);
    *v = (struct variable){.host = host, .name = strdup(name), .size = size, .managed = managed, .next = m->variables};
    m->variables = v;
    pthread_mutex_unlock(&lock);
}

void __cudaRegisterVar(void **handle, char *hostVar, char *deviceAddress, const char *deviceName, int ext, size_t size,
                       int constant, int global) {
    (void)deviceAddress;
    add_variable((struct module *)handle, hostVar, deviceName, size, NULL);
}

void __cudaRegisterManagedVar(void **handle, void **hostVar, char *deviceAddress, const char *deviceName, int ext,
                              size_t size, int constant, int global) {
    (void)deviceAddress;
    add_variable((struct module *)handle, hostVar, deviceName, size, hostVar);
}

void __cudaRegisterTexture(void **handle, const void *hostVar, const void **deviceAddress, const char *name, int dim,
                           int norm, int ext) {
    (void)handle, (void)hostVar, (void)deviceAddress, (void)name, (void)dim, (void)norm, (void)ext;
}

void __cudaRegisterSurface(void **handle, const void *hostVar, const void **deviceAddress, const char *name, int dim,
                           int ext) {
    (void)handle, (void)hostVar, (void)deviceAddress, (void)name, (void)dim, (void)ext;
}

/* ---- loading ---- */

/* What the simulated driver reads in place of machine code: the variables with their sizes. */
static char *image_of(const struct module *m) {
    size_t size = 16;
    for (const struct variable *v = m->variables; v; v = v->next)
        size += strlen(v->name) + 64;
    char *text = malloc(size);
    size_t n = (size_t)snprintf(text, size, "#simcuda\n");
    for (const struct variable *v = m->variables; v; v = v->next)
        n += (size_t)snprintf(text + n, size - n, "global %s %zu%s\n", v->name, v->size, v->managed ? " managed" : "");
    return text;
}

static cudaError_t load(struct module *m, int device) {
    if (m->library[device])
        return cudaSuccess;
    char *image = image_of(m);
    CUresult r = rt_legacy.cuLibraryLoadData(&m->library[device], image, NULL, NULL, 0, NULL, NULL, 0);
    free(image);
    for (struct variable *v = m->variables; v && r == CUDA_SUCCESS; v = v->next) {
        CUdeviceptr p;
        size_t bytes;
        if (v->managed && (r = rt_legacy.cuLibraryGetGlobal(&p, &bytes, m->library[device], v->name)) == CUDA_SUCCESS)
            *v->managed = (void *)(uintptr_t)p;
    }
    return (cudaError_t)r;
}

char __cudaInitModule(void **handle) {
    if (rt_ready() != cudaSuccess)
        return 0;
    pthread_mutex_lock(&lock);
    cudaError_t e = load((struct module *)handle, rt_device());
    pthread_mutex_unlock(&lock);
    rt_error(e);
    return e == cudaSuccess;
}

static cudaError_t resolve(struct kernel *k, CUfunction *f) {
    int device = rt_device();
    CUkernel kernel;
    if (!k->function[device]) {
        cudaError_t e = load(k->module, device);
        if (e != cudaSuccess)
            return e;
        CUresult r = rt_legacy.cuLibraryGetKernel(&kernel, k->module->library[device], k->name);
        if (r == CUDA_SUCCESS)
            r = rt_legacy.cuKernelGetFunction(&k->function[device], kernel);
        if (r != CUDA_SUCCESS)
            return (cudaError_t)r;
    }
    *f = k->function[device];
    return cudaSuccess;
}

static struct kernel *kernel_of(const void *host) {
    for (struct module *m = modules; m; m = m->next) {
        for (struct kernel *k = m->kernels; k; k = k->next) {
            if (k->host == host || (const void *)k == host)
                return k;
        }
    }
    return NULL;
}

cudaError_t rt_function(const void *host, CUfunction *f) {
    pthread_mutex_lock(&lock);
    struct kernel *k = kernel_of(host);
    cudaError_t e = k ? resolve(k, f) : cudaErrorInvalidDeviceFunction;
    pthread_mutex_unlock(&lock);
    return rt_error(e);
}

cudaError_t rt_variable(const void *host, CUdeviceptr *p, size_t *size) {
    cudaError_t e = cudaErrorInvalidSymbol;
    int device = rt_device();
    pthread_mutex_lock(&lock);
    for (struct module *m = modules; m; m = m->next) {
        for (struct variable *v = m->variables; v; v = v->next) {
            if (v->host != host)
                continue;
            e = load(m, device);
            if (e == cudaSuccess)
                e = (cudaError_t)rt_legacy.cuLibraryGetGlobal(p, size, m->library[device], v->name);
        }
    }
    pthread_mutex_unlock(&lock);
    return rt_error(e);
}

void rt_forget_device(int device) {
    pthread_mutex_lock(&lock);
    for (struct module *m = modules; m; m = m->next) {
        if (m->library[device])
            rt_legacy.cuLibraryUnload(m->library[device]);
        m->library[device] = NULL;
        for (struct kernel *k = m->kernels; k; k = k->next)
            k->function[device] = NULL;
    }
    pthread_mutex_unlock(&lock);
}

/* ---- launches ---- */

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, struct CUstream_st *stream) {
    if (depth == sizeof stack / sizeof stack[0])
        return 1;
    stack[depth++] = (struct configuration){grid, block, shared, stream};
    return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream) {
    if (depth == 0)
        return rt_error(cudaErrorMissingConfiguration);
    const struct configuration *c = &stack[--depth];
    *grid = c->grid;
    *block = c->block;
    *shared = c->shared;
    *(cudaStream_t *)stream = c->stream;
    return cudaSuccess;
}

static cudaError_t launch(const struct rt_driver *d, const void *host, dim3 grid, dim3 block, void **args,
                          size_t shared, cudaStream_t stream) {
    CUfunction f;
    RT_READY();
    cudaError_t e = rt_function(host, &f);
    if (e != cudaSuccess)
        return e;
    CUresult r =
        d->cuLaunchKernel(f, grid.x, grid.y, grid.z, block.x, block.y, block.z, (unsigned)shared, stream, args, NULL);
    /* A configuration that the driver calls an invalid value has its own error here. */
    return rt_error(r == CUDA_ERROR_INVALID_VALUE ? cudaErrorInvalidConfiguration : (cudaError_t)r);
}

RT_TWIN(_ptsz, cudaLaunchKernel,
        (const void *func, dim3 gridDim, dim3 blockDim, void **args, size_t sharedMem, cudaStream_t stream),
        (func, gridDim, blockDim, args, sharedMem, stream)) {
    return launch(d, func, gridDim, blockDim, args, sharedMem, stream);
}

RT_TWIN(_ptsz, cudaLaunchCooperativeKernel,
        (const void *func, dim3 gridDim, dim3 blockDim, void **args, size_t sharedMem, cudaStream_t stream),
        (func, gridDim, blockDim, args, sharedMem, stream)) {
    CUfunction f;
    RT_READY();
    cudaError_t e = rt_function(func, &f);
    if (e != cudaSuccess)
        return e;
    return rt_error((cudaError_t)d->cuLaunchCooperativeKernel(
        f, gridDim.x, gridDim.y, gridDim.z, blockDim.x, blockDim.y, blockDim.z, (unsigned)sharedMem, stream, args));
}

RT_TWIN(_ptsz, cudaLaunchKernelExC, (const cudaLaunchConfig_t *config, const void *func, void **args),
        (config, func, args)) {
    CUfunction f;
    RT_READY();
    cudaError_t e = rt_function(func, &f);
    if (e != cudaSuccess)
        return e;
    CUlaunchConfig c = {.gridDimX = config->gridDim.x,
                        .gridDimY = config->gridDim.y,
                        .gridDimZ = config->gridDim.z,
                        .blockDimX = config->blockDim.x,
                        .blockDimY = config->blockDim.y,
                        .blockDimZ = config->blockDim.z,
                        .sharedMemBytes = (unsigned)config->dynamicSmemBytes,
                        .hStream = config->stream};
    return rt_error((cudaError_t)d->cuLaunchKernelEx(&c, f, args, NULL));
}

/* A cudaKernel_t is the registered kernel; which device's function it is shows at the launch. */
cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *host) {
    pthread_mutex_lock(&lock);
    struct kernel *k = kernel_of(host);
    pthread_mutex_unlock(&lock);
    *kernel = (cudaKernel_t)k;
    return k ? cudaSuccess : rt_error(cudaErrorInvalidDeviceFunction);
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **args, size_t shared,
                               cudaStream_t stream) {
    return launch(&rt_legacy, kernel, grid, block, args, shared, stream);
}

cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t kernel, dim3 grid, dim3 block, void **args, size_t shared,
                                    cudaStream_t stream) {
    return launch(&rt_per_thread, kernel, grid, block, args, shared, stream);
}

RT_API cudaError_t cudaGetKernel(cudaKernel_t *kernelPtr, const void *entryFuncAddr) {
    return __cudaGetKernel(kernelPtr, entryFuncAddr);
}

RT_API cudaError_t cudaGetFuncBySymbol(cudaFunction_t *functionPtr, const void *symbolPtr) {
    RT_READY();
    return rt_function(symbolPtr, (CUfunction *)functionPtr);
}

RT_API cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attr, const void *func) {
    CUfunction f;
    RT_READY();
    cudaError_t e = rt_function(func, &f);
    if (e != cudaSuccess || !attr)
        return e ? e : rt_error(cudaErrorInvalidValue);
    memset(attr, 0, sizeof *attr);
    rt_legacy.cuFuncGetAttribute(&attr->maxThreadsPerBlock, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, f);
    rt_legacy.cuFuncGetAttribute(&attr->numRegs, CU_FUNC_ATTRIBUTE_NUM_REGS, f);
    rt_legacy.cuFuncGetAttribute(&attr->ptxVersion, CU_FUNC_ATTRIBUTE_PTX_VERSION, f);
    rt_legacy.cuFuncGetAttribute(&attr->binaryVersion, CU_FUNC_ATTRIBUTE_BINARY_VERSION, f);
    rt_legacy.cuFuncGetAttribute(&attr->maxDynamicSharedSizeBytes, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, f);
    return cudaSuccess;
}
