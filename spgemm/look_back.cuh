/* Decoupled look-back: tiles get their offsets in the launch that finds their sums.
 *
 * A tile is the work of one block. It has a word in global memory, which is zeroed before. A block publishes the sum of
 * its tile there as soon as it knows it. Then one of its warps adds the sums of the tiles before, nearest first, until
 * it meets a tile that has published its offset: the sum of all tiles up to and including that one. The block publishes
 * its own offset, so later blocks stop there. A word has both the kind and the number, so no fence is needed.
 *
 * A block waits only for blocks of smaller numbers. The device starts blocks in the order of their numbers, on which
 * CUB's scan relies, too: so those are running or have ended.
 *
 * Cost: a warp reads SPG_LOOK words of 32 tiles at a time, one access of latency for each such window.
 * Source: Merrill, Garland: Single-pass parallel prefix scan with decoupled look-back, NVIDIA, 2016. */
#ifndef SPG_LOOK_BACK_CUH
#define SPG_LOOK_BACK_CUH

#include <cstdint>

#define SPG_LOOK 4

/* Kinds of a published number. 0: the tile has published nothing. */
constexpr unsigned long long SPG_TILE_SUM = 1ull << 62, SPG_TILE_OFFSET = 1ull << 63;

inline __device__ void spg_publish(unsigned long long *tiles, int64_t tile, unsigned long long kind, int64_t number) {
    *static_cast<volatile unsigned long long *>(&tiles[tile]) = kind | static_cast<unsigned long long>(number);
}

/* There are as many tiles as wanted before the first one, all of sum 0. */
inline __device__ unsigned long long spg_published(const unsigned long long *tiles, int64_t tile) {
    return tile < 0 ? SPG_TILE_OFFSET : *static_cast<const volatile unsigned long long *>(&tiles[tile]);
}

/* Returns the sum of all tiles before `tile`. A whole warp calls it. */
inline __device__ int64_t spg_look_back(const unsigned long long *tiles, int64_t tile) {
    unsigned lane = threadIdx.x % 32, ends = 0;
    int64_t sum = 0;
    for (int64_t next = tile - 1 - lane; !ends; next -= SPG_LOOK * 32) {
        unsigned long long word[SPG_LOOK];
        for (int i = 0; i < SPG_LOOK; i++)
            word[i] = spg_published(tiles, next - i * 32);
        for (int i = 0; i < SPG_LOOK; i++) {
            if (ends)
                continue;
            /* Only the tiles up to the nearest offset matter; ends ^ (ends - 1) has the bits up to the lowest one. */
            ends = __ballot_sync(~0u, word[i] >= SPG_TILE_OFFSET);
            while (__ballot_sync(~0u, !word[i]) & (ends ^ (ends - 1))) {
                __nanosleep(20);
                word[i] = spg_published(tiles, next - i * 32);
                ends = __ballot_sync(~0u, word[i] >= SPG_TILE_OFFSET);
            }
            if ((ends ^ (ends - 1)) >> lane & 1)
                sum += static_cast<int64_t>(word[i] & ~(SPG_TILE_SUM | SPG_TILE_OFFSET));
        }
    }
    for (int step = 16; step > 0; step /= 2)
        sum += __shfl_xor_sync(~0u, sum, step);
    return sum;
}

#endif
