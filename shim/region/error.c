#include "shim/region/error.h"

#include "shim/base/room.h"
#include "shim/gpumem.h"

enum { TEXT = 320 };

_Static_assert(TEXT <= GM_ROOM_BYTES - GM_ROOM_ERROR, "fits");

static char *text(void) {
    static char everybodys[TEXT];
    char *own = gm_room_part(GM_ROOM_ERROR);
    return own ? own : everybodys;
}

__attribute__((visibility("default"))) const char *gpumem_last_error(void) { return text(); }

gm_status gm_fail(gm_status status, const char *format, ...) {
    va_list args;
    va_start(args, format);
    gm_vformat(text(), TEXT, format, args);
    va_end(args);
    return status;
}
