#include "shim/trace/pack.h"

#include <string.h>

enum { SEQ = 0, TIME = 1, HALVES = 5 /* slack and duration */ };
enum { BIT_LAST = 1u, BIT_SEQ = 2u };

static unsigned char *put_difference(unsigned char *out, uint64_t difference) {
    uint64_t value = difference << 1 ^ (0 - (difference >> 63));
    for (; value > 127; value >>= 7)
        *out++ = (unsigned char)(value | 128);
    *out++ = (unsigned char)value;
    return out;
}

/* The low half as a number with sign. */
static uint64_t low(uint64_t word) { return (uint64_t)(int64_t)(int32_t)word; }

unsigned char *gm_pack(struct gm_packing *packing, unsigned char *out, const struct gm_event *event) {
    uint64_t words[GM_PACKED_WORDS];
    memcpy(words, event, sizeof words);
    unsigned char *which = out++;
    unsigned bits = event->action >> 1 & BIT_LAST; /* an allocation is not compared with a free */
    uint64_t *last = packing->last[bits];
    if (words[SEQ] != packing->seq + 1) {
        bits |= BIT_SEQ;
        out = put_difference(out, words[SEQ] - packing->seq - 1);
    }
    out = put_difference(out, words[TIME] - packing->time_ns);
    for (unsigned i = TIME + 1; i < GM_PACKED_WORDS; i++) {
        if (words[i] == last[i])
            continue;
        bits |= 1u << i;
        if (i == HALVES)
            out = put_difference(out, low(words[i] - last[i]));
        out = put_difference(out, i == HALVES ? low((words[i] >> 32) - (last[i] >> 32)) : words[i] - last[i]);
    }
    *which = (unsigned char)bits;
    packing->seq = words[SEQ];
    packing->time_ns = words[TIME];
    memcpy(last, words, sizeof words);
    return out;
}

static const unsigned char *get_difference(const unsigned char *p, const unsigned char *end, uint64_t *difference) {
    uint64_t value = 0;
    for (unsigned shift = 0; p && p < end && shift < 64; shift += 7) {
        value |= (uint64_t)(*p & 127) << shift;
        if (!(*p++ & 128)) {
            *difference = value >> 1 ^ (0 - (value & 1));
            return p;
        }
    }
    return NULL;
}

const unsigned char *gm_unpack(struct gm_packing *packing, const unsigned char *p, const unsigned char *end,
                               struct gm_event *event) {
    if (p >= end)
        return NULL;
    unsigned bits = *p++;
    uint64_t *words = packing->last[bits & BIT_LAST], difference = 0, upper = 0;
    words[SEQ] = packing->seq + 1;
    words[TIME] = packing->time_ns;
    for (unsigned i = SEQ; i < GM_PACKED_WORDS && p; i++) {
        if (i != TIME && !(bits & (i == SEQ ? BIT_SEQ : 1u << i)))
            continue;
        p = get_difference(p, end, &difference);
        if (i == HALVES) {
            p = get_difference(p, end, &upper);
            words[i] = ((words[i] >> 32) + upper) << 32 | (uint32_t)(words[i] + difference);
        } else {
            words[i] += difference;
        }
    }
    packing->seq = words[SEQ];
    packing->time_ns = words[TIME];
    memcpy(event, words, sizeof *event);
    return p;
}
