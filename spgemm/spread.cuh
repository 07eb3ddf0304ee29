/* How the kernels that compute rows request extra chunks (spread.h). */
#ifndef SPG_SPREAD_CUH
#define SPG_SPREAD_CUH

#include "spgemm/kernels.h"

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

/* How many of a row's `count` entries its slots hold. A row exceeds them if the matrices are others than those that
 * were counted, or are wrong. Not for spreads, whose rows request what they need. */
inline __device__ int32_t spg_most_of_row(const spg_target &c, int32_t row, int32_t count) {
    return static_cast<int32_t>(min(static_cast<int64_t>(count), c.start[row + 1] - c.start[row]));
}

#endif
