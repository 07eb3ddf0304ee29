/* The rows of calls.h as constant data. */
#include "shim/driver/call.h"

enum { IS_HOOK = true, IS_JUMP = false };

const struct gm_call_row gm_call_rows[GM_CALL_ROWS] = {
#define CALL(symbol, name, version, twin, how, role, stream, meaning, why, memory, reason) \
    {#symbol,                                                                              \
     #name,                                                                                \
     version,                                                                              \
     twin,                                                                                 \
     IS_##how,                                                                             \
     GM_ROLE_##role,                                                                       \
     GM_STREAM_##stream,                                                                   \
     GM_MEANING_##meaning,                                                                 \
     GM_SYNC_##why,                                                                        \
     GM_MEMORY_##memory},
    GM_DRIVER_CALLS(CALL)
#undef CALL
};
