/* Every driver function that has no answer of its own: logged, refused. The definitions are weak, so that
 * refusing_driver.c overrides the few it answers. No CUDA header here: one body serves all signatures, because the
 * calling conventions leave the arguments to the caller. */
#include "driver_rows.h"

enum { NOT_SUPPORTED = 801 }; /* CUDA_ERROR_NOT_SUPPORTED */

#define EXPORTED __attribute__((weak, visibility("default")))
#define ARGUMENTS                                                                                                \
    (void *a, void *b, void *c, void *d, void *e, void *f, void *g, void *h, void *i, void *j, void *k, void *l, \
     double x, double y)
#define SYMBOL(name)                                                                                \
    EXPORTED int name ARGUMENTS;                                                                    \
    EXPORTED int name ARGUMENTS {                                                                   \
        log_call(#name, (void *const[LOGGED_ARGUMENTS]){a, b, c, d, e, f, g, h, i, j, k, l}, x, y); \
        return NOT_SUPPORTED;                                                                       \
    }
#define VARIANT(name, version, per_thread, symbol)
#include "driver_names.inc"
#undef SYMBOL
#undef VARIANT

#define SYMBOL(name)
#define VARIANT(name, version, per_thread, symbol) {name, version, per_thread, #symbol, (void (*)(void))symbol},
const struct driver_row driver_rows[] = {
#include "driver_names.inc"
    {0, 0, 0, 0, 0},
};
