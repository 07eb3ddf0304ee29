/* Hooks of copies of device memory. They are used only when GPUMEM_GROW observes copies (grow.h): the entries
 * of the calls continue here in that case only. */
#include "shim/grow/grow.h"
#include "shim/grow/handover.h"
#include "shim/hook/diverted.h"
#include "shim/hook/entry_points.h"
#include "shim/hook/hook.h"

/* COPY(symbol, parameters, the call's arguments, stream) */
#define COPIES_OF_DEVICE(COPY)                                                                                      \
    COPY(cuMemcpyDtoD_v2, (CUdeviceptr to, CUdeviceptr from, size_t size), (to, from, size), NULL)                  \
    COPY(cuMemcpy, (CUdeviceptr to, CUdeviceptr from, size_t size), (to, from, size), NULL)                         \
    COPY(cuMemcpyDtoDAsync_v2, (CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream),                    \
         (to, from, size, stream), stream)                                                                          \
    COPY(cuMemcpyAsync, (CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream), (to, from, size, stream), \
         stream)
/* Variants for programs built with per-thread default streams. Their copies are never deferred. */
#define COPIES_OF_THREAD(COPY)                                                                                   \
    COPY(cuMemcpyDtoD_v2_ptds, (CUdeviceptr to, CUdeviceptr from, size_t size), (to, from, size),                \
         CU_STREAM_PER_THREAD)                                                                                   \
    COPY(cuMemcpy_ptds, (CUdeviceptr to, CUdeviceptr from, size_t size), (to, from, size), CU_STREAM_PER_THREAD) \
    COPY(cuMemcpyDtoDAsync_v2_ptsz, (CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream),            \
         (to, from, size, stream), CU_STREAM_PER_THREAD)                                                         \
    COPY(cuMemcpyAsync_ptsz, (CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream),                   \
         (to, from, size, stream), CU_STREAM_PER_THREAD)

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

#define COPY(symbol, parameters, arguments, stream_of)                                                           \
    static CUresult(CUDAAPI *real_##symbol) parameters;                                                          \
    static CUresult CUDAAPI copy_##symbol parameters {                                                           \
        bool deferred = defer(to, from, size, stream_of);                                                        \
        CUresult result = deferred ? CUDA_SUCCESS : __atomic_load_n(&real_##symbol, __ATOMIC_RELAXED) arguments; \
        if (result == CUDA_SUCCESS && gm_mine.depth == 0)                                                        \
            gm_grow_copied(to, from, size);                                                                      \
        return result;                                                                                           \
    }
COPIES_OF_DEVICE(COPY)
COPIES_OF_THREAD(COPY)
#undef COPY

bool gm_copies_defers(unsigned call_number) {
    switch (call_number) {
#define COPY(symbol, ...) case GM_AT_##symbol:
        COPIES_OF_DEVICE(COPY)
        COPIES_OF_THREAD(COPY)
#undef COPY
        return gm_grow_sees_copies;
    default: return false;
    }
}

void gm_copies_start(void) {
    if (!gm_grow_sees_copies)
        return;
#define COPY(symbol, ...) gm_call_divert(GM_AT_##symbol, (void *)copy_##symbol, (void **)&real_##symbol);
    COPIES_OF_DEVICE(COPY)
    COPIES_OF_THREAD(COPY)
#undef COPY
}
