/* Warps of a block take turns, so that their additions have the same order in every run.
 *
 * Turns are numbered from 0 on. A warp prepares its operands, waits for its turn, adds, and passes the turn on. Only
 * the additions are serial: the reads from memory and the probes before them overlap. */
#ifndef SPG_TURNS_CUH
#define SPG_TURNS_CUH

#include <cstdlib>
#include <cstring>

/* Whether warps take turns. SPGEMM_ADDITIONS=atomic is for comparisons: then additions are atomic, in any order. */
inline bool spg_turns_taken() {
    const char *text = getenv("SPGEMM_ADDITIONS");
    return !text || strcmp(text, "atomic") != 0;
}

/* Called by all threads of a warp. */
inline __device__ void spg_turn_wait(volatile int *turn, int mine) {
    if (threadIdx.x % 32 == 0)
        while (*turn != mine)
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
