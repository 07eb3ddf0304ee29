/* A call site as text in a line of the log. */
#ifndef GM_SITE_TEXT_H
#define GM_SITE_TEXT_H

#include "shim/base/base.h"

enum { GM_SITE_NAMED = 8, GM_SITE_SHOWN = 3 };

struct gm_site_text {
    char text[400];
};

/* Writes the frames of a site that say who requested the memory, innermost first, and returns their number: return
 * addresses, then Python frames (GM_FRAME_IS_PYTHON). The first one lies outside the CUDA runtime, also where the
 * runtime is linked into the program, and outside the known wrappers (shim/base/wrappers.h). If all frames are
 * wrappers, it is the first Python frame that is none; without Python frames, the outermost. Further frames are no
 * wrappers. Asks the loader and reads the modules' files, so call these functions only for lines that are written once.
 * Site 0: 0. */
GM_INTERNAL unsigned gm_site_named(uint32_t site, uintptr_t frames[GM_SITE_NAMED]);
/* The same for the stack of this thread now. */
GM_INTERNAL unsigned gm_site_named_here(uintptr_t frames[GM_SITE_NAMED]);

/* Names at most GM_SITE_SHOWN of these frames, as in "solve (app+0x12a0) < main (app+0x1f00)" or "train.py:42 step". A
 * frame is "function (module+0xoffset)", or "module+0xoffset" where the module's file has no symbol there. No frame:
 * "unknown". Returns the text. */
GM_INTERNAL const char *gm_frames_text(struct gm_site_text *room, const uintptr_t *frames, unsigned count);
/* The frames of a site. */
GM_INTERNAL const char *gm_site_text(struct gm_site_text *room, uint32_t site);

#endif
