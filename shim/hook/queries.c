/* Queries whether the work of a stream, or before an event, is done. A stream that waits for what a free left in flight
 * counts as busy, and natively there is no such wait. */
#include "shim/hook/diverted.h"

#include "shim/hook/entry_points.h"

#define QUERIES(QUERY)                  \
    QUERY(cuStreamQuery, CUstream)      \
    QUERY(cuStreamQuery_ptsz, CUstream) \
    QUERY(cuEventQuery, CUevent)

/* An answer of "done" depends on nothing in flight. Otherwise work in flight may be the reason: what was in flight
 * before the query, or what another thread's free left meanwhile. Then that work is waited for, and asked again. */
#define QUERY(symbol, type)                                                                      \
    static CUresult(CUDAAPI *next_##symbol)(type);                                               \
    static CUresult CUDAAPI query_##symbol(type subject) {                                       \
        __typeof__(next_##symbol) next = __atomic_load_n(&next_##symbol, __ATOMIC_RELAXED);      \
        for (;;) {                                                                               \
            uint32_t before = gm_in_flight_recordings();                                         \
            bool none = !gm_in_flight_state();                                                   \
            CUresult result = next(subject);                                                     \
            if (result != CUDA_ERROR_NOT_READY || (none && gm_in_flight_recordings() == before)) \
                return result;                                                                   \
            gm_free_sync_notice();                                                               \
        }                                                                                        \
    }
QUERIES(QUERY)
#undef QUERY

void gm_queries_start(void) {
    if (!gm_free_sync_observes())
        return;
#define QUERY(symbol, type) gm_call_divert(GM_AT_##symbol, (void *)query_##symbol, (void **)&next_##symbol);
    QUERIES(QUERY)
#undef QUERY
}
