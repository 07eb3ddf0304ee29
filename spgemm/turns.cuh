/* Warps of a block take turns, so that their additions have the same order in every run.
 *
 * Turns are numbered from 0 on. A warp prepares its operands, waits for its turn, adds, and passes the turn on. Only
 * the additions are serial: the reads from memory and the probes before them overlap. */
#ifndef SPG_TURNS_CUH
#define SPG_TURNS_CUH

#include <cstdlib>
#include <cstring>

/* SPG_ANY_ORDER: no turns, additions are atomic. A warp that waits sleeps between looks, or spins. */
enum spg_order { SPG_ANY_ORDER, SPG_ORDERED, SPG_ORDERED_SPINNING };

/* SPGEMM_ADDITIONS=atomic and =spin are for comparisons. */
inline spg_order spg_order_wanted() {
    const char *text = getenv("SPGEMM_ADDITIONS");
    if (text && !strcmp(text, "atomic"))
        return SPG_ANY_ORDER;
    return text && !strcmp(text, "spin") ? SPG_ORDERED_SPINNING : SPG_ORDERED;
}

/* Called by all threads of a warp. */
inline __device__ void spg_turn_wait(volatile int *turn, int mine, spg_order order) {
    if (threadIdx.x % 32 == 0)
        while (*turn != mine)
            if (order != SPG_ORDERED_SPINNING)
                __nanosleep(10);
    __syncwarp();
}

inline __device__ void spg_turn_pass(volatile int *turn, int mine) {
    __threadfence_block();
    __syncwarp();
    if (threadIdx.x % 32 == 0)
        *turn = mine + 1;
}

#endif
