/* splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA 2014): equal everywhere. */
#ifndef GM_RANDOM_NUMBERS_H
#define GM_RANDOM_NUMBERS_H

#include <stdint.h>

static inline uint64_t gm_random_next(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* A number below `end`, which is at least 1. */
static inline uint32_t gm_random_below(uint64_t *state, uint32_t end) {
    return (uint32_t)((gm_random_next(state) >> 32) * end >> 32);
}

#endif
