#ifndef GM_HOOK_CAPTURE_H
#define GM_HOOK_CAPTURE_H

#include "shim/hook/hook.h"

/* Records a capture that ended without cuStreamEndCapture; for gm_capture_on_lost. */
void gm_hook_capture_lost(const struct gm_capture *capture);

#endif
