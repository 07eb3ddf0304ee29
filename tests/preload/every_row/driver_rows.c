/* Makes a driver with every function of the table of calls of the simulated one, which has those of one toolkit. Here
 * are the others, weak, and functions that have no row. All are out of memory at the first call after rows_arm(), and
 * fail with another error at later ones.
 *
 * No header of CUDA: one body serves all signatures, because the calling conventions leave the arguments to the caller.
 */
#include "driver_rows.h"

#include <string.h>

#include "shim/driver/calls.h"

#define EXPORTED      __attribute__((visibility("default")))
#define EXPORTED_WEAK __attribute__((weak, visibility("default")))

static __thread struct rows_seen seen; /* gpumem has a thread of its own, which calls, too */

EXPORTED struct rows_seen *rows_arm(void) {
    memset(&seen, 0, sizeof seen);
    return &seen;
}

static int answer(void) { return seen.calls++ ? ROWS_LATER : ROWS_FIRST; }

#define ELEVEN                                                                                                  \
    uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f, uint64_t g, uint64_t h, uint64_t i, \
        uint64_t j, uint64_t k
#define CALL(symbol, ...)                                                     \
    EXPORTED_WEAK int symbol(ELEVEN);                                         \
    EXPORTED_WEAK int symbol(ELEVEN) {                                        \
        const uint64_t words[ROWS_WORDS] = {a, b, c, d, e, f, g, h, i, j, k}; \
        memcpy(seen.words, words, sizeof words);                              \
        return answer();                                                      \
    }
GM_DRIVER_CALLS(CALL)
#undef CALL

/* ---- without a row */

EXPORTED rows_wide cuHasNoRow;
EXPORTED int cuHasNoRow(ELEVEN, uint64_t l, uint64_t m, uint64_t n, uint64_t o, uint64_t p, double x, double y) {
    const uint64_t words[ROWS_WORDS] = {a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p};
    memcpy(seen.words, words, sizeof words);
    seen.numbers[0] = x;
    seen.numbers[1] = y;
    return answer();
}

EXPORTED rows_caller cuCallsBack;
EXPORTED int cuCallsBack(void (*function)(void *), void *argument) {
    function(argument);
    return 0;
}
