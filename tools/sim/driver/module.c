/* Modules, libraries and their kernels.
 *
 * Images are not parsed: every kernel name exists in every module, and its host twin decides what a launch
 * does.  The simulated runtime (and tests) load a text image instead, which also declares variables:
 *     #simcuda
 *     global NAME BYTES [managed] */
#include "sim.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MODULE_MAGIC   0x4d4f4431u
#define FUNCTION_MAGIC 0x464e4331u

struct global {
    char *name;
    size_t size;
    bool managed;
    struct sim_block *block;
    struct global *next;
};
struct CUmod_st {
    unsigned magic;
    struct sim_ctx *ctx;
    bool library;
    struct CUfunc_st *functions;
    struct global *globals;
};

bool sim_function_valid(const struct CUfunc_st *f) { return f && f->magic == FUNCTION_MAGIC; }
static bool valid(CUmodule m) { return m && m->magic == MODULE_MAGIC; }

static CUresult parse_image(CUmodule m, const char *image) {
    char name[512], kind[16];
    size_t size;
    int n;
    for (const char *line = strchr(image, '\n'); line && line[1]; line = strchr(line + 1, '\n')) {
        kind[0] = 0;
        n = sscanf(line + 1, "global %511s %zu %15s", name, &size, kind);
        if (n < 2)
            return CUDA_ERROR_INVALID_IMAGE;
        struct global *g = calloc(1, sizeof *g);
        *g = (struct global){
            .name = strdup(name), .size = size, .managed = strcmp(kind, "managed") == 0, .next = m->globals};
        m->globals = g;
    }
    return CUDA_SUCCESS;
}

static CUresult load(CUmodule *module, const void *image, bool library) {
    struct sim_ctx *ctx;
    SIM_TRY(sim_need_ctx(&ctx));
    if (!module || !image)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_UNSAFE();
    CUmodule m = calloc(1, sizeof *m);
    *m = (struct CUmod_st){.magic = MODULE_MAGIC, .ctx = ctx, .library = library};
    if (strncmp(image, "#simcuda\n", 9) == 0)
        SIM_TRY(parse_image(m, image));
    *module = m;
    return CUDA_SUCCESS;
}

static CUresult load_file(CUmodule *module, const char *name, bool library) {
    FILE *f = name ? fopen(name, "rb") : NULL;
    if (!f)
        return CUDA_ERROR_FILE_NOT_FOUND;
    fclose(f);
    return load(module, "file", library);
}

static void unload(CUmodule m) {
    while (m->functions) {
        struct CUfunc_st *f = m->functions;
        m->functions = f->next;
        f->magic = 0;
        free(f->name);
        free(f);
    }
    while (m->globals) {
        struct global *g = m->globals;
        m->globals = g->next;
        if (g->block && g->block->state == STATE_LIVE)
            sim_native_free(g->block);
        sim_block_unref(g->block);
        free(g->name);
        free(g);
    }
    m->magic = 0;
    free(m);
}

static CUresult function_get(CUmodule m, const char *name, struct CUfunc_st **out) {
    if (!name || !*name)
        return CUDA_ERROR_NOT_FOUND;
    for (struct CUfunc_st *f = m->functions; f; f = f->next) {
        if (strcmp(f->name, name) == 0) {
            *out = f;
            return CUDA_SUCCESS;
        }
    }
    struct CUfunc_st *f = calloc(1, sizeof *f);
    *f = (struct CUfunc_st){.magic = FUNCTION_MAGIC, .name = strdup(name), .module = m, .next = m->functions};
    f->attributes[CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK] = 1024;
    f->attributes[CU_FUNC_ATTRIBUTE_NUM_REGS] = 32;
    f->attributes[CU_FUNC_ATTRIBUTE_PTX_VERSION] = 90;
    f->attributes[CU_FUNC_ATTRIBUTE_BINARY_VERSION] = 90;
    f->attributes[CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES] = 49152;
    m->functions = f;
    *out = f;
    return CUDA_SUCCESS;
}

static CUresult global_get(CUmodule m, const char *name, CUdeviceptr *dptr, size_t *bytes) {
    struct sim_ctx *ctx;
    SIM_TRY(sim_need_ctx(&ctx));
    struct global *g = m->globals;
    while (g && (!name || strcmp(g->name, name) != 0))
        g = g->next;
    if (!g)
        return CUDA_ERROR_NOT_FOUND;
    if (g->block && g->block->state == STATE_FREED) {
        sim_block_unref(g->block); /* its context was reset */
        g->block = NULL;
    }
    if (!g->block) {
        SIM_TRY(sim_native_alloc(ctx, g->size ? g->size : 1, g->managed, &g->block));
        g->block->refs++;
        memset(sim_alias(g->block->addr), 0, g->size);
    }
    if (dptr)
        *dptr = g->block->addr;
    if (bytes)
        *bytes = g->size;
    return CUDA_SUCCESS;
}

/* Kernels know the variables of their module. */
void *simcuda_global(void *module, const char *name) {
    CUdeviceptr address = 0;
    sim_lock();
    if (valid(module))
        global_get(module, name, &address, NULL);
    sim_unlock();
    return (void *)(uintptr_t)address;
}

/* ---- modules ---- */

CUresult sim_cuModuleLoadData(CUmodule *module, const void *image) { return load(module, image, false); }
CUresult sim_cuModuleLoadFatBinary(CUmodule *module, const void *image) { return load(module, image, false); }
CUresult sim_cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int n, CUjit_option *o, void **v) {
    return load(module, image, false);
}
CUresult sim_cuModuleLoad(CUmodule *module, const char *fname) { return load_file(module, fname, false); }
CUresult sim_cuModuleUnload(CUmodule m) {
    if (!valid(m) || m->library)
        return CUDA_ERROR_INVALID_HANDLE;
    unload(m);
    return CUDA_SUCCESS;
}
CUresult sim_cuModuleGetFunction(CUfunction *hfunc, CUmodule m, const char *name) {
    if (!valid(m))
        return CUDA_ERROR_INVALID_HANDLE;
    return hfunc ? function_get(m, name, hfunc) : CUDA_ERROR_INVALID_VALUE;
}
CUresult sim_cuModuleGetGlobal_v2(CUdeviceptr *dptr, size_t *bytes, CUmodule m, const char *name) {
    return valid(m) ? global_get(m, name, dptr, bytes) : CUDA_ERROR_INVALID_HANDLE;
}
CUresult sim_cuModuleGetLoadingMode(CUmoduleLoadingMode *mode) {
    *mode = CU_MODULE_LAZY_LOADING;
    return CUDA_SUCCESS;
}
CUresult sim_cuModuleGetFunctionCount(unsigned int *count, CUmodule m) {
    if (!valid(m) || !count)
        return CUDA_ERROR_INVALID_HANDLE;
    *count = 0;
    for (struct CUfunc_st *f = m->functions; f; f = f->next)
        ++*count;
    return CUDA_SUCCESS;
}

/* ---- libraries: a CUlibrary is a module, a CUkernel a function ---- */

CUresult sim_cuLibraryLoadFromFile(CUlibrary *library, const char *fileName, CUjit_option *jitOptions, void **jitValues,
                                   unsigned int numJit, CUlibraryOption *options, void **values, unsigned int count) {
    (void)jitOptions;
    (void)jitValues;
    (void)numJit;
    return load_file((CUmodule *)library, fileName, true);
}

CUresult sim_cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *jitOptions, void **jitValues,
                               unsigned int numJit, CUlibraryOption *options, void **values, unsigned int num) {
    (void)jitOptions;
    (void)jitValues;
    (void)numJit;
    return load((CUmodule *)library, code, true);
}
CUresult sim_cuLibraryUnload(CUlibrary library) {
    CUmodule m = (CUmodule)library;
    if (!valid(m) || !m->library)
        return CUDA_ERROR_INVALID_HANDLE;
    unload(m);
    return CUDA_SUCCESS;
}
CUresult sim_cuLibraryGetKernel(CUkernel *pKernel, CUlibrary library, const char *name) {
    return sim_cuModuleGetFunction((CUfunction *)pKernel, (CUmodule)library, name);
}
CUresult sim_cuLibraryGetModule(CUmodule *pMod, CUlibrary library) {
    if (!valid((CUmodule)library))
        return CUDA_ERROR_INVALID_HANDLE;
    *pMod = (CUmodule)library;
    return CUDA_SUCCESS;
}
CUresult sim_cuLibraryGetGlobal(CUdeviceptr *dptr, size_t *bytes, CUlibrary library, const char *name) {
    return sim_cuModuleGetGlobal_v2(dptr, bytes, (CUmodule)library, name);
}
CUresult sim_cuLibraryGetManaged(CUdeviceptr *dptr, size_t *bytes, CUlibrary library, const char *name) {
    return sim_cuModuleGetGlobal_v2(dptr, bytes, (CUmodule)library, name);
}
CUresult sim_cuLibraryGetKernelCount(unsigned int *count, CUlibrary lib) {
    return sim_cuModuleGetFunctionCount(count, (CUmodule)lib);
}
CUresult sim_cuKernelGetFunction(CUfunction *pFunc, CUkernel kernel) {
    if (!sim_function_valid((CUfunction)kernel))
        return CUDA_ERROR_INVALID_HANDLE;
    *pFunc = (CUfunction)kernel;
    return CUDA_SUCCESS;
}
CUresult sim_cuKernelGetLibrary(CUlibrary *pLib, CUkernel kernel) {
    if (!sim_function_valid((CUfunction)kernel))
        return CUDA_ERROR_INVALID_HANDLE;
    *pLib = (CUlibrary)((CUfunction)kernel)->module;
    return CUDA_SUCCESS;
}

/* ---- functions ---- */

CUresult sim_cuFuncGetName(const char **name, CUfunction f) {
    if (!name || !sim_function_valid(f))
        return CUDA_ERROR_INVALID_HANDLE;
    *name = f->name;
    return CUDA_SUCCESS;
}
CUresult sim_cuKernelGetName(const char **name, CUkernel k) { return sim_cuFuncGetName(name, (CUfunction)k); }
CUresult sim_cuFuncGetModule(CUmodule *hmod, CUfunction f) {
    if (!hmod || !sim_function_valid(f))
        return CUDA_ERROR_INVALID_HANDLE;
    *hmod = f->module;
    return CUDA_SUCCESS;
}
CUresult sim_cuFuncGetAttribute(int *pi, CUfunction_attribute attrib, CUfunction f) {
    if (!sim_function_valid(f))
        return CUDA_ERROR_INVALID_HANDLE;
    if (!pi || (unsigned)attrib >= CU_FUNC_ATTRIBUTE_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    *pi = f->attributes[attrib];
    return CUDA_SUCCESS;
}
CUresult sim_cuFuncSetAttribute(CUfunction f, CUfunction_attribute attrib, int value) {
    if (!sim_function_valid(f))
        return CUDA_ERROR_INVALID_HANDLE;
    if ((unsigned)attrib >= CU_FUNC_ATTRIBUTE_MAX || value < -1)
        return CUDA_ERROR_INVALID_VALUE;
    f->attributes[attrib] = value;
    return CUDA_SUCCESS;
}
CUresult sim_cuKernelGetAttribute(int *pi, CUfunction_attribute attrib, CUkernel k, CUdevice dev) {
    return sim_cuFuncGetAttribute(pi, attrib, (CUfunction)k);
}
CUresult sim_cuKernelSetAttribute(CUfunction_attribute attrib, int val, CUkernel k, CUdevice dev) {
    return sim_cuFuncSetAttribute((CUfunction)k, attrib, val);
}
CUresult sim_cuFuncSetCacheConfig(CUfunction f, CUfunc_cache config) {
    return sim_function_valid(f) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
CUresult sim_cuFuncSetSharedMemConfig(CUfunction f, CUsharedconfig config) {
    return sim_function_valid(f) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
CUresult sim_cuKernelSetCacheConfig(CUkernel k, CUfunc_cache config, CUdevice dev) {
    return sim_cuFuncSetCacheConfig((CUfunction)k, config);
}
CUresult sim_cuFuncLoad(CUfunction f) { return sim_function_valid(f) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE; }
CUresult sim_cuFuncIsLoaded(CUfunctionLoadingState *state, CUfunction f) {
    if (!sim_function_valid(f))
        return CUDA_ERROR_INVALID_HANDLE;
    *state = CU_FUNCTION_LOADING_STATE_LOADED;
    return CUDA_SUCCESS;
}

/* ---- occupancy: threads alone bound it ---- */

CUresult sim_cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *numBlocks, CUfunction f, int blockSize,
                                                                  size_t dynamicSMemSize, unsigned int flags) {
    if (!sim_function_valid(f) || !numBlocks || blockSize <= 0 || flags > 1)
        return CUDA_ERROR_INVALID_VALUE;
    int blocks = 2048 / (int)SIM_ROUND((unsigned)blockSize, 32u);
    if (dynamicSMemSize && (size_t)blocks > 233472 / dynamicSMemSize)
        blocks = (int)(233472 / dynamicSMemSize);
    *numBlocks = blocks > 32 ? 32 : blocks;
    return CUDA_SUCCESS;
}
CUresult sim_cuOccupancyMaxActiveBlocksPerMultiprocessor(int *numBlocks, CUfunction f, int blockSize, size_t shared) {
    return sim_cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(numBlocks, f, blockSize, shared, 0);
}
CUresult sim_cuOccupancyMaxPotentialBlockSizeWithFlags(int *minGridSize, int *blockSize, CUfunction f,
                                                       CUoccupancyB2DSize toShared, size_t shared, int limit,
                                                       unsigned int flags) {
    (void)toShared;
    if (!sim_function_valid(f) || !minGridSize || !blockSize || flags > 1)
        return CUDA_ERROR_INVALID_VALUE;
    *blockSize = limit > 0 && limit < 1024 ? limit : 1024;
    *minGridSize = 132 * (2048 / *blockSize);
    return CUDA_SUCCESS;
}
CUresult sim_cuOccupancyMaxPotentialBlockSize(int *minGridSize, int *blockSize, CUfunction f,
                                              CUoccupancyB2DSize toShared, size_t shared, int limit) {
    return sim_cuOccupancyMaxPotentialBlockSizeWithFlags(minGridSize, blockSize, f, toShared, shared, limit, 0);
}
CUresult sim_cuOccupancyAvailableDynamicSMemPerBlock(size_t *size, CUfunction f, int numBlocks, int blockSize) {
    if (!sim_function_valid(f) || !size || numBlocks <= 0 || blockSize <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    *size = 233472 / (size_t)numBlocks < 49152 ? 233472 / (size_t)numBlocks : 49152;
    return CUDA_SUCCESS;
}
