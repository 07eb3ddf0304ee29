/* Every driver function that has no answer of its own: logged, refused. The definitions are weak, so that
 * refusing_driver.c overrides the few it answers. No CUDA header here: one untyped body serves all
 * signatures, because the System V calling conventions leave the arguments to the caller. */
#include "driver_rows.h"

enum { NOT_SUPPORTED = 801 }; /* CUDA_ERROR_NOT_SUPPORTED */

#define EXPORTED __attribute__((weak, visibility("default")))
#define SYMBOL(name)                  \
    EXPORTED int name(void);          \
    EXPORTED int name(void) {         \
        log_line("call %s\n", #name); \
        return NOT_SUPPORTED;         \
    }
#define VARIANT(name, version, per_thread, symbol)
#include "driver_names.inc"
#undef SYMBOL
#undef VARIANT

#define SYMBOL(name)
#define VARIANT(name, version, per_thread, symbol) {name, version, per_thread, #symbol, symbol},
const struct driver_row driver_rows[] = {
#include "driver_names.inc"
    {0, 0, 0, 0, 0},
};
