/* The products of one row of C, shared out over the warps of a block, and added in the same order in every run.
 *
 * An entry of A's row and a part of its row of B make a term. The products of a term are cut into turns of at most
 * SPG_TURN, so a long row of B does not keep one warp busy while others wait. Turns are numbered in the order of A's
 * entries and of B's columns. A warp takes every so many turns: it reads its products and prepares them, waits until
 * all turns before its own are added, adds, and passes on. Only additions in shared memory are serial; all reads from
 * global memory overlap. The columns of a turn differ, so additions need not be atomic. */
#ifndef SPG_TURNS_CUH
#define SPG_TURNS_CUH

#include <cstdint>

constexpr int SPG_AHEAD = 4; /* products of a turn for each thread */
constexpr int SPG_TURN = 32 * SPG_AHEAD;

/* The terms of THREADS entries of A, in shared memory. */
template <typename T, int THREADS> struct spg_terms {
    int32_t from[THREADS], end[THREADS]; /* of the part of B's row */
    int32_t turns[THREADS];              /* of this term and of those before it */
    T factor[THREADS];
    int32_t sums[THREADS / 32];
    int turn; /* that may add */
};

/* Stores one term for each thread of the block; from = end: none. Returns the number of turns. No warp may still take
 * turns of the terms before. */
template <typename T, int THREADS>
__device__ int spg_terms_set(spg_terms<T, THREADS> &t, int32_t from, int32_t end, T factor) {
    int thread = threadIdx.x, lane = thread % 32, warp = thread / 32, before = 0, total = 0;
    int32_t up_to = end > from ? (end - from - 1) / SPG_TURN + 1 : 0;
    int64_t all = 0;
    for (int step = 1; step < 32; step *= 2) {
        int32_t other = __shfl_up_sync(~0u, up_to, step);
        up_to += lane >= step ? other : 0;
    }
    t.from[thread] = from;
    t.end[thread] = end;
    t.factor[thread] = factor;
    if (lane == 31)
        t.sums[warp] = up_to;
    if (thread == 0)
        t.turn = 0;
    __syncthreads();
    for (int i = 0; i < THREADS / 32; i++) {
        before += i < warp ? t.sums[i] : 0;
        all += t.sums[i];
    }
    /* More turns than entries of any matrix: rows of B overlap each other. They are left out. */
    total = all <= INT32_MAX ? static_cast<int>(all) : 0;
    t.turns[thread] = before + up_to;
    __syncthreads();
    return total;
}

/* Products from, from + 1, ... of B, before end. */
template <typename T> struct spg_turn {
    int32_t from, end;
    T factor;
};

/* Turn `number`, for all threads of a warp. *at: the term of the warp's turn before, or 0; becomes the turn's term. */
template <typename T, int THREADS>
__device__ spg_turn<T> spg_turn_at(const spg_terms<T, THREADS> &t, int number, int *at) {
    unsigned reached;
    for (;; *at += 32) {
        int i = *at + static_cast<int>(threadIdx.x % 32);
        reached = __ballot_sync(~0u, i >= THREADS || t.turns[i < THREADS ? i : 0] > number);
        if (reached)
            break;
    }
    *at += __ffs(static_cast<int>(reached)) - 1;
    int32_t before = *at ? t.turns[*at - 1] : 0;
    return {t.from[*at] + (number - before) * SPG_TURN, t.end[*at], t.factor[*at]};
}

/* How a warp waits for its turn. BARRIERS: at a barrier that it shares with the warp before, which takes less time. A
 * block then has 16 barriers, one of them for __syncthreads, so at most 15 of its warps take turns. Otherwise the warp
 * looks at shared memory again and again. */
template <bool BARRIERS> __device__ int spg_turn_warps(int warps) { return BARRIERS && warps > 15 ? 15 : warps; }

inline __device__ void spg_turn_watch(const int *turn, int mine) {
#ifdef __CUDA_ARCH__
    constexpr int near = 1; /* the warp does not sleep for the last turn before its own */
#else
    constexpr int near = 0;
#endif
    for (int left; (left = mine - *static_cast<const volatile int *>(turn)) > 0;)
        if (left > near)
            __nanosleep(static_cast<unsigned>(20 * left));
    __syncwarp();
}

/* Called by all threads of a warp, in the order of its turns. */
template <bool BARRIERS> __device__ void spg_turn_wait(const int *turn, int mine) {
#ifdef __CUDA_ARCH__
    if constexpr (BARRIERS) {
        if (mine)
            asm volatile("barrier.cta.sync %0, 64;" ::"r"(1 + mine % 15) : "memory");
    } else
#endif
        spg_turn_watch(turn, mine);
}

/* `turns`: of all terms. */
template <bool BARRIERS> __device__ void spg_turn_pass(int *turn, int mine, [[maybe_unused]] int turns) {
#ifdef __CUDA_ARCH__
    if constexpr (BARRIERS) {
        if (mine + 1 < turns)
            asm volatile("barrier.cta.arrive %0, 64;" ::"r"(1 + (mine + 1) % 15) : "memory");
        return;
    }
#endif
    __threadfence_block();
    __syncwarp();
    if (threadIdx.x % 32 == 0)
        *static_cast<volatile int *>(turn) = mine + 1;
}

#endif
