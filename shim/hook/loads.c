/* Calls that take device memory by the way: code (with lazy loading also where a function is first asked for), graphs, streams,
 * limits of the context. What resources keep must not starve them. Launches of kernels and graphs may load as well; they are not
 * watched, and the memory that the cache leaves free is what protects them. Linking (cuLinkComplete) works on the host, and an
 * update of a graph that failed leaves the graph undefined, so neither is tried again. */
#include "shim/driver/streams.h"
#include "shim/hook/hook.h"

#define LIST(...) __VA_ARGS__
#define TAKES_MEMORY(symbol, parameters, arguments)                                                          \
    HOOK(symbol, LIST parameters) {                                                                          \
        ENTER(symbol, LIST arguments);                                                                       \
        LEAVE(WITH_TRIM(gm_true.symbol arguments));                                                          \
    }

TAKES_MEMORY(cuModuleLoad, (CUmodule * module, const char *file), (module, file))
TAKES_MEMORY(cuModuleLoadData, (CUmodule * module, const void *image), (module, image))
TAKES_MEMORY(cuModuleLoadDataEx, (CUmodule * module, const void *image, unsigned count, CUjit_option *options, void **values),
             (module, image, count, options, values))
TAKES_MEMORY(cuModuleLoadFatBinary, (CUmodule * module, const void *image), (module, image))
TAKES_MEMORY(cuModuleGetFunction, (CUfunction * function, CUmodule module, const char *name), (function, module, name))
TAKES_MEMORY(cuModuleGetGlobal_v2, (CUdeviceptr * address, size_t *size, CUmodule module, const char *name),
             (address, size, module, name))

#define JIT      CUjit_option *jit, void **jit_values, unsigned jit_count
#define SETTINGS CUlibraryOption *options, void **values, unsigned count
TAKES_MEMORY(cuLibraryLoadData, (CUlibrary * library, const void *code, JIT, SETTINGS),
             (library, code, jit, jit_values, jit_count, options, values, count))
TAKES_MEMORY(cuLibraryLoadFromFile, (CUlibrary * library, const char *file, JIT, SETTINGS),
             (library, file, jit, jit_values, jit_count, options, values, count))
TAKES_MEMORY(cuLibraryGetModule, (CUmodule * module, CUlibrary library), (module, library))
TAKES_MEMORY(cuLibraryGetGlobal, (CUdeviceptr * address, size_t *size, CUlibrary library, const char *name),
             (address, size, library, name))
TAKES_MEMORY(cuLibraryGetManaged, (CUdeviceptr * address, size_t *size, CUlibrary library, const char *name),
             (address, size, library, name))
TAKES_MEMORY(cuKernelGetFunction, (CUfunction * function, CUkernel kernel), (function, kernel))
TAKES_MEMORY(cuFuncLoad, (CUfunction function), (function))

#define OLD_INSTANTIATE (CUgraphExec * instance, CUgraph graph, CUgraphNode *failed, char *text, size_t size)
TAKES_MEMORY(cuGraphInstantiate, OLD_INSTANTIATE, (instance, graph, failed, text, size))
TAKES_MEMORY(cuGraphInstantiate_v2, OLD_INSTANTIATE, (instance, graph, failed, text, size))
TAKES_MEMORY(cuGraphInstantiateWithFlags, (CUgraphExec * instance, CUgraph graph, unsigned long long flags), (instance, graph, flags))
TAKES_MEMORY(cuGraphInstantiateWithParams, (CUgraphExec * instance, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *parameters),
             (instance, graph, parameters))
TAKES_MEMORY(cuGraphInstantiateWithParams_ptsz, (CUgraphExec * instance, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *parameters),
             (instance, graph, parameters))
TAKES_MEMORY(cuGraphUpload, (CUgraphExec instance, CUstream stream), (instance, stream))
TAKES_MEMORY(cuGraphUpload_ptsz, (CUgraphExec instance, CUstream stream), (instance, stream))

TAKES_MEMORY(cuCtxSetLimit, (CUlimit limit, size_t value), (limit, value))
TAKES_MEMORY(cuGreenCtxStreamCreate, (CUstream * stream, CUgreenCtx green, unsigned flags, int priority),
             (stream, green, flags, priority))

/* ---- streams, which some drivers need to be known (shim/driver/streams.h) */

static CUresult made(const CUstream *stream, CUresult result) {
    if (result == CUDA_SUCCESS)
        gm_streams_made(*stream);
    return result;
}

HOOK(cuStreamCreate, CUstream *stream, unsigned flags) {
    ENTER(cuStreamCreate, stream, flags);
    LEAVE(made(stream, WITH_TRIM(gm_true.cuStreamCreate(stream, flags))));
}

HOOK(cuStreamCreateWithPriority, CUstream *stream, unsigned flags, int priority) {
    ENTER(cuStreamCreateWithPriority, stream, flags, priority);
    LEAVE(made(stream, WITH_TRIM(gm_true.cuStreamCreateWithPriority(stream, flags, priority))));
}

#define DESTROY(symbol)                                                                                      \
    HOOK(symbol, CUstream stream) {                                                                          \
        ENTER(symbol, stream);                                                                               \
        gm_streams_ending(stream);                                                                           \
        LEAVE(gm_true.symbol(stream));                                                                       \
    }
DESTROY(cuStreamDestroy)
DESTROY(cuStreamDestroy_v2)
