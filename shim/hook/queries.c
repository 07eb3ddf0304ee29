/* Hooks of queries about the progress of work. After a native free all work is done. When gpumem's free left work in
 * flight, a query waits for that work before it answers (shim/driver/free_sync.h). */
#include "shim/driver/free_sync.h"
#include "shim/hook/hook.h"

#define LIST(...) __VA_ARGS__
#define QUERY(symbol, parameters, arguments)                        \
    HOOK(symbol, LIST parameters) {                                 \
        ENTER(symbol, LIST arguments);                              \
        CUresult result = gm_real.symbol arguments;                 \
        if (result == CUDA_ERROR_NOT_READY && gm_free_sync_query()) \
            result = gm_real.symbol arguments;                      \
        LEAVE(result);                                              \
    }

QUERY(cuEventQuery, (CUevent event), (event))
QUERY(cuStreamQuery, (CUstream stream), (stream))
QUERY(cuStreamQuery_ptsz, (CUstream stream), (stream))
QUERY(cuEventElapsedTime, (float *milliseconds, CUevent begin, CUevent end), (milliseconds, begin, end))
QUERY(cuEventElapsedTime_v2, (float *milliseconds, CUevent begin, CUevent end), (milliseconds, begin, end))
