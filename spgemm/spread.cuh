/* How rows take their further pieces (spread.h), for the kernels that form them. */
#ifndef SPG_SPREAD_CUH
#define SPG_SPREAD_CUH

#include "spgemm/spread.h"

inline __device__ void spg_spread_leave(const spg_spread &s, int32_t row) {
    s.left[atomicAdd(&s.spill->left, 1)] = row;
}

/* Takes the further pieces of a row, which has some; by one thread. False when there is no room: the row is
 * then listed. Rows that come later get none either, so that what rows got has no holes. */
inline __device__ bool spg_spread_take(const spg_spread &s, int32_t row, int32_t entries) {
    unsigned long long pieces = static_cast<unsigned long long>(spg_further_pieces(entries, s.size));
    unsigned long long at = atomicAdd(&s.spill->taken, pieces);
    /* There may be more room than for rows of launches before, but not behind those that got none. */
    if (at + pieces <= static_cast<unsigned long long>(s.room) && at < s.spill->end) {
        s.more[row] = s.behind + static_cast<int32_t>(at);
        return true;
    }
    atomicMin(&s.spill->end, at);
    spg_spread_leave(s, row);
    return false;
}

#endif
