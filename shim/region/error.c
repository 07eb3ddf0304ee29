#include "shim/region/error.h"

#include "shim/gpumem.h"

static __thread char text[320];

__attribute__((visibility("default"))) const char *gpumem_last_error(void) { return text; }

gm_status gm_fail(gm_status status, const char *format, ...) {
    va_list args;
    va_start(args, format);
    gm_vformat(text, sizeof text, format, args);
    va_end(args);
    return status;
}
