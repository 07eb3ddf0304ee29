/* Hooks of calls that allocate device memory as a side effect: loading code (with lazy loading also the first
 * request of a function), graphs, streams, limits of the context. Free blocks must not make them fail, so each call
 * is repeated after a trim. Launches of kernels and graphs may load code as well. They are not hooked; the memory
 * that the cache leaves free protects them. Linking (cuLinkComplete) works on the host, and a failed update leaves a
 * graph undefined, so neither is repeated. */
#include "shim/driver/streams.h"
#include "shim/hook/hook.h"
#include "shim/hook/image.h"

#define LIST(...) __VA_ARGS__
#define TAKES_MEMORY(symbol, parameters, arguments) \
    HOOK(symbol, LIST parameters) {                 \
        ENTER(symbol, LIST arguments);              \
        LEAVE(WITH_TRIM(gm_real.symbol arguments)); \
    }

/* Kernels that print let the host see how far they are. */
#define LOADS_CODE(symbol, parameters, arguments, prints) \
    HOOK(symbol, LIST parameters) {                       \
        ENTER(symbol, LIST arguments);                    \
        if (prints)                                       \
            gm_free_sync_note(GM_SYNC_PRINTF);            \
        LEAVE(WITH_TRIM(gm_real.symbol arguments));       \
    }
LOADS_CODE(cuModuleLoad, (CUmodule * module, const char *file), (module, file), gm_image_file_prints(file))
LOADS_CODE(cuModuleLoadData, (CUmodule * module, const void *image), (module, image), gm_image_prints(image))
LOADS_CODE(cuModuleLoadDataEx,
           (CUmodule * module, const void *image, unsigned count, CUjit_option *options, void **values),
           (module, image, count, options, values), gm_image_prints(image))
LOADS_CODE(cuModuleLoadFatBinary, (CUmodule * module, const void *image), (module, image), gm_image_prints(image))
TAKES_MEMORY(cuModuleGetFunction, (CUfunction * function, CUmodule module, const char *name), (function, module, name))
/* A variable may be managed memory. */
static CUresult found_global(const CUdeviceptr *address, CUresult result) {
    unsigned managed = 0;
    if (result == CUDA_SUCCESS && address &&
        gm_drv.pointer_get_attribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, *address) == CUDA_SUCCESS && managed)
        gm_free_sync_note(GM_SYNC_HOST_MEMORY);
    return result;
}

#define FINDS_GLOBAL(symbol, owner)                                                       \
    HOOK(symbol, CUdeviceptr *address, size_t *size, owner of, const char *name) {        \
        ENTER(symbol, address, size, of, name);                                           \
        LEAVE(found_global(address, WITH_TRIM(gm_real.symbol(address, size, of, name)))); \
    }
FINDS_GLOBAL(cuModuleGetGlobal_v2, CUmodule)
FINDS_GLOBAL(cuLibraryGetGlobal, CUlibrary)
FINDS_GLOBAL(cuLibraryGetManaged, CUlibrary)

#define JIT      CUjit_option *jit, void **jit_values, unsigned jit_count
#define SETTINGS CUlibraryOption *options, void **values, unsigned count
LOADS_CODE(cuLibraryLoadData, (CUlibrary * library, const void *code, JIT, SETTINGS),
           (library, code, jit, jit_values, jit_count, options, values, count), gm_image_prints(code))
LOADS_CODE(cuLibraryLoadFromFile, (CUlibrary * library, const char *file, JIT, SETTINGS),
           (library, file, jit, jit_values, jit_count, options, values, count), gm_image_file_prints(file))
TAKES_MEMORY(cuLibraryGetModule, (CUmodule * module, CUlibrary library), (module, library))
TAKES_MEMORY(cuKernelGetFunction, (CUfunction * function, CUkernel kernel), (function, kernel))
TAKES_MEMORY(cuFuncLoad, (CUfunction function), (function))

#define OLD_INSTANTIATE (CUgraphExec * instance, CUgraph graph, CUgraphNode * failed, char *text, size_t size)
TAKES_MEMORY(cuGraphInstantiate, OLD_INSTANTIATE, (instance, graph, failed, text, size))
TAKES_MEMORY(cuGraphInstantiate_v2, OLD_INSTANTIATE, (instance, graph, failed, text, size))
TAKES_MEMORY(cuGraphInstantiateWithFlags, (CUgraphExec * instance, CUgraph graph, unsigned long long flags),
             (instance, graph, flags))
TAKES_MEMORY(cuGraphInstantiateWithParams,
             (CUgraphExec * instance, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *parameters),
             (instance, graph, parameters))
TAKES_MEMORY(cuGraphInstantiateWithParams_ptsz,
             (CUgraphExec * instance, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *parameters),
             (instance, graph, parameters))
TAKES_MEMORY(cuGraphUpload, (CUgraphExec instance, CUstream stream), (instance, stream))
TAKES_MEMORY(cuGraphUpload_ptsz, (CUgraphExec instance, CUstream stream), (instance, stream))

TAKES_MEMORY(cuCtxSetLimit, (CUlimit limit, size_t value), (limit, value))

/* ---- streams; for some drivers gpumem must know all of them (shim/driver/streams.h) */

static CUresult made(const CUstream *stream, CUresult result) {
    if (result == CUDA_SUCCESS) {
        gm_free_sync_stream_created();
        gm_streams_made(*stream);
    }
    return result;
}

HOOK(cuStreamCreate, CUstream *stream, unsigned flags) {
    ENTER(cuStreamCreate, stream, flags);
    LEAVE(made(stream, WITH_TRIM(gm_real.cuStreamCreate(stream, flags))));
}

HOOK(cuStreamCreateWithPriority, CUstream *stream, unsigned flags, int priority) {
    ENTER(cuStreamCreateWithPriority, stream, flags, priority);
    LEAVE(made(stream, WITH_TRIM(gm_real.cuStreamCreateWithPriority(stream, flags, priority))));
}

HOOK(cuGreenCtxStreamCreate, CUstream *stream, CUgreenCtx green, unsigned flags, int priority) {
    ENTER(cuGreenCtxStreamCreate, stream, green, flags, priority);
    CUresult result = WITH_TRIM(gm_real.cuGreenCtxStreamCreate(stream, green, flags, priority));
    if (result == CUDA_SUCCESS)
        gm_free_sync_stream_created();
    LEAVE(result);
}

static CUresult destroyed(CUstream stream, CUresult result) {
    gm_capture_destroyed(stream, NULL, result == CUDA_SUCCESS);
    return result;
}

#define DESTROY(symbol)                                   \
    HOOK(symbol, CUstream stream) {                       \
        ENTER(symbol, stream);                            \
        gm_streams_ending(stream);                        \
        gm_free_sync_stream_destroyed();                  \
        gm_capture_ending(stream, NULL);                  \
        LEAVE(destroyed(stream, gm_real.symbol(stream))); \
    }
DESTROY(cuStreamDestroy)
DESTROY(cuStreamDestroy_v2)
