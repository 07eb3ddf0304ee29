/* A call site as text in a line of the log. */
#ifndef GM_SITE_TEXT_H
#define GM_SITE_TEXT_H

#include "shim/base/base.h"

struct gm_site_text {
    char text[200];
};

/* "function (module+0xoffset)", or "module+0xoffset" where the module's file has no symbol there. Names the first frame
 * outside the CUDA runtime, also where the runtime is linked into the program, and outside the known wrappers
 * (shim/base/wrappers.h); if all frames are wrappers, the first Python frame that is none, as
 * "train.py:42 step"; without Python frames, the outermost. Asks the loader and reads the modules' files, so
 * call these functions only for lines that are written once. Site 0: "unknown". Return the text. */
GM_INTERNAL const char *gm_site_text(struct gm_site_text *room, uint32_t site);
/* The same for the stack of this thread now. */
GM_INTERNAL const char *gm_site_text_here(struct gm_site_text *room);

/* The frame that gm_site_text names: a return address or a Python frame (GM_FRAME_IS_PYTHON). 0: unknown. */
GM_INTERNAL uintptr_t gm_site_named_frame(uint32_t site);

#endif
