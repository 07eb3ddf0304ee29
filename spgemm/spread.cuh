/* How rows take their further pieces (spread.h), for the kernels that form them. */
#ifndef GM_SPGEMM_SPREAD_CUH
#define GM_SPGEMM_SPREAD_CUH

#include "spgemm/spread.h"

inline __device__ void gm_spread_leave(const gm_spread &s, int32_t row) {
    s.left[atomicAdd(&s.spill->left, 1)] = row;
}

inline __device__ void gm_spread_note(const gm_spread &s, int32_t entries) {
    if (*static_cast<volatile int32_t *>(&s.spill->longest) < entries)
        atomicMax(&s.spill->longest, entries);
}

/* Takes the further pieces of a row, which has some; by one thread. False when there is no room: the row is
 * then listed. Rows that come later get none either, so that what rows got has no holes. */
inline __device__ bool gm_spread_take(const gm_spread &s, int32_t row, int32_t entries) {
    unsigned long long pieces = static_cast<unsigned long long>(gm_further_pieces(entries, s.size));
    unsigned long long at = atomicAdd(&s.spill->taken, pieces);
    gm_spread_note(s, entries);
    /* There may be more room now than for rows before. */
    unsigned long long end = *static_cast<volatile unsigned long long *>(&s.spill->end);
    if (at + pieces <= static_cast<unsigned long long>(s.room) && at < end) {
        s.more[row] = s.behind + static_cast<int32_t>(at);
        return true;
    }
    atomicMin(&s.spill->end, at);
    gm_spread_leave(s, row);
    return false;
}

#endif
