/* Random numbers by position: output number i of splitmix64 is computed directly, so threads share no state. Results
 * are equal on host and device. Source: Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA
 * 2014. */
#ifndef SPG_RANDOM_H
#define SPG_RANDOM_H

#include "spgemm/both.h"

#include <stdint.h>

/* Output number `at` (from 0) of the generator that starts from `seed`. */
static inline SPG_BOTH uint64_t spg_random_at(uint64_t seed, uint64_t at) {
    uint64_t z = seed + (at + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* A number in (0, 1], a multiple of 2^-53. */
static inline SPG_BOTH double spg_unit_at(uint64_t seed, uint64_t at) {
    return (double)((spg_random_at(seed, at) >> 11) + 1) * 0x1p-53;
}

#endif
