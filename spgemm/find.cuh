/* Binary search. */
#ifndef SPG_FIND_CUH
#define SPG_FIND_CUH

/* The first i of low to high - 1 with reached(i), or high. Once reached, it stays so for all later i. */
template <typename I, typename Reached> __device__ I spg_first(I low, I high, Reached reached) {
    while (low < high) {
        I middle = low + (high - low) / 2;
        if (reached(middle))
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* The last i of 0 to count - 1 with from[i] <= value; from[0] <= value. In offsets of rows it is the row of an entry.
 */
template <typename I, typename N, typename V> __device__ I spg_last_up_to(const N *from, I count, V value) {
    return spg_first(I(1), count, [&](I i) { return from[i] > value; }) - 1;
}

#endif
