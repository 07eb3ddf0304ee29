/* Hooks of copies of device memory. They are used only when GPUMEM_GROW observes copies (grow.h): the entries
 * of the calls continue here in that case only. */
#include "shim/grow/grow.h"
#include "shim/grow/handover.h"
#include "shim/hook/diverted.h"
#include "shim/hook/entry_points.h"
#include "shim/hook/hook.h"

/* COPY(symbol, parameters, the call's arguments, stream). The variants for programs built with per-thread default
 * streams come with the stream of the thread, and their copies are never deferred. */
#define BOTH(COPY, symbol, suffix, parameters, arguments, stream) \
    COPY(symbol, parameters, arguments, stream) COPY(symbol##suffix, parameters, arguments, CU_STREAM_PER_THREAD)
#define COPIES(COPY)                                                                                            \
    BOTH(COPY, cuMemcpyDtoD_v2, _ptds, (CUdeviceptr to, CUdeviceptr from, size_t size), (to, from, size), NULL) \
    BOTH(COPY, cuMemcpy, _ptds, (CUdeviceptr to, CUdeviceptr from, size_t size), (to, from, size), NULL)        \
    BOTH(COPY, cuMemcpyDtoDAsync_v2, _ptsz, (CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream),   \
         (to, from, size, stream), stream)                                                                      \
    BOTH(COPY, cuMemcpyAsync, _ptsz, (CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream),          \
         (to, from, size, stream), stream)

/* True: the copy is deferred. False: the caller makes the copy now. */
static bool defer(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream) {
    if (gm_grow_mode < GM_GROW_MOVE || gm_mine.depth > 0)
        return false;
    gm_mine.depth = 1;
    bool deferred = gm_handover_copy(to, from, size, stream);
    gm_mine.depth = 0;
    if (!deferred && gm_watch_has(GM_WATCH_HANDOVER))
        gm_handover_driver_entered();
    return deferred;
}

#define COPY(symbol, parameters, arguments, stream_of)                                      \
    static CUresult(CUDAAPI *real_##symbol) parameters;                                     \
    static CUresult CUDAAPI copy_##symbol parameters {                                      \
        __typeof__(real_##symbol) real = __atomic_load_n(&real_##symbol, __ATOMIC_RELAXED); \
        bool deferred = defer(to, from, size, stream_of);                                   \
        CUresult result = deferred ? CUDA_SUCCESS : PASSED_WITH_TRIM(real arguments);       \
        if (result == CUDA_SUCCESS && gm_mine.depth == 0)                                   \
            gm_grow_copied(to, from, size);                                                 \
        return result;                                                                      \
    }
COPIES(COPY)
#undef COPY

bool gm_copies_defers(unsigned call_number) {
    switch (call_number) {
#define COPY(symbol, ...) case GM_AT_##symbol:
        COPIES(COPY)
#undef COPY
        return gm_grow_sees_copies;
    default: return false;
    }
}

void gm_copies_start(void) {
    if (!gm_grow_sees_copies)
        return;
#define COPY(symbol, ...) gm_call_divert(GM_AT_##symbol, (void *)copy_##symbol, (void **)&real_##symbol);
    COPIES(COPY)
#undef COPY
}
