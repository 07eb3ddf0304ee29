/* How the kernels that compute rows request extra chunks (spread.h). */
#ifndef SPG_SPREAD_CUH
#define SPG_SPREAD_CUH

#include "spgemm/spread.h"

inline __device__ void spg_spread_defer(const spg_spread &s, int32_t row) {
    s.deferred[atomicAdd(&s.chunk_counts->deferred, 1)] = row;
}

/* Defers a row that was only counted: its chunks can be requested only when all of its entries are known. */
inline __device__ void spg_spread_defer_counted(const spg_spread &s, int32_t row, int32_t entries) {
    if (!entries)
        return;
    atomicAdd(&s.chunk_counts->counted, static_cast<unsigned long long>(spg_extra_chunks(entries, s.size)));
    spg_spread_defer(s, row);
}

/* Requests the extra chunks of a row that needs some; called by one thread. Returns false and defers the row when there
 * is no memory for them. Later requests fail as well, so that granted chunks have no holes between them. */
inline __device__ bool spg_spread_request(const spg_spread &s, int32_t row, int32_t entries) {
    unsigned long long chunks = static_cast<unsigned long long>(spg_extra_chunks(entries, s.size));
    unsigned long long at = atomicAdd(&s.chunk_counts->requested, chunks);
    /* The capacity may have grown since an earlier launch, but a request after a failed one must fail too. */
    if (at + chunks <= static_cast<unsigned long long>(s.capacity) && at < s.chunk_counts->granted_end) {
        s.first_extra[row] = s.first_chunks + static_cast<int32_t>(at);
        return true;
    }
    atomicMin(&s.chunk_counts->granted_end, at);
    spg_spread_defer(s, row);
    return false;
}

#endif
