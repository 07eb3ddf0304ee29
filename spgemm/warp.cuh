/* Sums over the threads of a warp. */
#ifndef SPG_WARP_CUH
#define SPG_WARP_CUH

/* The sum of the threads of the team up to and including the calling one. TEAM threads of consecutive numbers are a
 * team; all threads of the warp call it. */
template <int TEAM, typename N> __device__ N spg_sum_up_to(N mine) {
    for (int step = 1; step < TEAM; step *= 2) {
        N other = __shfl_up_sync(~0u, mine, step);
        mine += static_cast<int>(threadIdx.x % TEAM) >= step ? other : N(0);
    }
    return mine;
}

#endif
