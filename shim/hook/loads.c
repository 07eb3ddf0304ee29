/* Hooks of calls that allocate device memory as a side effect: loading code (with lazy loading also the first
 * request of a function), graphs, streams, limits of the context. Free blocks must not make them fail, so each call
 * is repeated after a trim. Calls without a hook are repeated by gm_again (entry.S). */
#include "shim/driver/streams.h"
#include "shim/hook/guard.h"
#include "shim/hook/hook.h"
#include "shim/hook/prints.h"

#define TAKES_MEMORY(symbol, parameters, arguments) PASSES(symbol, parameters, arguments, NOTHING, WITH_TRIM)

/* Kernels that print let the host see how far they are: the code is searched for them (prints.h). */
PASSES(cuModuleLoad, (CUmodule * module, const char *file), (module, file), gm_prints_file(file), WITH_TRIM)
PASSES(cuModuleLoadData, (CUmodule * module, const void *image), (module, image), gm_prints_image(image), WITH_TRIM)
PASSES(cuModuleLoadDataEx, (CUmodule * module, const void *image, unsigned count, CUjit_option *options, void **values),
       (module, image, count, options, values), gm_prints_image(image), WITH_TRIM)
PASSES(cuModuleLoadFatBinary, (CUmodule * module, const void *image), (module, image), gm_prints_image(image),
       WITH_TRIM)
TAKES_MEMORY(cuModuleGetFunction, (CUfunction * function, CUmodule module, const char *name), (function, module, name))

/* A variable may be managed memory, which the host reads. */
static CUresult found_global(const CUdeviceptr *address, CUresult result) {
    unsigned managed = 0;
    if (result == CUDA_SUCCESS && address &&
        gm_drv.pointer_get_attribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, *address) == CUDA_SUCCESS && managed)
        gm_free_sync_note(GM_SYNC_HOST_MEMORY);
    return result;
}

#define FOUND_GLOBAL(call) found_global(address, WITH_TRIM(call))
#define FINDS_GLOBAL(symbol, owner, before)                                                                       \
    PASSES(symbol, (CUdeviceptr * address, size_t * size, owner of, const char *name), (address, size, of, name), \
           before, FOUND_GLOBAL)
FINDS_GLOBAL(cuModuleGetGlobal_v2, CUmodule, NOTHING)
/* A variable may hold the address of a function, which other kernels call. */
FINDS_GLOBAL(cuLibraryGetGlobal, CUlibrary, gm_prints_request(of))
FINDS_GLOBAL(cuLibraryGetManaged, CUlibrary, gm_prints_request(of))

#define JIT      CUjit_option *jit, void **jit_values, unsigned jit_count
#define SETTINGS CUlibraryOption *options, void **values, unsigned count
CUresult CUDAAPI gm_hook_cuLibraryLoadData(CUlibrary *library, const void *code, JIT, SETTINGS) {
    ENTER(cuLibraryLoadData, library, code, jit, jit_values, jit_count, options, values, count);
    bool later = gm_prints_later(options, values, count);
    if (!later)
        gm_prints_image(code);
    CUresult result =
        WITH_TRIM(gm_real.cuLibraryLoadData(library, code, jit, jit_values, jit_count, options, values, count));
    if (later && result == CUDA_SUCCESS)
        gm_prints_library(*library, code);
    LEAVE(result);
}

PASSES(cuLibraryLoadFromFile, (CUlibrary * library, const char *file, JIT, SETTINGS),
       (library, file, jit, jit_values, jit_count, options, values, count), gm_prints_file(file), WITH_TRIM)

CUresult CUDAAPI gm_hook_cuLibraryUnload(CUlibrary library) {
    ENTER(cuLibraryUnload, library);
    gm_guard_forget_kernels();
    const void *unread = gm_prints_forget(library);
    CUresult result = gm_real.cuLibraryUnload(library);
    if (unread && result != CUDA_SUCCESS && result != CUDA_ERROR_DEINITIALIZED)
        gm_prints_image(unread);
    LEAVE(result);
}

PASSES(cuLibraryGetModule, (CUmodule * module, CUlibrary library), (module, library), gm_prints_request(library),
       WITH_TRIM)
/* A kernel takes memory in a context, when it is asked for there. */
PASSES(cuLibraryGetKernel, (CUkernel * kernel, CUlibrary library, const char *name), (kernel, library, name),
       gm_prints_request(library), MADE)
PASSES(cuLibraryEnumerateKernels, (CUkernel * kernels, unsigned count, CUlibrary library), (kernels, count, library),
       gm_prints_request(library), MADE)
PASSES(cuLibraryGetUnifiedFunction, (void **function, CUlibrary library, const char *name), (function, library, name),
       gm_prints_request(library), WITH_TRIM)
TAKES_MEMORY(cuKernelGetFunction, (CUfunction * function, CUkernel kernel), (function, kernel))
TAKES_MEMORY(cuFuncLoad, (CUfunction function), (function))

static CUresult instantiated(const CUgraphExec *instance, CUgraph graph, CUresult result) {
    if (result == CUDA_SUCCESS)
        gm_guard_instantiated(instance, graph);
    return result;
}

#define INSTANTIATED(call)                          instantiated(instance, graph, WITH_TRIM(call))
#define INSTANTIATES(symbol, parameters, arguments) PASSES(symbol, parameters, arguments, NOTHING, INSTANTIATED)
#define OLD_INSTANTIATE                             (CUgraphExec * instance, CUgraph graph, CUgraphNode * failed, char *text, size_t size)
#define WITH_PARAMETERS                             (CUgraphExec * instance, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS * parameters)
INSTANTIATES(cuGraphInstantiate, OLD_INSTANTIATE, (instance, graph, failed, text, size))
INSTANTIATES(cuGraphInstantiate_v2, OLD_INSTANTIATE, (instance, graph, failed, text, size))
INSTANTIATES(cuGraphInstantiateWithFlags, (CUgraphExec * instance, CUgraph graph, unsigned long long flags),
             (instance, graph, flags))
INSTANTIATES(cuGraphInstantiateWithParams, WITH_PARAMETERS, (instance, graph, parameters))
INSTANTIATES(cuGraphInstantiateWithParams_ptsz, WITH_PARAMETERS, (instance, graph, parameters))
/* What the instance was read as does not hold any more. */
#define CHANGES_GRAPH(symbol, parameters, arguments, how) \
    PASSES(symbol, parameters, arguments, gm_guard_graph_changes(instance), how)
CHANGES_GRAPH(cuGraphNodeSetEnabled, (CUgraphExec instance, CUgraphNode node, unsigned enabled),
              (instance, node, enabled), MADE)
CHANGES_GRAPH(cuGraphExecKernelNodeSetParams,
              (CUgraphExec instance, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1 *parameters),
              (instance, node, parameters), WITH_TRIM)
CHANGES_GRAPH(cuGraphExecKernelNodeSetParams_v2,
              (CUgraphExec instance, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v2 *parameters),
              (instance, node, parameters), WITH_TRIM)
CHANGES_GRAPH(cuGraphExecChildGraphNodeSetParams, (CUgraphExec instance, CUgraphNode node, CUgraph child),
              (instance, node, child), MADE)
TAKES_MEMORY(cuGraphUpload, (CUgraphExec instance, CUstream stream), (instance, stream))
TAKES_MEMORY(cuGraphUpload_ptsz, (CUgraphExec instance, CUstream stream), (instance, stream))

TAKES_MEMORY(cuCtxSetLimit, (CUlimit limit, size_t value), (limit, value))

/* ---- streams; for some drivers gpumem must know all of them (shim/driver/streams.h) */

static CUresult made(const CUstream *stream, CUresult result) {
    if (result == CUDA_SUCCESS) {
        gm_free_sync_stream_created(gm_context_handle(), *stream);
        gm_streams_made(*stream);
    }
    return result;
}

#define MADE_STREAM(call) made(stream, WITH_TRIM(call))
PASSES(cuStreamCreate, (CUstream * stream, unsigned flags), (stream, flags), NOTHING, MADE_STREAM)
PASSES(cuStreamCreateWithPriority, (CUstream * stream, unsigned flags, int priority), (stream, flags, priority),
       NOTHING, MADE_STREAM)
TAKES_MEMORY(cuGreenCtxStreamCreate, (CUstream * stream, CUgreenCtx green, unsigned flags, int priority),
             (stream, green, flags, priority))

static CUresult destroyed(CUstream stream, CUcontext context, CUresult result) {
    if (result == CUDA_SUCCESS)
        gm_free_sync_stream_destroyed(context);
    gm_capture_destroyed(stream, NULL, result == CUDA_SUCCESS);
    return result;
}

/* The driver refuses to destroy a default stream, and streams of other contexts may be destroyed. */
#define DESTROY(symbol)                                            \
    CUresult CUDAAPI gm_hook_##symbol(CUstream stream) {           \
        ENTER(symbol, stream);                                     \
        CUcontext context;                                         \
        gm_context_of_stream(stream, &context);                    \
        gm_streams_ending(stream);                                 \
        gm_capture_ending(stream, NULL);                           \
        LEAVE(destroyed(stream, context, gm_real.symbol(stream))); \
    }
DESTROY(cuStreamDestroy)
DESTROY(cuStreamDestroy_v2)
