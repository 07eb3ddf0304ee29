/* Decoder for a block of LZ4, after the block format's description in the LZ4 project. A block is a list of sequences:
 * literal bytes, then a match, which repeats earlier output. The last sequence has no match. */
#include "shim/hook/unpack.h"

#include <string.h>

enum { LEAST_MATCH = 4, LONG = 15, STEP = 16 };

/* Copies whole steps. Up to STEP - 1 bytes behind the length are read and written as well. */
static void copy_steps(uint8_t *to, const uint8_t *from, size_t length) {
    for (size_t at = 0; at < length; at += STEP)
        memcpy(to + at, from + at, STEP);
}

/* Repeats what stands `distance` bytes before `to`; the two may overlap. `end`: of the output. */
static void copy_match(uint8_t *to, size_t distance, size_t length, const uint8_t *end) {
    const uint8_t *from = to - distance;
    if (distance >= STEP && (size_t)(end - to) >= length + STEP)
        copy_steps(to, from, length);
    else
        for (size_t at = 0; at < length; at++)
            to[at] = from[at];
}
/* A length that does not fit into its half of the token goes on in further bytes. */
static bool read_length(const uint8_t **in, const uint8_t *end, size_t *length) {
    uint8_t more = 255;
    while (more == 255) {
        if (*in == end)
            return false;
        more = *(*in)++;
        *length += more;
    }
    return true;
}

bool gm_unpack_lz4(const void *from, size_t packed, void *to, size_t size) {
    const uint8_t *in = from, *in_end = in + packed;
    uint8_t *out = to, *end = out + size;
    while (in < in_end) {
        unsigned token = *in++;
        size_t literals = token >> 4, match = token & 15;
        if (literals == LONG && !read_length(&in, in_end, &literals))
            return false;
        if (literals > (size_t)(in_end - in) || literals > (size_t)(end - out))
            return false;
        memcpy(out, in, literals);
        out += literals;
        in += literals;
        if (in == in_end)
            return out == end;
        if (in_end - in < 2)
            return false;
        size_t distance = in[0] | (size_t)in[1] << 8;
        in += 2;
        if (match == LONG && !read_length(&in, in_end, &match))
            return false;
        match += LEAST_MATCH;
        if (distance == 0 || distance > (size_t)(out - (uint8_t *)to) || match > (size_t)(end - out))
            return false;
        copy_match(out, distance, match, end);
        out += match;
    }
    return false;
}
