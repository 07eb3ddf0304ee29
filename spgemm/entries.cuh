/* Rows of matrices that may hold anything: wrong offsets, and columns that are out of range. No kernel names an entry
 * or a row that does not exist; the product of such matrices is another one, or none. */
#ifndef SPG_ENTRIES_CUH
#define SPG_ENTRIES_CUH

#include "spgemm/kernels.h"

#include <cstdint>

/* Entries `first` to `end` - 1 of a matrix; first <= end. */
struct spg_entries {
    int32_t first = 0, end = 0;

    __device__ int32_t count() const { return end - first; }
};

/* Those of a row. M: spg_operand or spg_typed_operand. A row that does not exist is empty. */
template <typename M> __device__ spg_entries spg_entries_of(const M &m, int32_t row) {
    spg_entries entries;
    if (static_cast<uint32_t>(row) < static_cast<uint32_t>(m.rows)) {
        /* Numbers below 0 become large ones. */
        uint32_t stored = static_cast<uint32_t>(m.stored), base = static_cast<uint32_t>(m.first);
        uint32_t first = min(static_cast<uint32_t>(m.offsets[row]) - base, stored);
        uint32_t end = max(min(static_cast<uint32_t>(m.offsets[row + 1]) - base, stored), first);
        entries.first = static_cast<int32_t>(base + first);
        entries.end = static_cast<int32_t>(base + end);
    }
    return entries;
}

/* How many of a row's `count` entries its slots hold. A row exceeds them if the matrices are others than those that
 * were counted, or are wrong. Not for spreads, whose rows request what they need. */
inline __device__ int32_t spg_most_of_row(const spg_target &c, int32_t row, int32_t count) {
    return static_cast<int32_t>(min(static_cast<int64_t>(count), c.start[row + 1] - c.start[row]));
}

#endif
