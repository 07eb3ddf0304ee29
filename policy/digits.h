/* The one reader of decimal numbers, for all parsers of policies and options. */
#ifndef GM_DIGITS_H
#define GM_DIGITS_H

#include <stdbool.h>
#include <stdint.h>
#include <stddef.h>

/* Reads the digits from *at on, up to `end` (NULL: the text ends with a byte 0), and moves *at behind them. False, and
 * nothing changes: there are none, or the number does not fit. */
static inline bool gm_read_digits(const char **at, const char *end, uint64_t *value) {
    const char *p = *at;
    uint64_t sum = 0;
    for (; p != end && *p >= '0' && *p <= '9'; p++)
        if (__builtin_mul_overflow(sum, 10u, &sum) || __builtin_add_overflow(sum, (uint64_t)(*p - '0'), &sum))
            return false;
    if (p == *at)
        return false;
    *at = p;
    *value = sum;
    return true;
}

#endif
