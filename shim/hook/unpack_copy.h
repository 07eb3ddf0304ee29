/* Copies of a decoder, for short lengths. */
#ifndef GM_HOOK_UNPACK_COPY_H
#define GM_HOOK_UNPACK_COPY_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { GM_COPY_STEP = 16 };

/* Copies whole steps. Up to GM_COPY_STEP - 1 bytes behind the length are read and written as well. */
static inline void gm_copy_steps(uint8_t *to, const uint8_t *from, size_t length) {
    for (size_t at = 0; at < length; at += GM_COPY_STEP)
        memcpy(to + at, from + at, GM_COPY_STEP);
}

/* Repeats what stands `distance` bytes before `to`; the two may overlap. `end`: of the output. */
static inline void gm_copy_match(uint8_t *to, size_t distance, size_t length, const uint8_t *end) {
    const uint8_t *from = to - distance;
    if (distance >= GM_COPY_STEP && (size_t)(end - to) >= length + GM_COPY_STEP)
        gm_copy_steps(to, from, length);
    else
        for (size_t at = 0; at < length; at++)
            to[at] = from[at];
}

#endif
